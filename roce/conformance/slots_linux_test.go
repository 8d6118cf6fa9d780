package conformance

// Several processes with one address, without privileges and without anybody between them: the
// first makes the sockets and gives each its slot.

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

const slotLanes = 2

// openSlot is a device of a slot.
func openSlot(t testing.TB, name string, s udp.Slot, dealt []byte) *roce.Device {
	t.Helper()
	ports, err := udp.OpenSlot(name, s, transport.Options{})
	must(t, err)
	d, err := roce.Open(name, &roce.Config{Ports: ports, Dealt: dealt})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// makeSlots are those of one address of this process's own.
func makeSlots(t testing.TB, n, lanes int) []udp.Slot {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 79, byte(os.Getpid()), byte(n)})
	list, err := udp.MakeSlots([]netip.Addr{addr}, n, lanes, transport.Options{})
	must(t, err)
	t.Cleanup(func() {
		for i := range list {
			must(t, list[i].Close())
		}
	})
	return list
}

// dup is a descriptor to be handed over.
func dup(fd int) (*os.File, error) {
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(other), "slot"), err
}

// slotted is a process with a slot, whose sockets this one keeps, and what tells which numbers it
// has dealt. It is started again and again.
type slotted struct {
	*exec.Cmd
	lines *bufio.Scanner

	name  string // what the process is told of its slot
	slot  udp.Slot
	dealt *os.File
}

func newSlotted(t *testing.T, i, slots int, s udp.Slot) *slotted {
	t.Helper()
	fd, err := unix.MemfdCreate("dealt", unix.MFD_CLOEXEC)
	must(t, err)
	p := &slotted{name: fmt.Sprintf("%v %d %d", s.Addrs[0], i, slots), slot: s, dealt: os.NewFile(uintptr(fd), "dealt")}
	t.Cleanup(func() { p.dealt.Close() })
	must(t, p.dealt.Truncate(int64(roce.DealtSize)))
	return p
}

// start has the process do something.
func (p *slotted) start(t *testing.T, what string) {
	t.Helper()
	p.Cmd = exec.Command(os.Args[0], "-test.run=^TestSlotProcess$", "-test.v")
	p.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", slotProcess, what, p.name))
	p.Stderr = os.Stderr
	for _, fd := range p.slot.FDs[0] {
		own, err := dup(fd)
		must(t, err)
		defer own.Close()
		p.ExtraFiles = append(p.ExtraFiles, own)
	}
	p.ExtraFiles = append(p.ExtraFiles, p.dealt)
	out, err := p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	p.lines = bufio.NewScanner(out)
}

// says waits for a line of the process that begins so, and returns the rest.
func (p *slotted) says(t *testing.T, begin string) string {
	t.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), begin); ok {
			return rest
		}
	}
	t.Fatalf("the process ended before it said %q", begin)
	return ""
}

// TestSlotProcess is the other process of TestSlots.
func TestSlotProcess(t *testing.T) {
	var what, addr string
	var i, slots int
	if n, _ := fmt.Sscan(os.Getenv(slotProcess), &what, &addr, &i, &slots); n < 4 {
		t.Skip("only for TestSlots: it is the other process of that test, which starts it")
	}
	s := udp.Slot{Addrs: []netip.Addr{netip.MustParseAddr(addr)}, QPNs: wire.QPNSpace{}.Owner(i, slots), FDs: [][]int{nil}}
	for lane := range slotLanes {
		s.FDs[0] = append(s.FDs[0], 3+lane)
	}
	dealt, err := unix.Mmap(3+slotLanes, 0, roce.DealtSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	d := openSlot(t, "slot "+strconv.Itoa(i), s, dealt)
	if n := d.Stats().Port.RecvFrames; n > 0 {
		t.Fatalf("%d packets of who had the slot before", n)
	}
	if where, ok := strings.CutPrefix(what, "suite:"); ok {
		conn, err := net.Dial("tcp", where)
		must(t, err)
		remote(t, d, conn, true)
		return
	}
	stream(t, d)
}

// stream sends to itself, once it is told to, until the process is killed.
func stream(t *testing.T, d *roce.Device) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGUSR1)
	pd, err := d.AllocPD()
	must(t, err)
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 256})
	must(t, err)
	mem := make([]byte, 1<<16)
	mr, err := pd.RegMR(mem, roce.LocalWrite|roce.RemoteWrite)
	must(t, err)
	var ends [2]*roce.QP
	for i := range ends {
		ends[i], err = pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
		must(t, err)
		fmt.Println("has number", ends[i].QPN())
	}
	for i, q := range ends {
		must(t, q.Connect(t.Context(), ends[1-i].Endpoint(), nil))
	}
	<-told
	wcs := make([]roce.WC, 16)
	for n := 1; ; n++ {
		must(t, ends[0].PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled, SGL: []roce.SGE{mr.SGE(0, 1<<15)},
			RemoteAddr: mr.Addr() + 1<<15, RKey: mr.RKey()}))
		if k, err := cq.Wait(t.Context(), wcs); err != nil || wcs[0].Status != roce.WCSuccess {
			t.Fatal(k, err, wcs[0].Status)
		}
		if n%1000 == 0 {
			fmt.Println("streams", n)
		}
	}
}

