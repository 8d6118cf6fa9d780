package roce

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
)

// leaks are goroutines that may be left at the end.
var leaks []goleak.Option

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m, leaks...)
}

// A wire is a way to connect two devices in a test.
type wire2 struct {
	name string
	open func(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device)
}

// wires are the ports that every test of operations runs over.
var wires = []wire2{{"pipe", openPipes}, {"udp", openUDPs}}

func overWires(t *testing.T, f func(t *testing.T, w wire2)) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) { f(t, w) })
	}
}

var serial atomic.Int64

func openPipes(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	return openDevice(t, segment, wrap), openDevice(t, segment, wrap)
}

// openUDPs uses addresses of 127/8 that no other test has, in this process or another, on the
// standard port.
func openUDPs(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
	name := udpNames()
	return openDevice(t, name(0), wrap), openDevice(t, name(1), wrap)
}

func udpNames() func(i int) string {
	pid, n := os.Getpid(), int(serial.Add(1)%100)
	return func(i int) string { return fmt.Sprintf("udp:127.%d.%d.%d", 128+pid>>8%128, pid%256, 2*n+1+i) }
}

// openThreads is openUDPs for callers with threads of their own.
func openThreads(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
	name, cfg := udpNames(), &Config{Wrap: wrap, Transport: transport.Options{OwnThread: true}}
	return openWith(t, name(0), cfg), openWith(t, name(1), cfg)
}

func openDevice(t testing.TB, name string, wrap func(transport.Port) transport.Port) *Device {
	t.Helper()
	return openWith(t, name, &Config{Wrap: wrap})
}

func openWith(t testing.TB, name string, cfg *Config) *Device {
	t.Helper()
	d, err := Open(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// bg is the context of calls that nobody ends.
var bg = context.Background()

// next takes an event.
func next[E any](t testing.TB, q *EventQueue[E]) E {
	t.Helper()
	e, err := q.Get(bg)
	must(t, err)
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// end is one side of a connection with everything that it needs.
type end struct {
	t   testing.TB
	dev *Device
	pd  *PD
	ch  *CompChannel
	cq  *CQ
	qp  *QP
	mr  *MR
	buf []byte
}

// newEnd makes a queue pair and size bytes of memory with all rights. All is closed at the end of
// the test.
func newEnd(t testing.TB, d *Device, typ QPType, size int) *end {
	t.Helper()
	e := &end{t: t, dev: d, buf: make([]byte, size)}
	var err error
	e.pd, err = d.AllocPD()
	must(t, err)
	e.ch, err = d.CreateCompChannel()
	must(t, err)
	e.cq, err = d.CreateCQ(CQInitAttr{CQE: 4096, Channel: e.ch})
	must(t, err)
	e.mr, err = e.pd.RegMR(e.buf, LocalWrite|RemoteRead|RemoteWrite|RemoteAtomic)
	must(t, err)
	e.qp, err = e.pd.CreateQP(QPInitAttr{Type: typ, SendCQ: e.cq, SQSigAll: true})
	must(t, err)
	t.Cleanup(func() {
		must(t, e.qp.Close())
		must(t, e.mr.Close())
		must(t, e.cq.Close())
		must(t, e.ch.Close())
		must(t, e.pd.Close())
	})
	return e
}

// connected makes two connected ends on a wire.
func connected(t testing.TB, w wire2, typ QPType, size int) (a, b *end) {
	t.Helper()
	return connectedOn(t, w, nil, typ, size)
}

func connectedOn(t testing.TB, w wire2, wrap func(transport.Port) transport.Port, typ QPType, size int) (a, b *end) {
	t.Helper()
	da, db := w.open(t, wrap)
	a, b = newEnd(t, da, typ, size), newEnd(t, db, typ, size)
	connect(t, a, b)
	return a, b
}

func connect(t testing.TB, a, b *end) {
	t.Helper()
	must(t, a.qp.Connect(bg, b.qp.Endpoint(), nil))
	must(t, b.qp.Connect(bg, a.qp.Endpoint(), nil))
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
	_, err := e.cq.Wait(context.Background(), wcs[:])
	must(e.t, err)
	return wcs[0]
}

func (e *end) post(wr SendWR) {
	e.t.Helper()
	must(e.t, e.qp.PostSend(wr))
}

func (e *end) recv(id uint64, sgl ...SGE) {
	e.t.Helper()
	must(e.t, e.qp.PostRecv(RecvWR{WRID: id, SGL: sgl}))
}

// fill makes bytes that differ with seed and position.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed*31 + 1)
	}
}

func same(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%d bytes differ from %d wanted, first at %d: % x instead of % x", len(got), len(want), i,
		got[i:min(i+8, len(got))], want[i:min(i+8, len(want))])
}
