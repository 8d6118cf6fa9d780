package roce

// Neighbours on a real network: beside honest connections a third host floods the same device. What
// reached its port is shared by turns and places: how many frames of the flood are received before
// an honest one is bounded. Then all go on together, and no connection fails. How long that takes
// is not looked at, and what the kernel has dropped before is told apart.
//
// Stages: what the third host sends → the device and who speaks to it → the port that counts → what
// waits for the device when it comes back → the flood, and the honest beside it.

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	neighbourWrites = 40 // of each honest connection, one after the other
	neighbourRun    = 64 // packets that the flood sends at a time
	// neighbourFlood is how many a flood keeps under way: for many Recvs, and so few that no kernel
	// drops them.
	neighbourFlood = 32 * neighbourRun
	ownPSN         = 700 // that the device expects first from who floods
)

// neighbourFloods are what a host can send that knows what it can: numbers and Q_Keys.
var neighbourFloods = []struct {
	name  string
	size  int // of a body, from BTH to ICRC
	wrong bool
	put   func(n *neighbours, body []byte, i int)
}{
	{"datagrams", 24, false, putDatagram},
	{"long datagrams", 1000, false, putDatagram},
	{"wrong ICRCs", 24, true, putDatagram},
	{"long wrong ICRCs", 1000, true, putDatagram},
	{"unknown numbers", 24, false, func(n *neighbours, body []byte, i int) {
		n.begin(body, wire.UDSendOnly, 0xabcdef, i)
	}},
	{"management datagrams", 24 + wire.MADLen, false, func(n *neighbours, body []byte, i int) {
		n.begin(body, wire.UDSendOnly, wire.GSIQPN, i)
		(*wire.DETH)(body[wire.BTHLen:]).Put(wire.GSIQKey, wire.GSIQPN)
	}},
	{"CNPs of others", 32, false, func(n *neighbours, body []byte, i int) {
		n.begin(body, wire.CNP, n.honest[i%len(n.honest)][1].qp.QPN(), 0)
	}},
	{"CNPs", 32, false, func(n *neighbours, body []byte, _ int) { n.begin(body, wire.CNP, n.rc.qp.QPN(), 0) }},
	{"messages that never end", 1040, false, func(n *neighbours, body []byte, i int) {
		n.begin(body, wire.UCSendFirst, n.uc.qp.QPN(), i)
	}},
	{"the same first packet", 1040, false, func(n *neighbours, body []byte, _ int) {
		n.begin(body, wire.RCSendFirst, n.rc.qp.QPN(), ownPSN)
	}},
	{"gaps never filled", 1016, false, func(n *neighbours, body []byte, i int) {
		n.begin(body, wire.RCSendOnly, n.selective.qp.QPN(), ownPSN+1+i%1000)
	}},
}

func putDatagram(n *neighbours, body []byte, i int) {
	n.begin(body, wire.UDSendOnly, n.ud.qp.QPN(), i)
	(*wire.DETH)(body[wire.BTHLen:]).Put(7, 99)
}

// begin writes the BTH of a packet.
func (n *neighbours) begin(body []byte, op wire.Opcode, qpn uint32, psn int) {
	clear(body)
	flags := wire.BTHAckReq
	if op == wire.CNP {
		flags = wire.BTHBECN
	}
	(*wire.BTH)(body).Put(op, flags, 0, wire.DefaultPKey, qpn, wire.PSN(psn))
}

// neighbours are the device, those that are honest, and one that is not.
type neighbours struct {
	dev, peer         *Device
	port              *tollPort
	honest            [3][2]*end // over IPv4, over IPv6, and the device with itself
	ud, gsi           *end       // take all that comes
	uc, rc, selective *end       // are connected to who floods
	path              wire.Path  // from who floods
	flooder           int        // its socket
	runs              bool       // its packets leave as runs
	apart             int        // of the honest
	stored            int        // so many runs or batches any port's kernel can hold
	sent, began       int
	size              int // of the flood's bodies
}

