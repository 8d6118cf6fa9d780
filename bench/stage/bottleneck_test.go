//go:build linux

package stage

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// slowQueue is left by a byte a millisecond: what a test has sent waits there, however long the
// test takes.
var slowQueue = Queue{Rate: 8e3, MarkFrom: 20 << 10, MarkAll: 40 << 10, MarkMost: 0.1, Limit: 150 << 10}

func newBottleneck(t *testing.T, q Queue) *Bottleneck {
	t.Helper()
	b, err := NewBottleneck(2, 9000, q)
	if err != nil {
		// Not root, or a container.
		lacks(t, err)
	}
	t.Cleanup(b.Close)
	return b
}

// frame is what a datagram of 1000 bytes is with the headers of UDP, IPv4 and Ethernet.
const frame = 1000 + 8 + 20 + 14

// send sends datagrams of 1000 bytes at once, with the given TOS, from a sender to its target. It
// returns when the switch has taken them in, which is somebody else's turn on a busy machine.
func (b *Bottleneck) send(t *testing.T, from, datagrams, tos int) {
	t.Helper()
	taken := func() int {
		r := b.Read()
		return r.Passed + r.Drops + r.Backlog/frame + b.lost(t, from)
	}
	before := taken()
	defer func() {
		for taken() < before+datagrams && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}()
	var c *net.UDPConn
	err := b.Senders[from].Do(func() (err error) {
		c, err = net.ListenUDP("udp4", nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_TOS, tos) })
	if err != nil {
		t.Fatal(err)
	}
	for range datagrams {
		if _, err := c.WriteToUDP(make([]byte, 1000), &net.UDPAddr{IP: b.Targets[from].AsSlice(), Port: 9}); err != nil {
			t.Fatal(err)
		}
	}
}

