package conformance

// Who may touch which memory: regions, rights, windows.

import (
	"bytes"
	"errors"
	"math"
	"os"

	"github.com/goroce/goroce/roce"
)

func rights() []Case {
	return []Case{
		{"regions", regionsAct, nil},
		{"a region is registered again", reregActs, reregServes},
		{"registering again, refused", reregRefused, nil},
		{"a region of a Buffer", bufferActs, bufferServes},
		{"a null region", nullActs, nullServes},
		{"regions on demand", onDemandActs, onDemandServes},
		{"a window is bound, used and invalidated", windowActs, windowServes},
		{"SEND with invalidate", invalidateActs, invalidateServes},
		{"a window of type 1 is bound, bound elsewhere and unbound", window1Acts, window1Serves},
		{"binds that are refused", bindsAct, connectedServes},
		{"a bind that goes too far", badBindActs, connectedServes},
	}
}

func regionsAct(e *End) {
	e.Furnish(4096)
	again := e.Region(e.Buf, roce.LocalWrite)
	e.Check(again.LKey() != e.MR.LKey(), "two regions have the lkey 0x%x", again.LKey())
	e.Check(again.Addr() == e.MR.Addr() && again.Len() == 4096, "region at 0x%x of %d", again.Addr(), again.Len())

	// as far into its page as the memory, which is what devices of the kernel want
	page := uint64(os.Getpagesize())
	iova := page<<20 + e.MR.Addr()%page
	elsewhere, err := e.PD.RegMRIOVA(e.Buf, iova, roce.LocalWrite)
	e.Must(err)
	e.Check(elsewhere.Addr() == iova && elsewhere.SGE(5, 6).Addr == iova+5, "region at 0x%x, want 0x%x",
		elsewhere.Addr(), iova)
	e.Must(elsewhere.Close())
	e.Must(elsewhere.Close())
}

// onDemandActs sends from a region on demand, and from one that is the whole address space, as far
// as the device says that it can.
func onDemandActs(e *End) {
	e.Join(roce.RC, 64)
	caps := e.Query().ODP
	if caps.General&roce.ODPSupport == 0 || caps.RC&roce.ODPSupportSend == 0 {
		e.Skip("%s sends from no region on demand", e.Name())
	}
	copy(e.Buf, pattern(64, 3))
	m := e.Region(e.Buf, roce.LocalWrite|roce.OnDemand)
	from := []roce.SGE{m.SGE(0, 64), m.SGE(0, 64)}
	if caps.General&roce.ODPSupportImplicit != 0 {
		all, err := e.PD.RegMRAt(0, math.MaxUint64, 0, roce.LocalWrite|roce.OnDemand)
		e.Must(err)
		e.later(all.Close)
		from[1].LKey = all.LKey()
	}
	e.Sync()
	for i := range from {
		e.Send(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: from[i : i+1]})
		e.Good(roce.WCSend)
	}
}

func onDemandServes(e *End) {
	e.Join(roce.RC, 128)
	for i := range 2 {
		e.Recv(uint64(i), 64*i, 64)
	}
	e.Sync()
	for i := range 2 {
		e.Good(roce.WCRecv)
		e.Same(e.Buf[64*i:][:64], 3)
	}
}

const nulls = 5000 // more than a packet has