// TestSlots plays the suite between two processes with one address, which are all that it has, or
// two of sixteen. Meanwhile another of these is killed in the middle of its own traffic, and
// started again, one after the other: at least one.
func TestSlots(t *testing.T) {
	counts := []int{2, 16}
	if testing.Short() {
		counts = []int{4} // sixteen with the race detector in them take a minute of a processor
	}
	for _, n := range counts {
		t.Run(strconv.Itoa(n), func(t *testing.T) { playSlots(t, n) })
	}
}

// slotTime is how long TestSlots goes on; it plays the suite once at least, and until a process was
// killed meanwhile.
var slotTime = flag.Duration("slots", 0, "how long the suite is played again and again between processes of one address")

func playSlots(t *testing.T, n int) {
	list := makeSlots(t, n, slotLanes)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	processes := make([]*slotted, n)
	for i := range processes {
		processes[i] = newSlotted(t, i, n, list[i])
	}
	ctx, stop := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	defer killing.Wait()
	defer stop()
	var killed atomic.Int64
	if n > 2 {
		killing.Go(func() { // a test of its own, as who may fail it is not our goroutine
			t.Run("killed", func(t *testing.T) { killInTurn(ctx, t, processes[2:], &killed) })
		})
	}
	own := openSlot(t, "slot 0", list[0], nil)
	for begin := time.Now(); ; {
		processes[1].start(t, "suite:"+l.Addr().String())
		conn, err := l.Accept()
		must(t, err)
		remote(t, own, conn, false)
		for processes[1].lines.Scan() {
		}
		if err := processes[1].Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
		if t.Failed() || time.Since(begin) >= *slotTime && (n == 2 || killed.Load() > 0) {
			break
		}
	}
	t.Logf("others were killed %d times", killed.Load())
}

// killInTurn kills the processes in turn until ctx ends, and starts each again. The one that comes
// next streams; no number is dealt twice.
func killInTurn(ctx context.Context, t *testing.T, list []*slotted, killed *atomic.Int64) {
	numbers := map[string]bool{}
	begin := func(p *slotted) {
		p.start(t, "stream")
		for range 2 {
			n := p.says(t, "has number ")
			if numbers[n] {
				t.Errorf("number %s was another process's", n)
			}
			numbers[n] = true
		}
	}
	end := func(p *slotted) {
		must(t, p.Process.Kill())
		p.Wait()
	}
	for _, p := range list {
		begin(p)
	}
	for i := 0; ctx.Err() == nil; i++ {
		p := list[i%len(list)]
		must(t, p.Process.Signal(unix.SIGUSR1))
		for range 3 {
			p.says(t, "streams")
		}
		end(p)
		killed.Add(1)
		begin(p)
	}
	for _, p := range list {
		end(p)
	}
}

// TestSlotsWithin plays it between two of sixteen slots in one process.
func TestSlotsWithin(t *testing.T) {
	list := makeSlots(t, 16, slotLanes)
	within(t, openSlot(t, "slot 3", list[3], nil), openSlot(t, "slot 12", list[12], nil), true)
}

// TestForeign: of two packets that travel as one, and are for two slots, the second one is shown to
// the slot that got both, and counted.
func TestForeign(t *testing.T) {
	list := makeSlots(t, 2, slotLanes)
	foreign := make(chan uint32, 1)
	ports, err := udp.OpenSlot("slot 0", list[0], transport.Options{})
	must(t, err)
	d, err := roce.Open("slot 0", &roce.Config{Ports: ports, Foreign: func(f *wire.Frame) {
		foreign <- (*wire.BTH)(f.Body).DestQP()
	}})
	must(t, err)
	defer d.Close()
	c, err := net.Dial("udp", netip.AddrPortFrom(list[0].Addrs[0], wire.UDPPort).String())
	must(t, err)
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, wire.MinBody)
	}))
	must(t, err)
	run := make([]byte, 2*wire.MinBody)
	(*wire.BTH)(run).Put(wire.RCAcknowledge, 0, 0, wire.DefaultPKey, 0x123400, 0)
	(*wire.BTH)(run[wire.MinBody:]).Put(wire.RCAcknowledge, 0, 0, wire.DefaultPKey, 0x567840, 0)
	_, err = c.Write(run)
	must(t, err)
	if got := <-foreign; got != 0x567840 {
		t.Errorf("a packet for %#x", got)
	}
	if s := d.Stats(); s.Lane.Foreign != 1 || s.Engine.RcvdPkts != 1 {
		t.Errorf("%d packets of another slot, %d packets of this one", s.Lane.Foreign, s.Engine.RcvdPkts)
	}
}

// TestRunsStayWithinASlot: one sender sends to two slots in turn, whose packets travel in runs, and
// nearly none falls at the wrong one.
func TestRunsStayWithinASlot(t *testing.T) {
	const messages = 20000
	s, strays := newInTurn(t, makeSlots(t, 2, 1)), uint64(0)
	s.send(messages)
	for _, d := range s.to {
		stats := d.Stats()
		strays += stats.Lane.Foreign
		if stats.Port.RecvRuns == 0 {
			t.Error("nothing came in runs")
		}
	}
	if strays*1000 > messages {
		t.Errorf("%d of %d packets fell at the wrong slot", strays, messages)
	}
}

