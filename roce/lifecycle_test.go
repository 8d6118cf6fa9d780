package roce

// Making, misusing and closing objects: every error names what is wrong, nothing panics, nothing is
// left.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/goroce/goroce/qp"
)

// refused checks that err is of a kind and says what it must.
func refused(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestCloseInAnyOrder(t *testing.T) {
	d, err := Open("pipe:close", nil)
	must(t, err)
	pd, err := d.AllocPD()
	must(t, err)
	cq, err := d.CreateCQ(CQInitAttr{CQE: 1})
	must(t, err)
	mr, err := pd.RegMR(make([]byte, 64), LocalWrite|MWBind)
	must(t, err)
	mw, err := pd.AllocMW(MWType2)
	must(t, err)
	ah, err := pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[0]})
	must(t, err)
	q1, err := pd.CreateQP(QPInitAttr{SendCQ: cq})
	must(t, err)
	q2, err := pd.CreateQP(QPInitAttr{Type: UD, SendCQ: cq})
	must(t, err)

	refused(t, d.Close(), ErrBusy, "device pipe:close still has 2 QPs (0x", q1.label(), q2.label(), "1 CQ, 1 MR", "1 MW", "1 AH, 1 PD")
	refused(t, cq.Close(), ErrBusy, "CQ still has 2 QPs", q1.label())
	must(t, q1.Close())
	refused(t, pd.Close(), ErrBusy, "PD still has 1 QP ("+q2.label()+"), 1 MR", "1 MW", "1 AH")
	must(t, q2.Close())
	must(t, cq.Close())
	must(t, mw.Close())
	must(t, pd.DestroyAH(ah))
	refused(t, d.Close(), ErrBusy, "still has 1 MR (", "1 PD")
	must(t, mr.Close())
	must(t, pd.Close())
	must(t, d.Close())

	for _, again := range []func() error{q1.Close, q2.Close, cq.Close, mw.Close, mr.Close, pd.Close, d.Close} {
		must(t, again())
	}
	refused(t, pd.DestroyAH(ah), ErrClosed)
}

func TestUseAfterClose(t *testing.T) {
	d, err := Open("pipe:after", nil)
	must(t, err)
	e := &end{t: t, dev: d, buf: make([]byte, 64)}
	e.pd, _ = d.AllocPD()
	e.cq, _ = d.CreateCQ(CQInitAttr{CQE: 16})
	e.mr, _ = e.pd.RegMR(e.buf, LocalWrite)
	e.qp, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq})
	must(t, err)
	must(t, e.qp.Close())
	must(t, e.mr.Close())
	must(t, e.cq.Close())
	must(t, e.pd.Close())
	must(t, d.Close())

	refused(t, e.qp.PostSend(SendWR{}), ErrClosed, "PostSend", e.qp.label())
	refused(t, e.qp.PostRecv(RecvWR{}), ErrClosed, "PostRecv")
	refused(t, e.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState), ErrClosed)
	refused(t, e.qp.Connect(bg, Endpoint{}, nil), ErrClosed)
	_, err = e.qp.Query()
	refused(t, err, ErrClosed)
	_, err = e.cq.Poll(make([]WC, 1))
	refused(t, err, ErrClosed)
	_, err = e.cq.Wait(context.Background(), make([]WC, 1))
	refused(t, err, ErrClosed)
	refused(t, e.cq.ReqNotify(false), ErrClosed)
	_, err = e.pd.RegMR(e.buf, 0)
	refused(t, err, ErrClosed)
	_, err = e.pd.CreateAH(bg, AHAttr{})
	refused(t, err, ErrClosed)
	_, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq})
	refused(t, err, ErrClosed)
	_, err = d.AllocPD()
	refused(t, err, ErrClosed)
	_, err = d.CreateCQ(CQInitAttr{CQE: 1})
	refused(t, err, ErrClosed)
	if a := d.QueryPort(); a.State != PortDown {
		t.Errorf("port of a closed device: %v", a.State)
	}
	d.Query()
	d.Stats()
	_, err = d.Events().Get(bg)
	refused(t, err, ErrClosed)
	_ = e.qp.Endpoint().String() + e.qp.State().String()
	_ = e.mr.SGE(0, 1)
}

