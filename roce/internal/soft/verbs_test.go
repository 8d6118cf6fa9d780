package soft

// What tests need of the verbs to drive this package, which package roce gives to applications: the
// names, two connected ends, and the steps from RESET to RTS.

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

type (
	GID       = wire.GID
	PSN       = wire.PSN
	Access    = mr.Access
	QPType    = qp.QPType
	QPAttr    = qp.QPAttr
	QPCap     = qp.Cap
	AHAttr    = qp.AHAttr
	SendWR    = qp.SendWR
	RecvWR    = qp.RecvWR
	SGE       = qp.SGE
	SendFlags = qp.SendFlags
	WC        = qp.WC
	WCStatus  = qp.WCStatus
	WCOpcode  = qp.WCOpcode
)

const (
	LocalWrite    = mr.LocalWrite
	RemoteWrite   = mr.RemoteWrite
	RemoteRead    = mr.RemoteRead
	RemoteAtomic  = mr.RemoteAtomic
	RC            = qp.RC
	UC            = qp.UC
	UD            = qp.UD
	StateReset    = qp.StateReset
	StateErr      = qp.StateErr
	AttrState     = qp.AttrState
	WRWrite       = qp.WRWrite
	WRSend        = qp.WRSend
	SendSignaled  = qp.SendSignaled
	SendInline    = qp.SendInline
	WCSuccess     = qp.WCSuccess
	WCWRFlushErr  = qp.WCWRFlushErr
	WCRetryExcErr = qp.WCRetryExcErr
	WCSend        = qp.WCSend
	WCRecv        = qp.WCRecv
)

var bg = context.Background()

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Stats are the counters of all lanes that these tests look at: those of the first.
func (d *Device) Stats() Stats { return d.LaneStats()[0] }

// Addr and SGE are those of package roce.
func (m *MR) Addr() uint64 { return m.IOVA() }
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.IOVA() + uint64(off), Length: uint32(n), LKey: m.LKey()}
}

func regMR(pd *PD, buf []byte, access Access) (*MR, error) {
	return pd.RegMR(buf, mr.AddrOf(buf), access)
}

func createQP(pd *PD, init QPInit) (*QP, error) {
	if init.Type == 0 {
		init.Type = RC
	}
	if init.RecvCQ == nil {
		init.RecvCQ = init.SendCQ
	}
	if init.Cap == (QPCap{}) {
		init.Cap = QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 256}
	}
	q := new(QP)
	return q, pd.CreateQP(q, init)
}

func postSend(q *QP, wrs ...SendWR) error {
	_, err := q.PostSend(wrs)
	return err
}

func postRecv(q *QP, wrs ...RecvWR) error {
	_, err := q.PostRecv(wrs)
	return err
}

// Endpoint is what the peer must know of a queue pair.
type Endpoint struct {
	GID GID
	QPN uint32
	PSN PSN
}

// Endpoint is that of q.
func (q *QP) Endpoint() Endpoint { return Endpoint{q.dev.Opened().GIDs[0], q.QPN(), q.StartPSN()} }

// Connect takes q from RESET to RTS, with an ack timeout of 67 ms or o's.
func (q *QP) Connect(to Endpoint, o *QPAttr) error {
	if o == nil {
		o = &QPAttr{Timeout: 14, RetryCnt: 7}
	}
	attr := *o
	attr.Port, attr.AccessFlags = 1, mr.RemoteRead|mr.RemoteWrite|mr.RemoteAtomic|mr.FlushPersistent
	attr.PathMTU, attr.DestQPN, attr.RQPSN, attr.SQPSN = wire.MTU4096, to.QPN, to.PSN, q.StartPSN()
	attr.AV.DGID = to.GID
	attr.RNRRetry, attr.MinRNRTimer, attr.MaxRdAtomic, attr.MaxDestRdAtomic = 7, 12, 16, 16
	rtr, rts := qp.AttrState|qp.AttrAV|qp.AttrPathMTU|qp.AttrDestQPN|qp.AttrRQPSN, qp.AttrState|qp.AttrSQPSN
	if q.Type() == RC {
		rtr |= qp.AttrMaxDestRdAtomic | qp.AttrMinRNRTimer
		rts |= qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrMaxRdAtomic
	}
	return q.climb(attr, qp.AttrPKeyIndex|qp.AttrPort|qp.AttrAccessFlags, rtr, rts)
}

// Activate takes a UD queue pair from RESET to RTS.
func (q *QP) Activate(qkey uint32) error {
	return q.climb(QPAttr{Port: 1, QKey: qkey, SQPSN: q.StartPSN()}, qp.AttrPKeyIndex|qp.AttrPort|qp.AttrQKey, 0, qp.AttrSQPSN)
}

