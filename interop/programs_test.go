package interop

// Programs of librdmacm in the guest against package rdmacm here: what each does is played by a few
// lines. Their messages go one way, then the other; who begins is the program's affair.

import (
	"context"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// here is this machine's end of the lab's network.
type here struct {
	*arena
	t   *testing.T
	ctx context.Context
	dev *roce.Device
	ch  *rdmacm.EventChannel
	pd  *roce.PD
	cq  *roce.CQ
	mr  *roce.MR
}

// room is how many bytes a message may have here, with its GRH.
const room = 256

// newHere opens our device in the lab's network.
func (a *arena) newHere(t *testing.T, address string) *here {
	ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
	h := &here{arena: a, t: t, ctx: ctx}
	var err error
	require.NoError(t, a.Do(func() error { h.dev, err = roce.Open("udp:"+address, nil); return err }))
	h.ch, err = rdmacm.NewEventChannel(&rdmacm.Config{Devices: []*roce.Device{h.dev}})
	require.NoError(t, err)
	h.pd, err = h.dev.AllocPD()
	require.NoError(t, err)
	h.cq, err = h.dev.CreateCQ(roce.CQInitAttr{CQE: 256})
	require.NoError(t, err)
	h.mr, err = h.pd.RegMR(make([]byte, 64*room), roce.LocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, h.mr.Close())
		require.NoError(t, h.ch.Close())
		require.NoError(t, h.cq.Close())
		require.NoError(t, h.pd.Close())
		require.NoError(t, h.dev.Close())
	})
	return h
}

// guest starts a program in the guest.
func (h *here) guest(args ...string) *end {
	c := h.Command(h.ctx, args[0], args[1:]...)
	e := &end{process: c, name: args[0], out: &output{}}
	c.Stdout, c.Stderr = e.out, e.out
	require.NoError(h.t, e.start())
	return e
}

// ends waits for a program of the guest, which must be content.
func (h *here) ends(e *end) {
	e.wait()
	require.NoError(h.t, e.err, "%s:\n%s", e.name, e.out)
}

// next takes an event of a type.
func (h *here) next(want rdmacm.EventType) *rdmacm.Event {
	h.t.Helper()
	e, err := h.ch.Get(h.ctx)
	require.NoError(h.t, err)
	require.Equal(h.t, want, e.Type, "%v", e)
	return e
}

// id makes an ID.
func (h *here) id(space rdmacm.PortSpace) *rdmacm.ID {
	id, err := h.ch.CreateID(space)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, id.Close()) })
	return id
}

// listen listens on a port.
func (h *here) listen(space rdmacm.PortSpace, port int) {
	id := h.id(space)
	require.NoError(h.t, id.BindAddr(netip.AddrPortFrom(h.dev.GIDs()[0].Addr(), uint16(port))))
	require.NoError(h.t, id.Listen(0))
}

// reach is an ID that can connect to a port of the guest.
func (h *here) reach(space rdmacm.PortSpace, to string, port int) *rdmacm.ID {
	id := h.id(space)
	dst := netip.AddrPortFrom(netip.MustParseAddr(to), uint16(port))
	require.NoError(h.t, h.Do(func() error { return id.ResolveAddr(netip.AddrPort{}, dst, 0) }))
	h.next(rdmacm.EventAddrResolved)
	require.NoError(h.t, id.ResolveRoute(0))
	h.next(rdmacm.EventRouteResolved)
	return id
}

// pair gives an ID a queue pair with receives posted.
func (h *here) pair(id *rdmacm.ID, recvs int) *roce.QP {
	q, err := id.CreateQP(h.pd, roce.QPInitAttr{SendCQ: h.cq, SQSigAll: true})
	require.NoError(h.t, err)
	for i := range recvs {
		require.NoError(h.t, q.PostRecv(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{h.mr.SGE(i*room, room)}}))
	}
	return q
}

