package xdp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/transport/packet"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

// xdpPeers are the ports that an xdp port talks to in these tests.
var peers = []struct {
	name string
	open func(t testing.TB, ns *netns.Namespace, addr string) transport.Port
}{
	{"native", func(t testing.TB, ns *netns.Namespace, addr string) transport.Port {
		return openOn(t, ns, addr, transport.Options{}, native)
	}},
	{"generic", func(t testing.TB, ns *netns.Namespace, addr string) transport.Port {
		return openOn(t, ns, addr, transport.Options{}, generic)
	}},
	{"udp", func(t testing.TB, ns *netns.Namespace, addr string) transport.Port {
		return porttest.OpenIn(t, ns, udp.Open, "udp:"+addr, transport.Options{})
	}},
	{"packet", func(t testing.TB, ns *netns.Namespace, addr string) transport.Port {
		return porttest.OpenIn(t, ns, packet.Open, "packet:"+addr, transport.Options{})
	}},
}

// Packets of all sizes, alone and in batches, both ways between each mode and each kind of port.
// Those with native XDP may be sent runs: the kernel cuts them up before, as native XDP takes no
// others.
func TestToEveryPort(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			w := netns.NewWire(t, mtu)
			for _, mode := range []mode{native, generic, {native: true, plain: true}} {
				for _, peer := range peers {
					for _, v6 := range []bool{false, true} {
						t.Run(fmt.Sprintf("%+v-%s-v6=%v", mode, peer.name, v6), func(t *testing.T) {
							left, right := "10.77.0.1", "10.77.0.2"
							if v6 {
								left, right = "fd78::1", "fd78::2"
							}
							a, b := openOn(t, w.Left, left, transport.Options{}, mode), peer.open(t, w.Right, right)
							run := 1
							if mode.native && peer.name != "generic" {
								run = transport.MaxRun
							}
							exchange(t, a, b, mtu, 1)
							exchange(t, b, a, mtu, run)
							checkExchange(t, a.Stats(), mtu, mode)
						})
					}
				}
			}
		})
	}
}

// checkExchange looks for losses, and for copies. In tiled memory, what must be copied together is
// what comes at the end of a block: 1 packet of 270.
func checkExchange(t *testing.T, s transport.Stats, mtu int, mode mode) {
	t.Helper()
	if s.RecvBad != 0 || s.RecvOverflow != 0 {
		t.Errorf("%+v", s)
	}
	least, most := uint64(0), uint64(0)
	switch {
	case mtu == 1500:
	case mode.plain:
		least, most = s.RecvFrames/4, s.RecvFrames
	default:
		most = s.RecvFrames/270 + 1
	}
	if s.RecvCopied < least || s.RecvCopied > most {
		t.Errorf("%d of %d packets were copied together, want %d to %d", s.RecvCopied, s.RecvFrames, least, most)
	}
}

// exchange sends packets of many sizes from a to b, one by one and then many at once.
func exchange(t *testing.T, a, b transport.Port, mtu, run int) {
	t.Helper()
	dst := b.Info().GIDs[0]
	porttest.Resolve(t, a, dst.Addr().String())
	var sizes []int
	for _, n := range []int{0, 1, 3, 4, 17, 64, 255, 1024, 1400, 2048, 3764, 3765, 3768, 3780, 3800, 3900, 4000, 4018, 4022, 4095, 4096,
		4096, 4096, 8900} {
		if n+100 <= mtu {
			sizes = append(sizes, n)
		}
	}
	batch, frames := wire.NewBatch(256, 4400), make([]wire.Frame, 64)
	path := porttest.PathTo(t, a, dst, 0, 64)
	next := 0
	expect := func(upTo int) {
		t.Helper()
		for next < upTo {
			for _, f := range porttest.RecvSome(t, b, frames) {
				if got := porttest.Number(t, &f); got != next {
					t.Fatalf("packet %d instead of %d", got, next)
				}
				next++
			}
		}
	}
	for _, n := range sizes {
		porttest.Put(t, batch, path, next, n)
		porttest.SendAll(t, a, batch)
		expect(next + 1)
	}
	batch.MaxRun(min(run, a.Info().MaxRun))
	for round := range 40 {
		first := next
		for i := range 100 {
			porttest.Put(t, batch, path, first+i, sizes[(i/9+round)%len(sizes)])
		}
		porttest.SendAll(t, a, batch)
		expect(first + 100)
	}
}