// BenchmarkSlots is one sender's WRITEs of 64 bytes, in turn to two queue pairs of one slot, to one
// of each of two, and to one of each of two addresses. With two processors the latter two have one
// goroutine too many for them, and the one of two addresses shows what that takes.
func BenchmarkSlots(b *testing.B) {
	for _, c := range []struct {
		name string
		to   func(b *testing.B) []udp.Slot
	}{
		{"one slot", func(b *testing.B) []udp.Slot { return makeSlots(b, 2, 1)[:1] }},
		{"two slots", func(b *testing.B) []udp.Slot { return makeSlots(b, 2, 1) }},
		{"two addresses", func(b *testing.B) []udp.Slot {
			return []udp.Slot{makeSlots(b, 2, 1)[0], makeSlots(b, 4, 1)[0]}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newInTurn(b, c.to(b))
			b.ResetTimer()
			s.send(b.N)
		})
	}
}

// inTurn sends to two queue pairs.
type inTurn struct {
	t   testing.TB
	to  []*roce.Device
	cq  *roce.CQ
	qps [2]*roce.QP
	wrs [2]roce.SendWR
}

// newInTurn sends from another address to one slot, or to two.
func newInTurn(t testing.TB, to []udp.Slot) *inTurn {
	s := &inTurn{t: t}
	addr := to[0].Addrs[0].As4()
	addr[1]++
	from, err := roce.Open("udp:"+netip.AddrFrom4(addr).String(), nil)
	must(t, err)
	t.Cleanup(func() { must(t, from.Close()) })
	for i := range to {
		s.to = append(s.to, openSlot(t, "slot", to[i], nil))
	}
	pd, cq, local := s.end(from)
	s.cq = cq
	for i := range s.qps {
		farPD, far, remote := s.end(s.to[i%len(s.to)])
		q := s.pair(farPD, far)
		s.qps[i] = s.pair(pd, cq)
		must(t, q.Connect(t.Context(), s.qps[i].Endpoint(), nil))
		must(t, s.qps[i].Connect(t.Context(), q.Endpoint(), nil))
		s.wrs[i] = roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{local.SGE(0, 64)}, RemoteAddr: remote.Addr(),
			RKey: remote.RKey()}
	}
	return s
}

// end makes what a queue pair takes. All is closed with the test.
func (s *inTurn) end(d *roce.Device) (*roce.PD, *roce.CQ, *roce.MR) {
	pd, err := d.AllocPD()
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, pd.Close()) })
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 256})
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, cq.Close()) })
	mr, err := pd.RegMR(make([]byte, 64), roce.LocalWrite|roce.RemoteWrite)
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, mr.Close()) })
	return pd, cq, mr
}

func (s *inTurn) pair(pd *roce.PD, cq *roce.CQ) *roce.QP {
	q, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq, Cap: roce.QPCap{MaxSendWR: inTurnWindow}})
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, q.Close()) })
	return q
}

// inTurnWindow is how many messages are under way, half of them to each.
const inTurnWindow = 256

// send sends messages, or some more, to both in turn, of which the last two of a group complete.
func (s *inTurn) send(messages int) {
	const group = 32
	messages += -messages & (group - 1)
	var wcs [8]roce.WC
	for posted, open := 0, 0; posted < messages || open > 0; {
		for ; posted < messages && open < inTurnWindow; posted++ {
			wr := &s.wrs[posted%2]
			wr.Flags = 0
			if posted%group >= group-2 {
				wr.Flags = roce.SendSignaled
			}
			must(s.t, s.qps[posted%2].PostSend(*wr))
			open++
		}
		n, err := s.cq.Poll(wcs[:])
		must(s.t, err)
		for i := range n {
			if wcs[i].Status != roce.WCSuccess {
				s.t.Fatal(wcs[i].Status)
			}
		}
		open -= n * group / 2
	}
}

// TestQueuePairOneIsTheFirstSlots: another slot would never hear what comes to it, and so have no
// RDMA CM, and is told so.
func TestQueuePairOneIsTheFirstSlots(t *testing.T) {
	list := makeSlots(t, 2, slotLanes)
	d := openSlot(t, "slot 1", list[1], nil)
	pd, err := d.AllocPD()
	must(t, err)
	defer pd.Close()
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 16})
	must(t, err)
	defer cq.Close()
	if _, err = pd.CreateQP(roce.QPInitAttr{Type: roce.GSI, SendCQ: cq}); !errors.Is(err, roce.ErrInvalid) {
		t.Errorf("queue pair 1 of slot 1: %v", err)
	}
	own := rdmacm.ListenConfig{ConnConfig: rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{d}}}}
	if _, err = rdmacm.Listen(t.Context(), netip.AddrPortFrom(list[1].Addrs[0], 7471).String(), &own); err == nil {
		t.Error("slot 1 listens, and nobody can reach it")
	} else {
		t.Log(err)
	}
}