// nullActs writes zeros around some bytes, reads them back without the first zeros, and receives
// without the first bytes.
func nullActs(e *End) {
	e.Join(roce.RC, 3*4096)
	null, err := e.PD.AllocNullMR()
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	e.later(null.Close)
	copy(e.Buf, pattern(100, 5))
	e.Sync()
	first, last := roce.SGE{Length: nulls, LKey: null.LKey()}, roce.SGE{Addr: 1 << 60, Length: 3, LKey: null.LKey()}
	e.Send(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled, SGL: []roce.SGE{first, e.MR.SGE(0, 100), last},
		RemoteAddr: e.Peer.Addr, RKey: e.Peer.RKey})
	e.Good(roce.WCRDMAWrite)
	copy(e.Buf[4096:], pattern(103, 1))
	e.Send(roce.SendWR{Opcode: roce.WRRead, Flags: roce.SendSignaled, SGL: []roce.SGE{first, e.MR.SGE(4096, 103)},
		RemoteAddr: e.Peer.Addr, RKey: e.Peer.RKey})
	e.Good(roce.WCRDMARead)
	e.Same(e.Buf[4096:][:100], 5)
	e.Check([3]byte(e.Buf[4196:]) == [3]byte{}, "the zeros are %x", e.Buf[4196:][:3])
	e.Must(e.QP.PostRecv(roce.RecvWR{SGL: []roce.SGE{last, e.MR.SGE(8192, 64)}}))
	e.Sync()
	wc := e.Good(roce.WCRecv)
	e.Check(wc.ByteLen == 67, "%+v", wc)
	e.Same(e.Buf[8192:][:64], 6)
	err = null.Rereg(roce.ReregAccess, nil, nil, roce.LocalWrite)
	e.Refused("a null region registered again", err, roce.ErrInvalid)
}

func nullServes(e *End) {
	e.Join(roce.RC, 3*4096)
	copy(e.Buf, pattern(len(e.Buf), 2))
	e.Sync()
	e.Sync() // it is written
	e.Check(bytes.Count(e.Buf[:nulls], []byte{0}) == nulls, "the first bytes are not all 0")
	e.Same(e.Buf[nulls:][:100], 5)
	end := e.Buf[nulls+100:]
	e.Check([3]byte(end) == [3]byte{} && end[3] == pattern(len(e.Buf), 2)[nulls+103], "the last bytes are %x", end[:4])
	copy(e.Buf[3:], pattern(64, 6))
	e.Send(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: []roce.SGE{e.MR.SGE(0, 67)}})
	e.Good(roce.WCSend)
}