// completes waits for n completions, which must be good, and returns the last.
func (h *here) completes(n int) (wc roce.WC) {
	h.t.Helper()
	for range n {
		var wcs [1]roce.WC
		_, err := h.cq.Wait(h.ctx, wcs[:])
		require.NoError(h.t, err)
		require.Equal(h.t, roce.WCSuccess, wcs[0].Status, "%v", wcs[0].Opcode)
		wc = wcs[0]
	}
	return wc
}

// send sends n messages of a size, like wr in other things.
func (h *here) send(q *roce.QP, n, size int, wr roce.SendWR) {
	h.t.Helper()
	for range n {
		wr.SGL = []roce.SGE{h.mr.SGE(63*room, size)}
		require.NoError(h.t, q.PostSend(wr))
	}
	h.completes(n)
}

// talks are the programs that connect: who speaks first, and how much.
var talks = []struct {
	server, client []string // and their options; the port follows
	clientFirst    bool
	oneWay         bool // the client alone speaks
	count, size    int
}{
	{[]string{"rdma_server", "-p"}, []string{"rdma_client", "-p"}, true, false, 1, 16},
	{[]string{"rdma_xserver", "-p"}, []string{"rdma_xclient", "-p"}, true, true, 1, 16},
	{[]string{"ucmatose", "-p"}, []string{"ucmatose", "-p"}, false, false, 10, 100},
	{[]string{"ucmatose", "-C", "3", "-S", "200", "-p"}, []string{"ucmatose", "-C", "3", "-S", "200", "-p"}, false, false, 3, 200},
}

// TestPrograms: programs that connect and exchange messages, as client and as server.
func TestPrograms(t *testing.T) {
	a := theArena(t)
	for _, talk := range talks {
		for _, role := range roles {
			t.Run(talk.server[0]+"/"+strconv.Itoa(talk.size)+"/ours-is-"+role.name, func(t *testing.T) {
				h := a.newHere(t, lab.HostIPv4)
				port := int(a.port.Add(1))
				var g *end
				var id *rdmacm.ID
				var q *roce.QP
				if role.serving {
					h.listen(rdmacm.PSTCP, port)
					g = h.guest(append(talk.client, strconv.Itoa(port), "-s", lab.HostIPv4)...)
					id = h.next(rdmacm.EventConnectRequest).ID
					t.Cleanup(func() { require.NoError(t, id.Close()) })
					q = h.pair(id, talk.count)
					require.NoError(t, id.Accept(nil))
				} else {
					g = h.guest(append(talk.server, strconv.Itoa(port))...)
					require.NoError(t, a.waitRDMA(h.ctx, port))
					id = h.reach(rdmacm.PSTCP, lab.GuestIPv4, port)
					q = h.pair(id, talk.count)
					require.NoError(t, id.Connect(nil))
				}
				h.next(rdmacm.EventEstablished)
				first := talk.clientFirst != role.serving // we speak first
				if first {
					h.send(q, talk.count, talk.size, roce.SendWR{Opcode: roce.WRSend})
				}
				if !first || !talk.oneWay {
					h.completes(talk.count)
				}
				if !first && !talk.oneWay {
					h.send(q, talk.count, talk.size, roce.SendWR{Opcode: roce.WRSend})
				}
				if role.serving {
					require.NoError(t, id.Disconnect())
					h.next(rdmacm.EventDisconnected)
				} else {
					h.next(rdmacm.EventDisconnected)
					require.NoError(t, id.Disconnect())
				}
				h.ends(g)
			})
		}
	}
}

// udaddyPort is fixed.
const udaddyPort = 7174

