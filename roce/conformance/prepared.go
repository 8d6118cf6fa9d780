package conformance

// What a row of the table of errors wants to be there: a queue pair that is connected as it says,
// memory with keys of all kinds, receives, and the request that goes wrong.
// Stages: the queue pair; the request and whom it is for; receives; the serving end's situation;
// memory and what opens it.

import (
	"github.com/goroce/goroce/roce"
)

// begin makes the queue pair and connects it.
func (c *condition) begin(w *witness, tune func(*roce.ConnectOptions)) {
	w.Furnish(2 * 4096)
	if c.srq && !w.Acts {
		w.srq = w.share(Depth, 0)
	}
	if c.typ == roce.XRCSend {
		c.makeXRC(w)
	} else {
		w.QP = w.queue(c.typ, w.srq)
	}
	if c.typ == roce.UD {
		w.Must(w.QP.Activate(qkey))
		w.Swap()
		w.Sync()
	} else {
		o := options()
		if tune != nil {
			tune(&o)
		}
		w.Connect(o)
	}
	w.before = w.naks()
}

// makeXRC makes the queue pair of an end of XRC, and where the serving end receives.
func (c *condition) makeXRC(w *witness) {
	x := w.domain()
	w.later(x.Close)
	var err error
	if w.Acts {
		w.QP, err = w.PD.CreateQP(roce.QPInitAttr{
			Type:   roce.XRCSend,
			SendCQ: w.CQ,
			Cap:    roce.QPCap{MaxSendWR: Depth, MaxSendSGE: 3},
		})
	} else {
		attr := roce.SRQInitAttr{MaxWR: Depth, MaxSGE: 3, XRCD: x, CQ: w.CQ}
		if c.to.key == otherDomain {
			attr.XRCD = w.domain()
			w.later(attr.XRCD.Close)
		}
		w.srq, err = w.PD.CreateSRQ(attr)
		w.Must(err)
		w.later(w.srq.Close)
		w.QP, err = w.PD.CreateQP(roce.QPInitAttr{Type: roce.XRCRecv, XRCD: x})
	}
	w.Must(err)
	w.later(w.QP.Close)
}

// request is the row's request.
func (c *condition) request(w *witness, there Card) roce.SendWR {
	wr := c.wr
	wr.WRID, wr.Flags = theRequest, wr.Flags|roce.SendSignaled
	m := c.place(w, c.from, c.n)
	if c.n > 0 {
		wr.SGL = []roce.SGE{{Addr: m.Addr + uint64(c.from.off), Length: uint32(c.n), LKey: m.lkey}}
	}
	if wr.RemoteAddr += there.Addr; c.wrap {
		wr.RemoteAddr = 1<<64 - 8
	}
	wr.RKey = there.RKey
	switch wr.Opcode {
	case roce.WRSendWithInv:
		wr.InvalidateKey = there.RKey
	case roce.WRLocalInv:
		wr.InvalidateKey = m.RKey
	case roce.WRBindMW:
		windows(w.End)
		b := *wr.Bind
		mw := window(w.End, roce.MWType2)
		b.WindowKey, b.NewKey, b.LKey = mw.RKey(), roce.IncRKey(mw.RKey()), m.lkey
		b.Addr += m.Addr
		wr.Bind = &b
	}
	return c.address(w, there, wr)
}

// address adds whom a datagram is for, or which queue.
func (c *condition) address(w *witness, there Card, wr roce.SendWR) roce.SendWR {
	switch c.typ {
	case roce.UD:
		wr.AH = handle(w.End, w.Peer.Endpoint.GID)
		wr.RemoteQPN ^= w.Peer.Endpoint.QPN
		wr.RemoteQKey ^= qkey
	case roce.XRCSend:
		wr.RemoteSRQN ^= there.SRQN
	}
	return wr
}

// receive posts the row's receives.
func (c *condition) receive(w *witness) {
	for i, r := range c.recvs {
		m := c.place(w, r, 0)
		w.post(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{{Addr: m.Addr + uint64(r.off), Length: uint32(r.n),
			LKey: m.lkey}}})
	}
}

// post posts a receive to the queue that the queue pair has.
func (w *witness) post(wr roce.RecvWR) {
	if w.srq != nil {
		w.Must(w.srq.PostRecv(wr))
		return
	}
	w.Must(w.QP.PostRecv(wr))
}

// become has the queue pair be what the row says.
func (w *witness) become(s situation) {
	modify := func(to roce.QPState) error { return w.QP.Modify(w.ctx, &roce.QPAttr{State: to}, roce.AttrState) }
	switch s {
	case closed:
		w.Must(w.QP.Close())
	case reset:
		w.Must(modify(roce.StateReset))
	case failed:
		w.Must(modify(roce.StateErr))
	}
}

// place is where memory is, and what opens it.
type place struct {
	Card
	lkey uint32
	buf  []byte
}

// place makes memory for n bytes of a row.
func (c *condition) place(w *witness, m memory, n int) place {
	if m.access == 0 {
		m.access = everything
	}
	if m.key >= theWindow {
		m.access |= roce.MWBind
	}
	pd, e := w.PD, w.End
	if m.key == otherDomain {
		pd = elsewhere(e)
	}
	buf := make([]byte, max(regionSize, 2*n))
	if w.Acts {
		copy(buf, pattern(len(buf), 6))
	}
	region, err := pd.RegMR(buf, m.access)
	e.Must(err)
	e.later(region.Close)
	p := place{Card: Card{Addr: region.Addr(), RKey: region.RKey()}, lkey: region.LKey(), buf: buf}
	switch m.key {
	case nobody:
		p.lkey ^= 0x00ffff00
		p.RKey ^= 0x00ffff00
	case closedRegion:
		e.Must(region.Close())
	case theWindow, otherWindow, freeWindow:
		p.RKey = w.bindPart(region, m.key)
	case firstWindow, reboundWindow:
		windows1(e)
		mw := window(e, roce.MWType1)
		for range 2 {
			p.RKey = mw.RKey() // the last one but for the window that is bound
			e.Must(e.QP.BindMW(mw, roce.MWBindAttr{
				Flags:  roce.SendSignaled,
				MR:     region,
				Addr:   region.Addr(),
				Length: regionSize / 2,
				Access: roce.RemoteRead,
			}))
			e.Good(roce.WCBindMW)
		}
		if m.key == firstWindow {
			p.RKey = mw.RKey()
		}
	}
	return p
}

// bindPart makes a window of type 2 to the first half of a region, and returns its key.
func (w *witness) bindPart(region *roce.MR, key keyOf) uint32 {
	windows(w.End)
	q := w.QP
	if key == otherWindow { // it is closed after the window, or rxe would wait 50 s for that
		q = w.Queue(roce.RC)
		o := options()
		w.Must(q.Connect(w.ctx, w.Peer.Endpoint, &o))
	}
	mw := window(w.End, roce.MWType2)
	if key == freeWindow {
		return mw.RKey()
	}
	fresh := roce.IncRKey(mw.RKey())
	w.Must(q.PostSend(roce.SendWR{Opcode: roce.WRBindMW, Flags: roce.SendSignaled,
		Bind: &roce.BindInfo{WindowKey: mw.RKey(), NewKey: fresh,
			LKey: region.LKey(), Addr: region.Addr(), Length: regionSize / 2, Access: roce.RemoteRead}}))
	w.Good(roce.WCBindMW)
	return fresh
}
