package roce

import (
	"testing"
)

// TestBuiltAnswers: those that the peer's memory answers.
func TestBuiltAnswers(t *testing.T) {
	const rights = LocalWrite | RemoteRead | RemoteWrite | RemoteAtomic | FlushGlobal
	da, db := openPipes(t, nil)
	a, b := newEnd(t, da, RC, 1024), newEnd(t, db, RC, 1024)
	var err error
	must(t, b.mr.Close())
	b.mr, err = b.pd.RegMR(b.buf, rights)
	must(t, err)
	o := DefaultConnectOptions()
	o.Access = rights
	must(t, a.qp.Connect(bg, b.qp.Endpoint(), &o))
	must(t, b.qp.Connect(bg, a.qp.Endpoint(), &o))
	fill(b.buf[:100], 3)
	want := string(b.buf[:100])
	x := a.qp.Ex()
	x.WRStart()
	x.WRRDMARead(b.mr.RKey(), b.mr.Addr())
	x.WRSetSGE(a.mr.SGE(200, 100))
	x.WRAtomicFetchAdd(b.mr.RKey(), b.mr.Addr()+104, 5)
	x.WRSetSGE(a.mr.SGE(304, 8))
	x.WRAtomicCmpSwp(b.mr.RKey(), b.mr.Addr()+104, 5, 6)
	x.WRSetSGE(a.mr.SGE(312, 8))
	x.WRFlush(b.mr.RKey(), b.mr.Addr(), FlushInfo{Length: 8, Placement: PlacementGlobal})
	x.WRAtomicWrite(b.mr.RKey(), b.mr.Addr()+112, 0x0707070707070707)
	must(t, x.WRComplete())
	for range 5 {
		a.wait()
	}
	if b.buf[112] != 7 || b.buf[119] != 7 {
		t.Errorf("ATOMIC WRITE wrote % x", b.buf[112:120])
	}
	if string(a.buf[200:300]) != want || a.buf[312] != 5 || b.buf[104] != 6 {
		t.Errorf("read %d, then %d and %d", a.buf[200:204], a.buf[312], b.buf[104])
	}
}

// TestBuiltWrongly: mistakes are the error of WRComplete, which names the request, and nothing of
// the list is posted; the next list is another one.
func TestBuiltWrongly(t *testing.T) {
	a, b := connected(t, wires[0], RC, 64)
	x := a.qp.Ex()
	for name, c := range map[string]struct {
		build func()
		index int
	}{
		"nothing begun":   {func() {}, 0},
		"not started":     {func() { x.WRSend() }, 0},
		"data first":      {func() { x.WRStart(); x.WRSetSGE(a.mr.SGE(0, 1)); x.WRSend() }, 0},
		"inline first":    {func() { x.WRStart(); x.WRSetInlineData(nil) }, 0},
		"both":            {func() { x.WRStart(); x.WRSend(); x.WRSend(); x.WRSetSGE(a.mr.SGE(0, 1)); x.WRSetInlineData([]byte{1}) }, 1},
		"a READ inline":   {func() { x.WRStart(); x.WRSend(); x.WRSend(); x.WRRDMARead(1, 2); x.WRSetInlineData([]byte{1}) }, 2},
		"no such window":  {func() { x.WRStart(); x.WRBindMW(BindInfo{WindowKey: 1 << 8, NewKey: 2 << 8}) }, 0},
		"too many pieces": {func() { x.WRStart(); x.WRSend(); x.WRSetSGEList(make([]SGE, 5)) }, 0},
		"too much inline": {func() { x.WRStart(); x.WRSend(); x.WRSetInlineDataList([][]byte{make([]byte, 200), make([]byte, 200)}) }, 0},
	} {
		c.build()
		err := x.WRComplete()
		refused(t, err, ErrInvalid, "WRComplete on QP")
		if p, ok := err.(*PostError); !ok || p.Index != c.index {
			t.Errorf("%s: %v, want request %d", name, err, c.index)
		}
	}
	x.WRStart()
	for range 129 {
		x.WRSend()
	}
	refused(t, x.WRComplete(), ErrFull, "128")
	x.WRStart()
	x.WRSend()
	x.WRAbort()
	refused(t, x.WRComplete(), ErrInvalid, "without WRStart")
	x.WRStart()
	must(t, x.WRComplete())

	x.WRStart()
	x.WRLocalInv(b.mr.RKey()) // fails when it is executed
	must(t, x.WRComplete())
	if wc := a.waitAny(); wc.Status != WCLocQPOpErr {
		t.Errorf("%+v: something else was posted before", wc)
	}
	must(t, a.qp.Close())
	x.WRStart()
	x.WRSend()
	refused(t, x.WRComplete(), ErrClosed)
}

// TestBuiltDatagram: a datagram has its destination from WRSetUDAddr.
func TestBuiltDatagram(t *testing.T) {
	da, db := openPipes(t, nil)
	a, b := newEnd(t, da, UD, 128), newEnd(t, db, UD, 128)
	const qkey = 0x1234
	for _, e := range []*end{a, b} {
		must(t, e.qp.Activate(qkey))
	}
	ah, err := a.pd.CreateAH(bg, AHAttr{DGID: b.qp.Endpoint().GID})
	must(t, err)
	b.recv(1, b.mr.SGE(0, 100))
	x := a.qp.Ex()
	x.WRStart()
	x.WRSend()
	x.WRSetUDAddr(ah, b.qp.QPN(), qkey)
	x.WRSetInlineData([]byte{1, 2, 3})
	must(t, x.WRComplete())
	a.wait()
	if wc := b.wait(); wc.ByteLen != GRHSize+3 || wc.SrcQP != a.qp.QPN() || b.buf[GRHSize+2] != 3 {
		t.Errorf("%+v", wc)
	}
	x.WRStart()
	x.WRSend()
	refused(t, x.WRComplete(), ErrInvalid, "address handle")
	must(t, a.pd.DestroyAH(ah))
}

// TestQueryInit: what a queue pair was made from, with real sizes.
func TestQueryInit(t *testing.T) {
	e := newEnd(t, openDevice(t, "pipe:query-init", nil), RC, 64)
	context := new(int)
	q, err := e.pd.CreateQP(QPInitAttr{Type: UC, SendCQ: e.cq, SQSigAll: true, WholeMessages: true, Context: context,
		Cap: QPCap{MaxSendWR: 5, MaxRecvWR: 3, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: 33}})
	must(t, err)
	got, err := q.QueryInit()
	must(t, err)
	if want := (QPInitAttr{Type: UC, SendCQ: e.cq, RecvCQ: e.cq, SQSigAll: true, WholeMessages: true, Context: context,
		Cap: QPCap{MaxSendWR: 8, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: 33}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	must(t, q.Close())
	_, err = q.QueryInit()
	refused(t, err, ErrClosed)
}