// TestCloseWithWorkOutstanding: no completion of a queue pair is seen after its Close has returned,
// even those that were there already; other queue pairs' completions stay.
func TestCloseWithWorkOutstanding(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
		connect(t, a, b)
		other, err := a.pd.CreateQP(QPInitAttr{SendCQ: a.cq})
		must(t, err)
		must(t, other.Init(nil))
		for i := range 3 {
			must(t, other.PostRecv(RecvWR{WRID: 100 + uint64(i)}))
			a.recv(uint64(i))
			a.post(SendWR{Opcode: WRSend}) // the peer has no receive posted: it stays outstanding
		}
		must(t, a.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState)) // flushes 6 completions
		must(t, other.Modify(bg, &QPAttr{State: StateErr}, AttrState))
		must(t, a.qp.Close())
		for i := range 3 {
			if wc := a.waitAny(); wc.WRID != 100+uint64(i) || wc.QPN != other.QPN() {
				t.Errorf("completion %d: %+v", i, wc)
			}
		}
		if n, err := a.cq.Poll(make([]WC, 8)); n != 0 || err != nil {
			t.Errorf("%d more completions, error %v", n, err)
		}
		must(t, other.Close())
	})
}

func TestWrongInput(t *testing.T) {
	d := openDevice(t, "pipe:wrong", nil)
	e := newEnd(t, d, RC, 64)

	for _, name := range []string{"", "udp", "udp:", "udp:no-such-interface", "udp:192.0.2.1", "ib:0", "udp:1.2.3.4.5", "pipe:"} {
		if bad, err := Open(name, nil); err == nil {
			bad.Close()
			t.Errorf("Open(%q) succeeds", name)
		} else if !strings.Contains(err.Error(), "Open") {
			t.Errorf("Open(%q): %v", name, err)
		}
	}

	_, err := d.CreateCQ(CQInitAttr{CQE: 0})
	refused(t, err, ErrInvalid, "0 entries")
	_, err = d.CreateCQ(CQInitAttr{CQE: qp.MaxCQE + 1})
	refused(t, err, ErrInvalid)
	_, err = d.QueryGID(99)
	refused(t, err, ErrInvalid, "99")
	_, err = e.pd.RegMR(e.buf, RemoteWrite)
	refused(t, err, ErrInvalid, "LocalWrite")
	_, err = e.pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[0], SGIDIndex: 9})
	refused(t, err, ErrInvalid, "sgid_index 9")
	_, err = e.pd.CreateQP(QPInitAttr{})
	refused(t, err, ErrInvalid, "SendCQ")
	_, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq, Type: 77})
	refused(t, err, ErrInvalid, "77")
	_, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq, Cap: QPCap{MaxSendWR: 1 << 30}})
	refused(t, err, ErrInvalid, "1073741824")
}

// TestWrongRequests: work requests and changes of state that break a rule are refused by name, and
// those before them are posted.
func TestWrongRequests(t *testing.T) {
	d := openDevice(t, "pipe:wrong", nil)
	e := newEnd(t, d, RC, 64)
	refused(t, e.qp.PostSend(SendWR{}), ErrState, "RTS", "RESET")
	refused(t, e.qp.PostRecv(RecvWR{}), ErrState, "INIT", "RESET")
	refused(t, e.qp.Modify(bg, &QPAttr{State: StateRTS}, AttrState), ErrInvalid)
	refused(t, e.qp.Connect(bg, Endpoint{QPN: 17}, nil), ErrInvalid, "GID")
	must(t, e.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState))
	must(t, e.qp.Connect(bg, Endpoint{GID: d.GIDs()[0], QPN: 17}, nil))
	for _, c := range []struct {
		wr    SendWR
		words string
	}{
		{SendWR{Opcode: 12}, "request 1"},
		{SendWR{Opcode: WRSend, Flags: SendInline, Inline: make([]byte, 257)}, "257 bytes inline"},
		{SendWR{Opcode: WRRead, Flags: SendInline}, "inline"},
		{SendWR{Opcode: WRSend, SGL: make([]SGE, 5)}, "5"},
		{SendWR{Opcode: WRAtomicFetchAndAdd, SGL: []SGE{e.mr.SGE(0, 8)}, RemoteAddr: 4}, "aligned"},
		{SendWR{Opcode: WRAtomicFetchAndAdd, SGL: []SGE{e.mr.SGE(0, 4)}}, "8"},
		{SendWR{Opcode: WRBindMW}, "request 1"},
	} {
		err := e.qp.PostSend(SendWR{Opcode: WRWrite}, c.wr, SendWR{Opcode: WRWrite})
		refused(t, err, ErrInvalid, c.words)
		var pe *PostError
		if !errors.As(err, &pe) || pe.Index != 1 || pe.QPN != e.qp.QPN() {
			t.Errorf("%+v: %#v", c.wr, err)
		}
	}
	ud := newEnd(t, d, UD, 64)
	must(t, ud.qp.Activate(1))
	refused(t, ud.qp.PostSend(SendWR{Opcode: WRSend, RemoteQPN: 5}), ErrInvalid, "request 0")
	refused(t, ud.qp.PostSend(SendWR{Opcode: WRWrite}), ErrInvalid, "UD")
	refused(t, e.qp.Modify(bg, nil, AttrState), ErrInvalid)
	var err error
	for i := 0; err == nil; i++ {
		err = e.qp.PostSend(SendWR{Opcode: WRWrite})
	}
	refused(t, err, ErrFull, "128")
	if text := (&Error{Op: "X", Device: "d", Err: ErrFull}).Error(); text != "roce: X on d: queue is full" {
		t.Error(text)
	}
	if d.fail("X", nil) != nil {
		t.Error("fail makes an error of nil")
	}
}