// With two queues an xdp port has two sockets that share its memory; or there are two ports, one
// for each queue.
func TestQueues(t *testing.T) {
	w := netns.NewWireWithQueues(t, 2)
	left := []transport.Port{openOn(t, w.Left, "10.77.0.1/0", transport.Options{}, native),
		openOn(t, w.Left, "10.77.0.1/1", transport.Options{}, native)}
	right := openOn(t, w.Right, "10.77.0.2", transport.Options{}, native)
	if n := len(right.(*port).queues); n != 2 {
		t.Fatalf("%d queues", n)
	}
	batch, frames := wire.NewBatch(256, 4400), make([]wire.Frame, 64)
	for i, p := range left { // a veth delivers what was sent by queue i to queue i
		porttest.Resolve(t, p, "10.77.0.2")
		for n := range 5000 {
			porttest.Put(t, batch, porttest.PathTo(t, p, right.Info().GIDs[0], 0, 64), n, []int{100, 4096}[n%2])
			porttest.SendAll(t, p, batch)
			if got := porttest.RecvSome(t, right, frames); len(got) != 1 || porttest.Number(t, &got[0]) != n {
				t.Fatalf("packet %d from port %d: %d frames", n, i, len(got))
			}
		}
		for q, there := range right.(*port).queues {
			if got := there.rx.ours > 0; got != (q <= i) {
				t.Errorf("after port %d: packets by queue %d: %v", i, q, got)
			}
		}
	}
	// The right port sends by its first queue.
	porttest.Resolve(t, right, "10.77.0.1")
	porttest.Put(t, batch, porttest.PathTo(t, right, left[0].Info().GIDs[0], 0, 64), 7, 100)
	porttest.SendAll(t, right, batch)
	if got := porttest.RecvSome(t, left[0], frames); porttest.Number(t, &got[0]) != 7 {
		t.Fatal(got)
	}
	// Waiting sees every queue.
	porttest.Put(t, batch, porttest.PathTo(t, left[1], right.Info().GIDs[0], 0, 64), 8, 100)
	woken := make(chan error, 1)
	go func() { woken <- right.Wait(-1) }() // for ever, if the second queue is not seen
	for !right.(*port).Asleep(transport.Background) && len(woken) == 0 {
		runtime.Gosched()
	}
	porttest.SendAll(t, left[1], batch)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if got := porttest.RecvSome(t, right, frames); porttest.Number(t, &got[0]) != 8 {
		t.Fatal(got)
	}
}