// climb goes the three steps to RTS.
func (q *QP) climb(attr QPAttr, masks ...qp.AttrMask) error {
	for i, state := range []qp.QPState{qp.StateInit, qp.StateRTR, qp.StateRTS} {
		attr.State = state
		if err := q.Modify(bg, &attr, masks[i]|qp.AttrState); err != nil {
			return err
		}
	}
	return nil
}

// wire2 is a way to connect two devices.
type wire2 struct {
	name string
	open func(t testing.TB) (a, b *Device)
}

func overWires(t *testing.T, f func(t *testing.T, w wire2)) {
	for _, w := range []wire2{{"pipe", openPipes}, {"udp", openUDPs}} {
		t.Run(w.name, func(t *testing.T) { f(t, w) })
	}
}

var serial atomic.Int64

func openPipes(t testing.TB) (a, b *Device) {
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	return openDevice(t, segment), openDevice(t, segment)
}

// openUDPs uses addresses of 127/8 that no other test has, in this process or another.
func openUDPs(t testing.TB) (a, b *Device) {
	name := udpNames()
	return openDevice(t, name(0)), openDevice(t, name(1))
}

func udpNames() func(i int) string {
	pid, n := os.Getpid(), int(serial.Add(1)%100)
	return func(i int) string { return fmt.Sprintf("udp:127.%d.%d.%d", 128+pid>>8%128, pid%256, 2*n+1+i) }
}

func openDevice(t testing.TB, name string) *Device {
	t.Helper()
	d, err := Open(name, Config{})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// end is one side of a connection with everything that it needs.
type end struct {
	t    testing.TB
	dev  *Device
	pd   *PD
	cq   *CQ
	told chan struct{} // holds a token after a completion that ReqNotify asked for
	qp   *QP
	mr   *MR
	buf  []byte
}

// newEnd makes a queue pair and size bytes of memory with all rights. All is closed at the end of
// the test.
func newEnd(t testing.TB, d *Device, typ QPType, size int) *end {
	t.Helper()
	e := &end{t: t, dev: d, buf: make([]byte, size), told: make(chan struct{}, 1)}
	var err error
	e.pd, err = d.AllocPD()
	must(t, err)
	e.cq, err = d.CreateCQ(CQInit{CQE: 4096, Notify: func() {
		select {
		case e.told <- struct{}{}:
		default:
		}
	}})
	must(t, err)
	e.mr, err = regMR(e.pd, e.buf, LocalWrite|RemoteRead|RemoteWrite|RemoteAtomic)
	must(t, err)
	e.qp, err = createQP(e.pd, QPInit{Type: typ, SendCQ: e.cq, SQSigAll: true})
	must(t, err)
	t.Cleanup(func() {
		must(t, e.qp.Close())
		must(t, e.mr.Close())
		must(t, e.cq.Close())
		must(t, e.pd.Close())
	})
	return e
}

// connected makes two connected ends on a wire.
func connected(t testing.TB, w wire2, typ QPType, size int) (a, b *end) {
	t.Helper()
	da, db := w.open(t)
	a, b = newEnd(t, da, typ, size), newEnd(t, db, typ, size)
	connect(t, a, b)
	return a, b
}

func connect(t testing.TB, a, b *end) {
	t.Helper()
	must(t, a.qp.Connect(b.qp.Endpoint(), nil))
	must(t, b.qp.Connect(a.qp.Endpoint(), nil))
}

// wait returns the next completion, which must be a success.
func (e *end) wait() WC {
	e.t.Helper()
	wc := e.waitAny()
	if wc.Status != WCSuccess {
		e.t.Fatalf("completion of %v (id %d): %v, vendor error %d", wc.Opcode, wc.WRID, wc.Status, wc.VendorErr)
	}
	return wc
}

func (e *end) waitAny() WC {
	e.t.Helper()
	var wcs [1]WC
	_, err := e.cq.Wait(bg, wcs[:])
	must(e.t, err)
	return wcs[0]
}

func (e *end) post(wr SendWR) {
	e.t.Helper()
	must(e.t, postSend(e.qp, wr))
}

func (e *end) recv(id uint64, sgl ...SGE) {
	e.t.Helper()
	must(e.t, postRecv(e.qp, RecvWR{WRID: id, SGL: sgl}))
}

// fill makes bytes that differ with seed and position.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed*31 + 1)
	}
}

func same(t testing.TB, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Error("the bytes are not those that were sent")
	}
}