func TestEndpointText(t *testing.T) {
	for _, s := range []string{"127.0.0.1/0x00001a/0x9f3c21", "fe80::1/0xffffff/0x000000", "127.0.0.1/0x00001a/0x000001/256"} {
		e, err := ParseEndpoint(s)
		must(t, err)
		if e.String() != s {
			t.Errorf("%s is read as %v", s, e)
		}
		var back Endpoint
		text, _ := e.MarshalText()
		must(t, back.UnmarshalText(text))
		if back != e {
			t.Errorf("%v is read back as %v", e, back)
		}
	}
	if e, err := ParseEndpoint(" ::ffff:10.0.0.1/26/7\n"); err != nil || e.String() != "10.0.0.1/0x00001a/0x000007" {
		t.Errorf("%v, %v", e, err)
	}
	for _, s := range []string{"", "1.2.3.4/5", "1.2.3.4/0x1000000/0", "x/1/1", "1.2.3.4/1/-1", "1.2.3.4/1/1/1",
		"1.2.3.4/1/1/", "1.2.3.4/1/1/256/1"} {
		_, err := ParseEndpoint(s)
		refused(t, err, ErrInvalid)
	}
}

func TestQuery(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		if p := a.dev.QueryPort(); p.State != PortActive || p.ActiveMTU != MTU4096 || p.MaxMsgSz != 1<<31 {
			t.Errorf("port: %+v", p)
		}
		if d := a.dev.Query(); d.NodeGUID == 0 || d.MaxSGE != 32 || d.MaxQPRdAtom != 128 {
			t.Errorf("device: %+v", d)
		}
		attr, err := a.qp.Query()
		must(t, err)
		if attr.State != StateRTS || attr.DestQPN != b.qp.QPN() || attr.PathMTU != MTU4096 || attr.RNRRetry != 7 ||
			attr.Cap.MaxSendWR != 128 {
			t.Errorf("QP: %+v", attr)
		}
		if attr.SQPSN != a.qp.Endpoint().PSN {
			t.Errorf("PSN %v, endpoint %v", attr.SQPSN, a.qp.Endpoint())
		}
		if a.qp.Endpoint().QPN == b.qp.Endpoint().QPN || a.mr.RKey() == b.mr.RKey() {
			t.Error("numbers are predictable")
		}
	})
}

// TestEventsAreBounded: a lane never waits for somebody to take events.
func TestEventsAreBounded(t *testing.T) {
	d := openDevice(t, "pipe:events", nil)
	for i := range maxEvents + 3 {
		d.events.put(AsyncEvent{Type: EventType(i % 3), Device: d})
	}
	if s := d.Stats(); s.EventsLost != 3 {
		t.Errorf("%d lost", s.EventsLost)
	}
	if ev := next(t, d.Events()); ev.Type != 0 {
		t.Errorf("the oldest that is left: %v", ev)
	}
}

// TestCommEst: the first packet on a queue pair that is not yet RTS is an event.
func TestCommEst(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
		must(t, b.qp.Init(nil))
		b.recv(1)
		must(t, b.qp.Modify(bg, &QPAttr{State: StateRTR, PathMTU: MTU1024, DestQPN: a.qp.QPN(), RQPSN: a.qp.Endpoint().PSN,
			AV: AHAttr{DGID: a.qp.Endpoint().GID}, MaxDestRdAtomic: 1},
			AttrState|AttrAV|AttrPathMTU|AttrDestQPN|AttrRQPSN|AttrMaxDestRdAtomic|AttrMinRNRTimer))
		o := DefaultConnectOptions()
		o.MTU = MTU1024
		must(t, a.qp.Connect(bg, b.qp.Endpoint(), &o))
		a.post(SendWR{Opcode: WRSend})
		if ev := next(t, db.Events()); ev.Type != EventCommEst || ev.QP != b.qp {
			t.Errorf("event %v", ev)
		}
		a.wait()
		b.wait()
	})
}

// TestNoBackground: without a goroutine of its own a device still works, as long as somebody polls.
func TestNoBackground(t *testing.T) {
	d, err := Open("pipe:nobg", &Config{NoBackground: true})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	a, b := newEnd(t, d, RC, 64), newEnd(t, openDevice(t, "pipe:nobg", nil), RC, 64)
	connect(t, a, b)
	for range 100 {
		b.recv(1)
		a.post(SendWR{Opcode: WRSend})
		a.wait()
		b.wait()
	}
}
