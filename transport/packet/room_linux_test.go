package packet

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// newTap adds an Ethernet interface whose other end is a file: what is sent stays in its queue
// until it is read.
func newTap(t *testing.T, ns *netns.Namespace, name string, queue int, addr, peer string) (file int) {
	t.Helper()
	var err error
	ns.Do(func() { file, err = unix.Open("/dev/net/tun", os.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		netns.Lacks(t, "there are no tap interfaces: %v", err)
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
		netns.Lacks(t, "there are no tap interfaces: %v", errno)
	}
	// Without IPv6 the kernel has nothing of its own to say, which would take room in the queue.
	ns.IP(t, fmt.Sprintf("link set %s txqueuelen %d addrgenmode none", name, queue), fmt.Sprintf("addr add %s/24 dev %s",
		addr, name), "link set "+name+" up",
		fmt.Sprintf("neigh add %s lladdr 02:00:00:00:00:02 dev %s nud permanent", peer, name))
	return file
}

// When the interface takes no more, Send says so, Wait gives it time, and nothing is lost or
// doubled.
func TestBackPressure(t *testing.T) {
	const total, queue = 300, 16
	ns := netns.New(t)
	tap := newTap(t, ns, "tap0", queue, "10.79.0.1", "10.79.0.2")
	p := porttest.OpenIn(t, ns, Open, "packet:10.79.0.1", transport.Options{MaxRun: 1})
	to, _ := wire.ParseGID("10.79.0.2")
	if err := transport.Resolve(context.Background(), p, to, porttest.Patience); err != nil {
		t.Fatal(err)
	}
	batch := wire.NewBatch(total, 200)
	for i := range total {
		porttest.Put(t, batch, porttest.PathTo(t, p, to, 0, 64), i, 64)
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
			if d := time.Since(start); turns < 3 && d < host.DriverRetry/2 {
				t.Errorf("Wait returned after %v: the queue was as full as before", d)
			}
		}
		for range 7 { // the peer is slow
			n, err := unix.Read(tap, eth)
			if err != nil {
				break
			}
			f, drop := wire.SplitFrame(eth[ether.HeaderLen:n])
			if drop != wire.DropNone {
				continue // router solicitations and the like
			}
			if got := porttest.Number(t, &f); got != next {
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
