package transport

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// newTap adds an Ethernet interface whose other end is a file: what is sent stays in its queue until it is read.
func (ns *netns) newTap(t *testing.T, name string, queue int, addr, peer string) (file int) {
	t.Helper()
	var err error
	ns.do(func() { file, err = unix.Open("/dev/net/tun", os.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		t.Skipf("no tap interfaces: %v", err)
	}
	t.Cleanup(func() { unix.Close(file) })
	var req struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], name)
	req.flags = unix.IFF_TAP | unix.IFF_NO_PI
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(file), unix.TUNSETIFF, uintptr(unsafe.Pointer(&req))); errno != 0 {
		t.Skipf("no tap interfaces: %v", errno)
	}
	// Without IPv6 the kernel has nothing of its own to say, which would take room in the queue.
	ns.ip(t, fmt.Sprintf("link set %s txqueuelen %d addrgenmode none", name, queue), fmt.Sprintf("addr add %s/24 dev %s", addr, name), "link set "+name+" up",
		fmt.Sprintf("neigh add %s lladdr 02:00:00:00:00:02 dev %s nud permanent", peer, name))
	return file
}

// When the interface takes no more, Send says so, Wait gives it time, and nothing is lost or doubled.
func TestPacketBackPressure(t *testing.T) {
	const total, queue = 300, 16
	ns := newNetns(t)
	tap := ns.newTap(t, "tap0", queue, "10.79.0.1", "10.79.0.2")
	p := ns.open(t, "packet:10.79.0.1", Options{MaxRun: 1}).Port
	to, _ := wire.ParseGID("10.79.0.2")
	if err := Resolve(context.Background(), p, to, patience); err != nil {
		t.Fatal(err)
	}
	batch := wire.NewBatch(total, 200)
	for i := range total {
		put(t, batch, pathTo(t, p, to, 0, 64), i, 64)
	}
	next, eth := 0, make([]byte, 2000)
	for turns := 0; next < total; turns++ {
		n, err := p.Send(batch)
		if err != nil || turns == 0 && (n < queue/2 || n == total) {
			t.Fatalf("%d frames sent, %v", n, err)
		}
		batch.Drop(n)
		if batch.Len() > 0 {
			start := time.Now()
			if err := p.Wait(-1); err != nil { // for ever, if nobody knows that there is room
				t.Fatal(err)
			}
			if d := time.Since(start); turns < 3 && d < driverRetry/2 {
				t.Errorf("Wait returned after %v: the queue was as full as before", d)
			}
		}
		for range 7 { // the peer is slow
			n, err := unix.Read(tap, eth)
			if err != nil {
				break
			}
			f, drop := wire.SplitFrame(eth[etherLen:n])
			if drop != wire.DropNone {
				continue // router solicitations and the like
			}
			if got := number(t, &f); got != next {
				t.Fatalf("packet %d instead of %d", got, next)
			}
			next++
		}
	}
	if s := p.Stats(); s.SendFrames != total || s.SendBlocked == 0 || s.SendRefused+s.SendUnreachable+s.SendTooLong != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.Wait(0); err != nil {
		t.Error(err)
	}
}

// auto takes a packet port where it works, and says why where it does not.
func TestAuto(t *testing.T) {
	w := newWire(t, 1500)
	for _, c := range []struct {
		name, why string
		src       uint16 // 0: a packet port
	}{
		{"auto:wire", "packet: half the round trip of udp, and the whole ICRC is checked", 0},
		{"auto:fd78::1", "packet: half the round trip of udp, and the whole ICRC is checked", 0},
		{"auto:lo", "udp: on loopback a packet port reaches only other packet ports", wire.UDPPort},
		{"auto:10.78.0.1", "udp: interface tun0 is not Ethernet (none): use udp:10.78.0.1", wire.UDPPort},
	} {
		if c.name == "auto:10.78.0.1" {
			w.left.ip(t, "tuntap add dev tun0 mode tun", "addr add 10.78.0.1/24 dev tun0", "link set tun0 up")
		}
		p := w.left.open(t, c.name, Options{})
		if i := p.Info(); i.Name != c.name || i.Why != c.why || i.SrcPort != c.src {
			t.Errorf("%s: %+v", c.name, i)
		}
	}
	var err error
	w.left.do(func() { _, err = Open("auto:10.99.9.9", Options{}) })
	if err == nil {
		t.Error("auto:10.99.9.9 was opened")
	}
}
