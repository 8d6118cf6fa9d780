package conformance

// UD: one packet, to whom the request says, with a header of 40 bytes before it; and multicast.

import (
	"errors"

	"github.com/goroce/goroce/roce"
)

func datagrams() []Case {
	return []Case{
		{"datagrams", datagramsAct, datagramsServe},
		{"a datagram is answered", answeredActs, answeredServes},
		{"a datagram with another Q_Key", otherKeyActs, otherKeyServes},
		{"address handles", handlesAct, nil},
		{"multicast", groupActs, groupServes},
	}
}

const qkey = 0x11111111

// active makes a UD queue pair that is ready, with memory for datagrams.
func active(e *End) {
	e.Make(roce.UD, 2*(roce.GRHSize+4096))
	e.Must(e.QP.Activate(qkey))
	e.Swap()
}

// handle makes an address handle to the other end.
func handle(e *End, to roce.GID) *roce.AH {
	ah, err := e.PD.CreateAH(e.ctx, roce.AHAttr{DGID: to})
	e.Must(err)
	e.later(func() error { return e.PD.DestroyAH(ah) })
	return ah
}

// datagramSizes are those that fit a packet of the smallest port.
var datagramSizes = []int{0, 1, 512, 1024}

func datagramsAct(e *End) {
	active(e)
	ah := handle(e, e.Peer.Endpoint.GID)
	for i, n := range datagramSizes {
		copy(e.Buf, pattern(n, i))
		e.Sync()
		e.Send(roce.SendWR{Opcode: roce.WRSendWithImm, Flags: roce.SendSignaled, Imm: immediate,
			SGL: []roce.SGE{e.MR.SGE(0, n)}, AH: ah, RemoteQPN: e.Peer.Endpoint.QPN, RemoteQKey: qkey})
		e.Good(roce.WCSend)
		e.Sync()
	}
}

func datagramsServe(e *End) {
	active(e)
	for i, n := range datagramSizes {
		clear(e.Buf)
		e.Recv(1, 0, roce.GRHSize+n)
		e.Sync()
		wc := e.Good(roce.WCRecv)
		e.Check(wc.ByteLen == uint32(roce.GRHSize+n) && wc.SrcQP == e.Peer.Endpoint.QPN && wc.Flags&roce.WCGRH != 0 &&
			wc.Flags&roce.WCWithImm != 0 && wc.Imm == immediate, "%d bytes: %+v", n, wc)
		checkNetwork(e, &wc)
		e.Same(e.Buf[roce.GRHSize:][:n], i)
		e.Sync()
	}
}

// checkNetwork holds what a completion says of the datagram's network header against the GRH. A
// device may say nothing of it.
func checkNetwork(e *End, wc *roce.WC) {
	want, sl := roce.NetworkIPv6, uint8(9)
	if e.Buf[0] == 0 { // 20 zeros, and an IPv4 header
		want, sl = roce.NetworkIPv4, 10
	}
	e.Check(wc.NetworkType == 0 || wc.NetworkType == want && wc.SL == sl,
		"network type %d and SL %d, want %d and %d", wc.NetworkType, wc.SL, want, sl)
}

// answeredServes knows nothing of the sender but what came with the datagram.
func answeredServes(e *End) {
	active(e)
	e.Recv(1, 0, roce.GRHSize+64)
	e.Sync()
	wc := e.Good(roce.WCRecv)
	attr, err := roce.AHAttrFromWC(&wc, e.Buf[:roce.GRHSize])
	e.Must(err)
	e.Check(attr.DGID == e.Peer.Endpoint.GID, "the sender is %v, want %v", attr.DGID, e.Peer.Endpoint.GID)
	ah, err := e.PD.CreateAHFromWC(e.ctx, &wc, e.Buf[:roce.GRHSize])
	e.Must(err)
	e.later(func() error { return e.PD.DestroyAH(ah) })
	e.Send(roce.SendWR{
		Opcode:     roce.WRSend,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(roce.GRHSize, 64)},
		AH:         ah,
		RemoteQPN:  wc.SrcQP,
		RemoteQKey: qkey,
	})
	e.Good(roce.WCSend)
}