// TestNeighbours: no flood from another host keeps the connections of a device from their share, in
// frames that reached the port.
func TestNeighbours(t *testing.T) {
	for _, c := range []struct {
		kind, format string // of the addresses, that of host 3 for who floods
		apart        int    // of the honest, whose packets come by another source than these
	}{
		{"udp", "10.78.0.%d", 1}, {"udp", "fd79::%d", 0}, // each IP version has a socket
		{"packet", "10.78.0.%d", 2}, {"xdp", "10.78.0.%d", 2}, // frames to ourselves
	} {
		t.Run(c.kind+":"+fmt.Sprintf(c.format, 2), func(t *testing.T) {
			n := newNeighbours(t, c.kind, c.format)
			n.apart = c.apart
			for i, f := range neighbourFloods {
				t.Run(f.name, func(t *testing.T) { n.play(t, i) })
			}
		})
	}
}

func newNeighbours(t *testing.T, kind, format string) *neighbours {
	hosts, runs := netns.NewSwitch(t, 3, 1500), kind != "xdp"
	n := &neighbours{runs: runs, stored: 200}
	if !runs { // it takes packets one by one, and has 8192 places
		n.stored = 48
	}
	n.peer = openIn(t, hosts[0], kind+":wire")
	var err error
	hosts[1].Do(func() {
		n.dev, err = Open(kind+":wire", &Config{Wrap: func(p transport.Port) transport.Port {
			n.port = &tollPort{Watched: p.(transport.Watched)}
			return n.port
		}})
	})
	must(t, err)
	t.Cleanup(func() { must(t, n.dev.Close()) })
	n.openFlooder(t, hosts[2], format)
	n.makeEnds(t)
	return n
}

// openFlooder opens a socket that sends what ICRCs of RoCE are made for: from port 4791, without
// fragments.
func (n *neighbours) openFlooder(t *testing.T, host *netns.Namespace, format string) {
	address := func(i int) (g GID, sa unix.Sockaddr) {
		g, err := ParseGID(fmt.Sprintf(format, i))
		must(t, err)
		if g.Is4() {
			return g, &unix.SockaddrInet4{Port: wire.UDPPort, Addr: g.Addr().As4()}
		}
		return g, &unix.SockaddrInet6{Port: wire.UDPPort, Addr: g}
	}
	from, own := address(3)
	to, device := address(2)
	family, level, discover := unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER
	if !from.Is4() {
		family, level, discover = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER
	}
	var err error
	host.Do(func() { n.flooder, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })
	must(t, err)
	t.Cleanup(func() { unix.Close(n.flooder) })
	must(t, unix.SetsockoptInt(n.flooder, level, discover, unix.IP_PMTUDISC_DO))
	must(t, unix.Bind(n.flooder, own))
	must(t, unix.Connect(n.flooder, device))
	n.path, err = wire.NewPath(from, to, wire.UDPPort, 0, 64, 0)
	must(t, err)
	n.port.flooder = from
}

// makeEnds makes the queue pairs, those for the flood with receives.
func (n *neighbours) makeEnds(t *testing.T) {
	for i, device := range []*Device{n.peer, n.peer, n.dev} {
		a, b := newEnd(t, device, RC, 4096), newEnd(t, n.dev, RC, 4096)
		version4 := i != 1
		connectRow(t, a, b, version4)
		connectRow(t, b, a, version4)
		n.honest[i] = [2]*end{a, b}
	}
	n.ud, n.gsi = newEnd(t, n.dev, UD, 4096), newEnd(t, n.dev, GSI, 4096)
	must(t, n.ud.qp.Activate(7))
	must(t, n.gsi.qp.Activate(wire.GSIQKey))
	for _, e := range []*end{n.ud, n.gsi} {
		takeAll(t, e)
	}
	o := DefaultConnectOptions()
	for _, e := range []struct {
		end       **end
		typ       QPType
		selective bool
	}{{&n.uc, UC, false}, {&n.rc, RC, false}, {&n.selective, RC, true}} {
		made := newEnd(t, n.dev, e.typ, 4096)
		o.SelectiveRepeat, o.SGIDIndex = e.selective, uint8(rowOf(t, n.dev, n.path.Src.Is4()))
		must(t, made.qp.Connect(bg, Endpoint{GID: n.path.Src, QPN: 0x77, PSN: ownPSN}, &o))
		for i := range 16 {
			made.recv(uint64(i), made.mr.SGE(0, 4096))
		}
		*e.end = made
	}
}