// lost is how many packets of a sender the kernel had no room for on their way to the switch: the
// queues there are the machine's, for all that is on it.
func (b *Bottleneck) lost(t *testing.T, from int) (n int) {
	t.Helper()
	err := b.Senders[from].Do(func() error {
		link, err := netlink.LinkByName(b.Senders[from].Interface)
		if err == nil {
			n = int(link.Attrs().Statistics.TxDropped)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBottleneckMarks(t *testing.T) {
	b := newBottleneck(t, slowQueue)
	b.send(t, 0, 10, 2)
	short := b.Read()
	if short.Marked != 0 || short.Drops != 0 {
		t.Errorf("a short queue: %+v", short)
	}
	if got := short.Bytes[0]; got < 10*1000 || got > 10*1200 || short.Bytes[1] > 1000 {
		t.Errorf("bytes by sender: %v", short.Bytes)
	}
	b.send(t, 1, 100, 2)
	long := b.Read()
	// With those before, 110 datagrams of 1042 bytes are in a queue that marks all from the 40th
	// on: 71, and a few less if the test was interrupted for seconds. Before the 40th, this queue
	// is too slow for the marker's arithmetic to mark any.
	if n := long.Marked; n < 60 || n > 75 || long.Drops != 0 || long.Unmarkable != 0 || long.Backlog < slowQueue.MarkAll {
		t.Errorf("a long queue: %+v", long)
	}
	b.send(t, 1, 400, 0)
	full := b.Read()
	if full.Marked != long.Marked || full.Unmarkable+uint64(full.Drops) < 400 || full.Drops < 300 {
		t.Errorf("too many that are not ECN-capable: %+v", full)
	}
}

func TestCompete(t *testing.T) {
	b := newBottleneck(t, slowQueue)
	sh := func(script string) Program { return Program{Args: []string{"sh", "-c", script}} }
	plays := func(client string) []Play {
		return []Play{{Server: sh("sleep 86400"), Client: sh("sleep 86400"), Limit: time.Minute},
			{Server: sh("sleep 86400"), Client: sh(client), Limit: time.Minute}}
	}
	readings, err := b.Compete(context.Background(), plays("sleep 86400"), 5*time.Millisecond, 100*time.Millisecond)
	if err != nil || len(readings) < 2 {
		t.Errorf("%d readings, %v", len(readings), err)
	}
	if _, err := b.Compete(context.Background(), plays("echo no device >&2; exit 1"), time.Millisecond, time.Minute); err == nil ||
		!strings.Contains(err.Error(), "no device") {
		t.Errorf("a client that fails: %v", err)
	}
}

// A switch that marks nothing loses what it has no room for, and counts it.
func TestShareWithoutMarks(t *testing.T) {
	q := slowQueue
	q.MarkAll, q.Limit = 0, 20<<10
	b := newBottleneck(t, q)
	sh := func(script string) Program { return Program{Args: []string{"sh", "-c", script}} }
	plays := []Play{{Server: sh("sleep 86400"), Client: sh("echo one"), Limit: time.Minute}, {Server: sh("true"), Client: sh("echo two"),
		Limit: time.Minute}}
	said, before, _, err := b.Share(context.Background(), plays, 0, time.Minute)
	if err != nil || len(said) != 2 || string(said[0]) != "one\n" || string(said[1]) != "two\n" || before.Drops != 0 {
		t.Errorf("%q, %+v, %v", said, before, err)
	}
	b.send(t, 0, 100, 2)
	r := b.Read()
	if r.Drops < 60-b.lost(t, 0) || r.Marked+r.Unmarkable != 0 || r.Passed > 40 {
		t.Errorf("100 datagrams of 1000 bytes into 20 KiB: %+v", r)
	}
	plays[1].Client = sh("echo no device >&2; exit 1")
	if _, _, _, err := b.Share(context.Background(), plays, 0, time.Minute); err == nil || !strings.Contains(err.Error(), "no device") {
		t.Errorf("a client that fails: %v", err)
	}
}

// TestPath: what comes behind the queue. All arrive, no sooner than they may, some later than those
// behind them; what is too long for the path, or unlucky, does not.
func TestPath(t *testing.T) {
	q := Queue{Rate: 1e9, Limit: 1 << 20, Delay: 20 * time.Millisecond, Late: 0.5, LateBy: 30 * time.Millisecond}
	const all = 60 // which a socket has room for
	if delays, turned := arrivals(t, q, all); len(delays) != all || slices.Min(delays) < q.Delay || !turned {
		t.Errorf("%d datagrams have arrived, after %v, some overtook others: %v", len(delays), delays, turned)
	}
	q.Late = 0
	if delays, turned := arrivals(t, q, all); len(delays) != all || turned {
		t.Errorf("%d datagrams have arrived, some overtook others: %v", len(delays), turned)
	}
	q.Longest = 600
	if delays, _ := arrivals(t, q, all); len(delays) != 0 {
		t.Errorf("%d datagrams of 1028 bytes came through a path for 600", len(delays))
	}
	q.Longest, q.Loss = 0, 0.5
	if delays, _ := arrivals(t, q, all); len(delays) == 0 || len(delays) == all {
		t.Errorf("%d of %d datagrams have arrived, half are lost", len(delays), all)
	}
}

// arrivals sends datagrams of 1000 bytes, and takes those that come. It returns how long each took,
// and whether one was overtaken.
func arrivals(t *testing.T, q Queue, all int) (delays []time.Duration, turned bool) {
	t.Helper()
	b := newBottleneck(t, q)
	var in, out *net.UDPConn
	err := b.Receiver.Do(func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 4242})
		return err
	})
	if err == nil {
		err = b.Senders[0].Do(func() (err error) {
			out, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: b.Targets[0].AsSlice(), Port: 4242})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	began := time.Now()
	for n := range all {
		p := binary.BigEndian.AppendUint64(make([]byte, 992), uint64(time.Since(began)))
		binary.BigEndian.PutUint32(p, uint32(n))
		if _, err := out.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	last := -1
	for p := make([]byte, 2000); ; {
		in.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := in.Read(p); err != nil {
			const others = 10 // packets of the kernels' own that may have passed
			if r := b.Read(); r.Passed+r.Drops < all || len(delays)+others < r.Passed {
				continue
			}
			return delays, turned
		}
		n := int(binary.BigEndian.Uint32(p))
		turned, last = turned || n < last, n
		delays = append(delays, time.Since(began)-time.Duration(binary.BigEndian.Uint64(p[992:])))
	}
}

// What a sender sends arrives in its order, however the processors share the work of the switch.
func TestTheSwitchKeepsTheOrder(t *testing.T) {
	const each = 3000
	b := newBottleneck(t, Queue{Rate: 1e9, Limit: 64 << 20})
	var in *net.UDPConn
	err := b.Receiver.Do(func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 4242})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var senders sync.WaitGroup
	heard := make(chan struct{})
	defer senders.Wait()
	defer close(heard)
	for i, s := range b.Senders {
		onItsProcessor := func(send func() error) { senders.Go(func() { s.Do(send) }) }
		onItsProcessor(func() error {
			c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: b.Targets[i].AsSlice(), Port: 4242})
			if err != nil {
				return err
			}
			defer c.Close()
			for n := range each {
				c.Write(binary.BigEndian.AppendUint32(make([]byte, 1000), uint32(n)))
			}
			// The receiver's socket may lose some, so the end is said until it is heard.
			for {
				select {
				case <-heard:
					return nil
				case <-time.After(time.Millisecond):
					c.Write(binary.BigEndian.AppendUint32(make([]byte, 1000), each))
				}
			}
		})
	}
	last, ended := map[netip.Addr]uint32{}, map[netip.Addr]bool{}
	for buf := make([]byte, 2000); len(ended) < len(b.Senders); {
		n, from, err := in.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		who, number := from.Addr().Unmap(), binary.BigEndian.Uint32(buf[n-4:n])
		if number < last[who] {
			t.Fatalf("%v: datagram %d after %d", who, number, last[who])
		}
		if last[who] = number; number == each {
			ended[who] = true
		}
	}
}