// TestUdaddy: datagrams, whose queue pair is found by service ID resolution.
func TestUdaddy(t *testing.T) {
	a := theArena(t)
	const count, size = 10, 100
	t.Run("ours-is-server", func(t *testing.T) {
		h := a.newHere(t, lab.HostIPv4)
		h.listen(rdmacm.PSUDP, udaddyPort)
		g := h.guest("udaddy", "-s", lab.HostIPv4)
		id := h.next(rdmacm.EventConnectRequest).ID
		t.Cleanup(func() { require.NoError(t, id.Close()) })
		q := h.pair(id, count)
		require.NoError(t, id.Accept(nil))
		wc := h.completes(count)
		require.Equal(t, roce.WCWithImm, wc.Flags&roce.WCWithImm)
		ah, err := h.pd.CreateAHFromWC(h.ctx, &wc, h.mr.Bytes()[int(wc.WRID)*room:])
		require.NoError(t, err)
		h.send(q, count, size, roce.SendWR{Opcode: roce.WRSendWithImm, Imm: q.QPN(), AH: ah, RemoteQPN: wc.Imm, RemoteQKey: rdmacm.UDPQKey})
		h.ends(g)
		require.NoError(t, h.pd.DestroyAH(ah))
	})
	t.Run("ours-is-client", func(t *testing.T) {
		h := a.newHere(t, lab.HostIPv4)
		g := h.guest("udaddy")
		require.NoError(t, a.waitRDMA(h.ctx, udaddyPort))
		id := h.reach(rdmacm.PSUDP, lab.GuestIPv4, udaddyPort)
		q := h.pair(id, count)
		require.NoError(t, id.Connect(nil))
		to := h.next(rdmacm.EventEstablished).Datagram
		ah, err := h.pd.CreateAH(h.ctx, to.AH)
		require.NoError(t, err)
		h.send(q, count, size, roce.SendWR{Opcode: roce.WRSendWithImm, Imm: q.QPN(), AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey})
		h.completes(count)
		h.ends(g)
		require.NoError(t, h.pd.DestroyAH(ah))
	})
}

// TestMckey: a multicast group, ours sending and ours receiving.
func TestMckey(t *testing.T) {
	a := theArena(t)
	const count, size, group = 10, 100, "239.7.7.7"
	join := func(h *here, sendOnly bool) (*roce.QP, *roce.AH, rdmacm.DatagramParam) {
		id := h.id(rdmacm.PSUDP)
		require.NoError(t, id.BindAddr(netip.AddrPortFrom(netip.MustParseAddr(lab.HostIPv4), 0)))
		q := h.pair(id, count)
		require.NoError(t, id.JoinMulticast(netip.MustParseAddr(group), sendOnly, nil))
		to := h.next(rdmacm.EventMulticastJoin).Datagram
		ah, err := h.pd.CreateAH(h.ctx, to.AH)
		require.NoError(t, err)
		h.t.Cleanup(func() { require.NoError(t, h.pd.DestroyAH(ah)) })
		return q, ah, to
	}
	t.Run("ours-receives", func(t *testing.T) {
		h := a.newHere(t, lab.HostIPv4)
		join(h, false)
		// Of mckey's ten datagrams often only the first leaves, and now and then none: it posts
		// them without completions, and closes the queue pair at once, while rxe0 is still at work.
		var wcs [1]roce.WC
		for n := 0; n == 0; {
			g := h.guest("mckey", "-C", "10", "-S", "100", "-m", group, "-s", "-b", lab.GuestIPv4)
			h.ends(g)
			var err error
			n, err = h.cq.Poll(wcs[:])
			require.NoError(t, err)
			require.NoError(t, h.ctx.Err(), "no datagram of any mckey has come")
		}
		require.Equal(t, roce.WCSuccess, wcs[0].Status)
		require.Equal(t, uint32(size+roce.GRHSize), wcs[0].ByteLen)
	})
	t.Run("ours-sends", func(t *testing.T) {
		h := a.newHere(t, lab.HostIPv4)
		q, ah, to := join(h, true)
		g := h.guest("mckey", "-C", "10", "-S", "100", "-m", group, "-b", lab.GuestIPv4)
		// It does not say when it is a member; what came before that is lost.
		for !g.ended() && h.ctx.Err() == nil {
			h.send(q, 1, size, roce.SendWR{Opcode: roce.WRSendWithImm, Imm: q.QPN(), AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey})
		}
		h.ends(g)
	})
}