func answeredActs(e *End) {
	active(e)
	ah := handle(e, e.Peer.Endpoint.GID)
	copy(e.Buf, pattern(64, 1))
	e.Recv(2, 1024, roce.GRHSize+64)
	e.Sync()
	e.Send(roce.SendWR{
		Opcode:     roce.WRSend,
		SGL:        []roce.SGE{e.MR.SGE(0, 64)},
		AH:         ah,
		RemoteQPN:  e.Peer.Endpoint.QPN,
		RemoteQKey: qkey,
	})
	e.Good(roce.WCRecv)
	e.Same(e.Buf[1024+roce.GRHSize:][:64], 1)
}

// otherKeyActs sends one that is to be dropped before one that is not.
func otherKeyActs(e *End) {
	active(e)
	ah := handle(e, e.Peer.Endpoint.GID)
	e.Sync()
	for i, key := range []uint32{qkey + 1, qkey} {
		e.Send(roce.SendWR{
			Opcode:     roce.WRSendWithImm,
			Flags:      roce.SendSignaled,
			Imm:        uint32(i),
			AH:         ah,
			RemoteQPN:  e.Peer.Endpoint.QPN,
			RemoteQKey: key,
		})
		e.Good(roce.WCSend)
	}
}

func otherKeyServes(e *End) {
	active(e)
	e.Recv(1, 0, 64)
	e.Sync()
	wc := e.Good(roce.WCRecv)
	e.Check(wc.Imm == 1, "the datagram with another Q_Key was taken")
}

func handlesAct(e *End) {
	e.Make(roce.UD, 64)
	e.Must(e.QP.Activate(qkey))
	gid := e.GIDs()[0]
	ah, err := e.PD.CreateAH(e.ctx, roce.AHAttr{DGID: gid})
	e.Must(err)
	e.Must(e.PD.DestroyAH(ah))
	e.Refused("destroying it twice", e.PD.DestroyAH(ah), roce.ErrInvalid)
}

// group is of the block for documentation.
const group = "233.252.0.17"

// attach attaches the queue pair, or skips where the port has no multicast.
func attach(e *End) roce.GID {
	g, err := roce.ParseGID(group)
	e.Must(err)
	if !e.GIDs()[0].Is4() {
		e.Skip("%s has no IPv4 address, and the group is one", e.Name())
	}
	err = e.QP.AttachMcast(g)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	return g
}

// apart skips where both ends are one device: not every device hears what it says to a group.
func apart(e *End) {
	if e.Peer.Endpoint.GID == e.GIDs()[0] {
		e.Skip("both ends are one device, which need not hear its own datagrams to a group")
	}
}

func groupServes(e *End) {
	active(e)
	apart(e)
	g := attach(e)
	other, err := roce.ParseGID("233.252.0.71")
	e.Must(err)
	e.Must(e.QP.AttachMcast(other))
	e.Must(e.QP.DetachMcast(other)) // and not the first one
	e.Recv(1, 0, roce.GRHSize+64)
	e.Sync()
	var wcs [1]roce.WC
	for n := 0; n == 0; {
		var sent int
		e.Hear(&sent)
		n, err = e.CQ.Poll(wcs[:])
		e.Must(err)
		e.Tell(n)
	}
	wc := wcs[0]
	e.Check(wc.Status == roce.WCSuccess && wc.Opcode == roce.WCRecv && wc.ByteLen == roce.GRHSize+64 &&
		wc.SrcQP == e.Peer.Endpoint.QPN, "%+v", wc)
	e.Same(e.Buf[roce.GRHSize:][:64], 7)
	e.Must(e.QP.DetachMcast(g))
	e.Refused("detaching twice", e.QP.DetachMcast(g), roce.ErrInvalid)
}

// groupActs sends until a datagram has come: who has joined a group is a member when the switches
// between and its NIC's filter know it, which no verb waits for.
func groupActs(e *End) {
	active(e)
	apart(e)
	g, err := roce.ParseGID(group)
	e.Must(err)
	e.Refused("attaching to no group", e.QP.AttachMcast(e.Peer.Endpoint.GID), roce.ErrInvalid)
	ah := handle(e, g)
	copy(e.Buf, pattern(64, 7))
	e.Sync()
	const multicastQPN = 0xffffff
	for sent, came := 1, 0; came == 0; sent++ {
		e.Send(roce.SendWR{
			Opcode:     roce.WRSend,
			Flags:      roce.SendSignaled,
			SGL:        []roce.SGE{e.MR.SGE(0, 64)},
			AH:         ah,
			RemoteQPN:  multicastQPN,
			RemoteQKey: qkey,
		})
		e.Good(roce.WCSend)
		e.Tell(sent)
		e.Hear(&came)
	}
}