// Everything that is not ours passes while a port is open: TCP, UDP to other ports, UDP 4791 to
// other addresses, ICMP.
func TestLeavesTheRestAlone(t *testing.T) {
	for _, mode := range []mode{native, generic} {
		t.Run(fmt.Sprintf("native=%v", mode.native), func(t *testing.T) {
			w := netns.NewWire(t, 9000)
			a, b := openOn(t, w.Left, "10.77.0.1", transport.Options{}, mode), openOn(t, w.Right, "10.77.0.2", transport.Options{}, mode)
			for _, addr := range []string{"10.77.0.2:80", "[fd78::2]:80"} {
				copyByTCP(t, w, addr)
			}
			for _, addr := range []string{"10.77.0.2:4792", "10.77.0.3:4791", "[fd78::2]:4791"} {
				sayHello(t, w, addr)
			}
			if ping, err := exec.LookPath("ping"); err == nil {
				w.Left.Do(func() {
					if out, err := exec.Command(ping, "-c", "2", "-i", "0.01", "-s", "5000", "10.77.0.2").CombinedOutput(); err != nil {
						t.Errorf("ping: %v: %s", err, out)
					}
				})
			}
			exchange(t, a, b, 9000, 1)
			if s := b.Stats(); s.RecvBad != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// copyByTCP sends a megabyte from left to right.
func copyByTCP(t *testing.T, w *netns.Wire, addr string) {
	t.Helper()
	var listener net.Listener
	var conn net.Conn
	var err error
	w.Right.Do(func() { listener, err = net.Listen("tcp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	data := bytes.Repeat([]byte("RoCE is not all"), 1<<16)
	got := make(chan []byte)
	go func() {
		defer close(got)
		if c, err := listener.Accept(); err == nil {
			all, _ := io.ReadAll(c)
			c.Close()
			got <- all
		}
	}()
	w.Left.Do(func() { conn, err = net.DialTimeout("tcp", addr, porttest.Patience) })
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(data)
	conn.Close()
	if all := <-got; !bytes.Equal(all, data) {
		t.Fatalf("%s: %d bytes arrived of %d", addr, len(all), len(data))
	}
}

// sayHello sends a datagram from left to right.
func sayHello(t *testing.T, w *netns.Wire, addr string) {
	t.Helper()
	var in net.PacketConn
	var out net.Conn
	var err error
	w.Right.Do(func() { in, err = net.ListenPacket("udp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w.Left.Do(func() { out, err = net.Dial("udp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in.SetDeadline(time.Now().Add(porttest.Patience))
	out.Write([]byte("hello"))
	buf := make([]byte, 16)
	if n, _, err := in.ReadFrom(buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("%s: %q, %v", addr, buf[:n], err)
	}
}

// xdpAttached asks the kernel whether an interface has an XDP program.
func attached(t testing.TB, ns *netns.Namespace, iface string) (attached bool) {
	t.Helper()
	var err error
	ns.Do(func() {
		var l netlink.Link
		if l, err = netlink.LinkByName(iface); err == nil {
			attached = l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return attached
}

// The program leaves the interface with the port, and with the process if that is killed.
func TestDetaches(t *testing.T) {
	w := netns.NewWire(t, 9000)
	for _, mode := range []mode{native, generic} {
		p := openOn(t, w.Right, "10.77.0.2", transport.Options{}, mode)
		if !attached(t, w.Right, "wire") {
			t.Fatal("no program while the port is open")
		}
		p.Close()
		if attached(t, w.Right, "wire") {
			t.Fatal("a program after Close")
		}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=1m")
	child.Env = append(os.Environ(), "GOROCE_XDP_CHILD=10.77.0.2")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Right.Do(func() { err = child.Start() })
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	if n, err := out.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "ready") {
		child.Process.Kill()
		child.Wait()
		t.Fatalf("the child said %q, %v", line[:n], err)
	}
	if !attached(t, w.Right, "wire") {
		t.Error("no program while the child lives")
	}
	var other error
	w.Right.Do(func() { _, other = Open("xdp:10.77.0.3", 1, transport.Options{}) })
	if other == nil || !strings.Contains(other.Error(), `has an XDP program already ("roce", id `) {
		t.Errorf("a second process: %v", other)
	}
	child.Process.Signal(unix.SIGKILL)
	child.Wait()
	if attached(t, w.Right, "wire") {
		t.Fatal("a program after the process was killed")
	}
	// Queue, address and port are free again.
	p := openOn(t, w.Right, "10.77.0.2", transport.Options{}, native)
	exchange(t, openOn(t, w.Left, "10.77.0.1", transport.Options{}, native), p, 9000, 1)
}

// TestChild is the process that TestDetaches kills.
func TestChild(t *testing.T) {
	addr := os.Getenv("GOROCE_XDP_CHILD")
	if addr == "" {
		t.Skip("only for TestDetaches")
	}
	list, err := Open("xdp:"+addr, 1, transport.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	list[0].Wait(time.Minute)
}