// connectRow connects a to b by the first rows of an IP version.
func connectRow(t *testing.T, a, b *end, version4 bool) {
	o, to := DefaultConnectOptions(), b.qp.Endpoint()
	o.Timeout = 17 // half a second: with the race detector a flood takes long
	o.SGIDIndex, to.GID = uint8(rowOf(t, a.dev, version4)), b.dev.GIDs()[rowOf(t, b.dev, version4)]
	must(t, a.qp.Connect(bg, to, &o))
}

func rowOf(t *testing.T, d *Device, version4 bool) int {
	for i, g := range d.GIDs() {
		if g.Is4() == version4 && !g.Addr().IsLinkLocalUnicast() {
			return i
		}
	}
	t.Fatalf("no address of that version among %v", d.GIDs())
	return 0
}

// takeAll posts receives, and posts them again when they have been used, until the test ends.
func takeAll(t *testing.T, e *end) {
	for i := range 64 {
		e.recv(uint64(i), e.mr.SGE(0, 4096))
	}
	ctx, stop := context.WithCancel(bg)
	var done sync.WaitGroup
	done.Go(func() {
		var wcs [64]WC
		for {
			got, err := e.cq.Wait(ctx, wcs[:])
			if err != nil {
				return
			}
			for _, wc := range wcs[:got] {
				e.qp.PostRecv(RecvWR{WRID: wc.WRID, SGL: []SGE{e.mr.SGE(0, 4096)}})
			}
		}
	})
	t.Cleanup(func() { stop(); done.Wait() })
}

// tollPort counts the frames of who floods that are received.
type tollPort struct {
	transport.Watched
	flooder GID
	came    atomic.Int64
	dry     atomic.Bool   // the last Recv has found none of them
	shut    atomic.Bool   // Recvs find nothing
	guest   atomic.Uint32 // a queue pair
	beside  atomic.Int64  // how many of the flood had come before its first packet; -1: none has
}

func (p *tollPort) Recv(frames []wire.Frame) (int, error) {
	if p.shut.Load() {
		return 0, nil
	}
	n, err := p.Watched.Recv(frames)
	came, guest := 0, p.guest.Load()
	for i := range n {
		if frames[i].From(&p.flooder) {
			came++
		} else if (*wire.BTH)(frames[i].Body).DestQP() == guest {
			p.beside.CompareAndSwap(-1, p.came.Load())
		}
	}
	p.came.Add(int64(came))
	p.dry.Store(came == 0)
	return n, err
}

func (p *tollPort) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return transport.Resolve(ctx, p.Watched, dst, timeout)
}

func (p *tollPort) Events() <-chan transport.Event { return transport.Events(p.Watched) }

// backlog is what a device finds that comes back after a while: a long flood, and one honest packet
// by another source of its port. That one waits for a streak of Recvs and some more.
func (n *neighbours) backlog(t *testing.T, run [][]byte, seed int) {
	a, b := n.honest[n.apart][0], n.honest[n.apart][1]
	n.port.shut.Store(true)
	n.dev.Stats() // no Recv is under way any more
	sent := a.dev.Stats().Port.SendFrames
	before := n.port.came.Load()
	for range n.stored {
		n.send(t, run)
	}
	n.port.guest.Store(b.qp.QPN())
	n.port.beside.Store(-1)
	var writer sync.WaitGroup
	var ended atomic.Bool
	writer.Go(func() {
		defer ended.Store(true)
		if err := writeChecked(a, b, seed); err != nil {
			t.Errorf("a WRITE beside a backlog: %v", err)
		}
	})
	for a.dev.Stats().Port.SendFrames == sent && !ended.Load() {
		runtime.Gosched()
	}
	n.port.shut.Store(false)
	n.port.Wake()
	writer.Wait()
	if beside := n.port.beside.Load() - before; beside > (8+2*2)*128 {
		t.Errorf("an honest packet was received after %d of a flood", beside)
	}
}