// buffer makes a region of memory that is not Go's, of huge pages if there are any.
func buffer(e *End, size int) (*roce.Buffer, *roce.MR) {
	b, err := roce.AllocBuffer(size, &roce.BufferOptions{HugePages: true})
	e.Must(err)
	e.later(b.Close)
	return b, e.Region(b.Bytes(), roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
}

const bufferSize = 3 << 20

func bufferActs(e *End) {
	e.Join(roce.RC, 64)
	b, m := buffer(e, bufferSize)
	var c Card
	e.Hear(&c)
	copy(b.Bytes(), pattern(bufferSize, 3))
	e.Send(roce.SendWR{
		Opcode:     roce.WRWrite,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{m.SGE(0, bufferSize)},
		RemoteAddr: c.Addr,
		RKey:       c.RKey,
	})
	e.Good(roce.WCRDMAWrite)
	clear(b.Bytes())
	e.Send(roce.SendWR{
		Opcode:     roce.WRRead,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{m.SGE(0, bufferSize)},
		RemoteAddr: c.Addr,
		RKey:       c.RKey,
	})
	e.Good(roce.WCRDMARead)
	e.Same(b.Bytes(), 3)
	e.Sync()
	e.Refused("closing a buffer that a region is made of", b.Close(), roce.ErrBusy)
	e.Must(m.Close())
	e.Must(b.Close())
	e.Check(b.Bytes() == nil, "a closed buffer has bytes")
}

func bufferServes(e *End) {
	e.Join(roce.RC, 64)
	b, m := buffer(e, bufferSize)
	e.Tell(Card{Addr: m.Addr(), RKey: m.RKey()})
	e.Sync()
	e.Same(b.Bytes(), 3)
}

// rereg registers again, or skips where a device cannot.
func rereg(e *End, m *roce.MR, flags roce.ReregFlags, pd *roce.PD, buf []byte, access roce.Access) {
	err := m.Rereg(flags, pd, buf, access)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
}

// reregServes has a region that gets other memory, and then loses the right that the other end
// uses.
func reregServes(e *End) {
	e.Join(roce.RC, 64)
	const write = roce.LocalWrite | roce.RemoteWrite
	before, after := make([]byte, 4096), make([]byte, 8192)
	m := e.Region(before, write)
	tell := func() {
		e.Tell(Card{Addr: m.Addr(), RKey: m.RKey()})
		e.Sync() // it has written
	}
	tell()
	e.Same(before[:64], 7)
	clear(before)
	rereg(e, m, roce.ReregTranslation, nil, after, 0)
	e.Check(m.Len() == len(after) && &m.Bytes()[0] == &after[0], "it is of %d bytes", m.Len())
	tell()
	e.Same(after[:64], 7)
	e.Check(string(before) == string(make([]byte, len(before))), "the memory from before was written")
	key := m.RKey()
	rereg(e, m, roce.ReregAccess, nil, nil, roce.RemoteRead)
	e.Check(m.RKey() == key && m.Len() == len(after), "with other rights the key is 0x%x, was 0x%x", m.RKey(), key)
	tell()
}

func reregActs(e *End) {
	e.Join(roce.RC, 64)
	copy(e.Buf, pattern(64, 7))
	for i := range 3 {
		var c Card
		e.Hear(&c)
		e.Send(roce.SendWR{
			Opcode:     roce.WRWrite,
			Flags:      roce.SendSignaled,
			SGL:        []roce.SGE{e.MR.SGE(0, 64)},
			RemoteAddr: c.Addr,
			RKey:       c.RKey,
		})
		if i < 2 {
			e.Good(roce.WCRDMAWrite)
		} else {
			e.Bad(roce.WCRemAccessErr)
		}
		e.Sync()
	}
}

func reregRefused(e *End) {
	e.Furnish(4096)
	m := e.Region(make([]byte, 4096), roce.LocalWrite|roce.MWBind)
	rereg(e, m, roce.ReregAccess, nil, nil, roce.LocalWrite)
	e.Refused("nothing", m.Rereg(0, nil, nil, 0), roce.ErrInvalid)
	e.Refused("no domain", m.Rereg(roce.ReregPD, nil, nil, 0), roce.ErrInvalid)
	e.Refused("RemoteWrite without LocalWrite", m.Rereg(roce.ReregAccess, nil, nil, roce.RemoteWrite), roce.ErrInvalid)
	elsewhere, err := e.AllocPD()
	e.Must(err)
	e.later(elsewhere.Close)
	rereg(e, m, roce.ReregPD, elsewhere, nil, 0)
	e.Refused("closing the domain that it is in", elsewhere.Close(), roce.ErrBusy)
	e.Must(m.Close())
	e.Refused("one that is closed", m.Rereg(roce.ReregAccess, nil, nil, 0), roce.ErrClosed)
}

// windows skips where there are none.
func windows(e *End) {
	if a := e.Query(); a.MaxMW == 0 || a.DeviceCaps&roce.CapMemWindow2B == 0 {
		e.Skip("%s has no memory windows of type 2B", e.Name())
	}
}

// bind makes a window of 64 bytes at 128 of the memory, and returns it and its key.
func bind(e *End) (*roce.MW, uint32) {
	region := e.Region(e.Buf, roce.LocalWrite|roce.MWBind)
	w, err := e.PD.AllocMW(roce.MWType2)
	e.Must(err)
	e.later(w.Close)
	key := roce.IncRKey(w.RKey())
	e.Send(roce.SendWR{Opcode: roce.WRBindMW, Flags: roce.SendSignaled,
		Bind: &roce.BindInfo{WindowKey: w.RKey(), NewKey: key,
			LKey: region.LKey(), Addr: region.Addr() + 128, Length: 64, Access: roce.RemoteWrite | roce.RemoteRead}})
	e.Good(roce.WCBindMW)
	e.Check(w.RKey() == key && w.Bound(), "key 0x%x, bound %v", w.RKey(), w.Bound())
	return w, key
}

// windows1 skips where there are none of type 1.
func windows1(e *End) {
	if a := e.Query(); a.MaxMW == 0 || a.DeviceCaps&roce.CapMemWindow == 0 {
		e.Skip("%s has no memory windows", e.Name())
	}
}

// window makes a window and closes it in the end.
func window(e *End, typ roce.MWType) *roce.MW {
	w, err := e.PD.AllocMW(typ)
	e.Must(err)
	e.later(w.Close)
	return w
}

// window1Serves binds a window through one queue pair for the peer of another, thrice.
func window1Serves(e *End) {
	windows1(e)
	e.Join(roce.RC, 4096)
	other := e.Queue(roce.RC)
	region := e.Region(e.Buf, roce.LocalWrite|roce.MWBind)
	w := window(e, roce.MWType1)
	e.Check(!w.Bound() && w.Type() == roce.MWType1, "a new window: bound %v, type %d", w.Bound(), w.Type())
	keys := map[uint32]bool{w.RKey(): true}
	bind := func(off, n uint64) {
		b := roce.MWBindAttr{
			WRID:   7,
			Flags:  roce.SendSignaled,
			MR:     region,
			Addr:   region.Addr() + off,
			Length: n,
			Access: roce.RemoteWrite,
		}
		if n == 0 {
			b = roce.MWBindAttr{WRID: 7, Flags: roce.SendSignaled}
		}
		e.Must(e.QP.BindMW(w, b))
		key := w.RKey()
		e.Check(!keys[key], "the key 0x%x was used before", key)
		keys[key] = true
		wc := e.Good(roce.WCBindMW)
		e.Check(wc.WRID == 7 && w.RKey() == key && w.Bound() == (n > 0), "completion %+v, key 0x%x, bound %v", wc,
			w.RKey(), w.Bound())
	}
	e.Tell(other.Endpoint())
	var peer roce.Endpoint
	e.Hear(&peer)
	o := options()
	e.Must(other.Connect(e.ctx, peer, &o))
	bind(128, 64)
	e.Tell(Card{Addr: region.Addr() + 128, RKey: w.RKey()})
	e.Sync() // written, through the other queue pair
	e.Same(e.Buf[128:][:64], 2)
	bind(512, 64)
	e.Tell(Card{Addr: region.Addr() + 512, RKey: w.RKey()})
	e.Sync()
	e.Same(e.Buf[512:][:64], 2)
	e.Refused("closing the region of a window", region.Close(), roce.ErrBusy)
	bind(0, 0)
	e.Sync()
	e.Sync() // refused
}

func window1Acts(e *End) {
	windows1(e)
	e.Join(roce.RC, 4096)
	other := e.Queue(roce.RC)
	var peer roce.Endpoint
	e.Hear(&peer)
	e.Tell(other.Endpoint())
	o := options()
	e.Must(other.Connect(e.ctx, peer, &o))
	copy(e.Buf, pattern(64, 2))
	var write roce.SendWR
	for range 2 {
		var c Card
		e.Hear(&c)
		write = roce.SendWR{
			Opcode:     roce.WRWrite,
			Flags:      roce.SendSignaled,
			SGL:        []roce.SGE{e.MR.SGE(0, 64)},
			RemoteAddr: c.Addr,
			RKey:       c.RKey,
		}
		e.Must(other.PostSend(write))
		e.Good(roce.WCRDMAWrite)
		e.Sync()
	}
	e.Sync() // it is unbound
	e.Must(other.PostSend(write))
	e.Bad(roce.WCRemAccessErr)
	e.Sync()
}

func bindsAct(e *End) {
	windows1(e)
	e.Join(roce.RC, 4096)
	region := e.Region(e.Buf, roce.LocalWrite|roce.MWBind)
	far, err := elsewhere(e).AllocMW(roce.MWType1)
	e.Must(err)
	e.later(far.Close)
	one := window(e, roce.MWType1)
	b := roce.MWBindAttr{MR: region, Addr: region.Addr(), Length: 8, Access: roce.RemoteRead}
	e.Refused("a window of another domain", e.QP.BindMW(far, b), roce.ErrInvalid)
	b.MR = nil
	e.Refused("bytes of no region", e.QP.BindMW(one, b), roce.ErrInvalid)
	b.MR = region
	fresh := e.Queue(roce.RC)
	e.Refused("through a queue pair in RESET", fresh.BindMW(one, b), roce.ErrState)
	key := one.RKey()
	e.Check(!one.Bound(), "a bind that was refused has bound the window")
	e.Must(e.QP.BindMW(one, b))
	e.Check(one.RKey() != key, "the key has not changed")
	if a := e.Query(); a.DeviceCaps&roce.CapMemWindow2B != 0 {
		e.Refused("a window of type 2", e.QP.BindMW(window(e, roce.MWType2), b), roce.ErrInvalid)
	}
}

// badBindActs binds one byte more than there is.
func badBindActs(e *End) {
	windows1(e)
	e.Join(roce.RC, 64)
	region := e.Region(e.Buf, roce.LocalWrite|roce.MWBind)
	w := window(e, roce.MWType1)
	e.Must(e.QP.BindMW(w, roce.MWBindAttr{MR: region, Addr: region.Addr(), Length: 65, Access: roce.RemoteRead}))
	e.Bad(roce.WCMWBindErr)
	e.Check(e.QP.State() == roce.StateErr, "the queue pair is in %v", e.QP.State())
}

func windowServes(e *End) {
	windows(e)
	e.Join(roce.RC, 4096)
	w, key := bind(e)
	e.Tell(Card{Addr: e.MR.Addr() + 128, RKey: key})
	e.Sync()
	e.Same(e.Buf[128:][:64], 2)
	e.Send(roce.SendWR{Opcode: roce.WRLocalInv, Flags: roce.SendSignaled, InvalidateKey: key})
	e.Good(roce.WCLocalInv)
	e.Check(!w.Bound(), "the window is still bound")
	e.Sync()
}

func windowActs(e *End) {
	windows(e)
	e.Join(roce.RC, 4096)
	var c Card
	e.Hear(&c)
	copy(e.Buf, pattern(64, 2))
	write := roce.SendWR{
		Opcode:     roce.WRWrite,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(0, 64)},
		RemoteAddr: c.Addr,
		RKey:       c.RKey,
	}
	e.Send(write)
	e.Good(roce.WCRDMAWrite)
	e.Sync()
	e.Sync() // it is invalid now
	e.Send(write)
	e.Bad(roce.WCRemAccessErr)
}

func invalidateServes(e *End) {
	windows(e)
	e.Join(roce.RC, 4096)
	_, key := bind(e)
	e.Recv(1, 0, 64)
	e.Recv(2, 0, 64)
	e.Tell(Card{Addr: e.MR.Addr() + 128, RKey: key})
	wc := e.Good(roce.WCRecv)
	e.Check(wc.Flags&roce.WCWithInv != 0 && wc.InvalidatedRKey == key, "invalidates 0x%x of 0x%x, flags %d",
		wc.InvalidatedRKey, key, wc.Flags)
}

func invalidateActs(e *End) {
	windows(e)
	e.Join(roce.RC, 4096)
	var c Card
	e.Hear(&c)
	e.Send(roce.SendWR{
		Opcode:        roce.WRSendWithInv,
		Flags:         roce.SendSignaled,
		InvalidateKey: c.RKey,
		SGL:           []roce.SGE{e.MR.SGE(0, 8)},
	})
	e.Good(roce.WCSend)
	e.Send(roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{e.MR.SGE(0, 8)}, RemoteAddr: c.Addr, RKey: c.RKey})
	e.Bad(roce.WCRemAccessErr)
}