// play has everybody begin, and the flood end when the honest are done, or when it was long enough:
// on a machine that is busy it is the other hosts that wait.
func (n *neighbours) play(t *testing.T, flood int) {
	before, run := n.dev.Stats().Port, n.run(t, flood)
	n.backlog(t, run, flood)
	n.sent = int(n.port.came.Load())
	for n.began = n.sent; n.port.came.Load() == int64(n.began); { // before anybody else
		n.flood(t, run)
	}
	var writers sync.WaitGroup
	var left, done atomic.Int64
	left.Store(int64(len(n.honest)))
	for i, pair := range n.honest {
		writers.Go(func() {
			defer left.Add(-1)
			for k := range neighbourWrites {
				if err := writeChecked(pair[0], pair[1], flood*100+i*7+k); err != nil {
					t.Errorf("connection %d of %d, WRITE %d: %v", i, len(n.honest), k, err)
					return
				}
				done.Add(1)
			}
		})
	}
	most := 300_000
	if step.Raced {
		most /= 10
	}
	for left.Load() > 0 && int(n.port.came.Load())-n.began < most {
		n.flood(t, run)
	}
	beside, came := done.Load(), int(n.port.came.Load())-n.began
	writers.Wait()
	after := n.dev.Stats().Port
	t.Logf("%d of %d WRITEs beside %d frames of the flood, %d Recvs in all; the kernel has dropped %d", beside,
		len(n.honest)*neighbourWrites, came, after.RecvBatches-before.RecvBatches, after.RecvOverflow-before.RecvOverflow)
}

// run makes the packets of a flood, as messages to the kernel: the packets of a run, which it
// numbers, or single ones.
func (n *neighbours) run(t *testing.T, flood int) (messages [][]byte) {
	f := &neighbourFloods[flood]
	batch := wire.NewBatch(neighbourRun, f.size)
	segment := 0
	n.size = f.size
	if n.runs {
		batch.MaxRun(neighbourRun)
		segment = f.size
	}
	must(t, unix.SetsockoptInt(n.flooder, unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment))
	for i := range neighbourRun {
		frame := batch.Reserve(&n.path, f.size)
		if frame == nil {
			break // it would begin another run
		}
		f.put(n, frame.Body, i)
		if wire.Seal(frame); f.wrong {
			frame.Body[f.size-1] ^= 1
		}
	}
	for i, frame := range batch.Frames() {
		if last := len(messages) - 1; n.runs && i%batch.Run(0) > 0 {
			messages[last] = append(messages[last], frame.Body...)
		} else {
			messages = append(messages, bytes.Clone(frame.Body))
		}
	}
	return messages
}

// flood sends some packets, unless so many are under way that the kernel might drop some.
func (n *neighbours) flood(t *testing.T, run [][]byte) {
	came, dry := int(n.port.came.Load()), n.port.dry.Load()
	if dry {
		n.sent = came // what has not come by now was lost
	}
	if n.sent-came > neighbourFlood {
		runtime.Gosched()
		return
	}
	n.send(t, run)
}

func (n *neighbours) send(t *testing.T, run [][]byte) {
	for _, message := range run {
		if _, err := unix.Write(n.flooder, message); err == nil {
			n.sent += len(message) / n.size
		} else if err != unix.ECONNREFUSED {
			t.Error(err)
		}
	}
}

// writeChecked is a WRITE whose bytes arrive.
func writeChecked(a, b *end, seed int) error {
	fill(a.buf[:1000], seed)
	if err := a.qp.PostSend(SendWR{
		Opcode:     WRWrite,
		SGL:        []SGE{a.mr.SGE(0, 1000)},
		RemoteAddr: b.mr.Addr(),
		RKey:       b.mr.RKey(),
	}); err != nil {
		return err
	}
	var wcs [1]WC
	if _, err := a.cq.Wait(bg, wcs[:]); err != nil {
		return err
	}
	if wcs[0].Status != WCSuccess {
		return fmt.Errorf("%v", wcs[0].Status)
	}
	if !bytes.Equal(a.buf[:1000], b.buf[:1000]) {
		return fmt.Errorf("other bytes have arrived")
	}
	return nil
}
