//go:build linux

package stage

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowQueue is left by a byte a millisecond: what a test has sent waits there, however long the test takes.
var slowQueue = Queue{Rate: 8e3, MarkFrom: 20 << 10, MarkAll: 40 << 10, MarkMost: 0.1, Limit: 150 << 10}

func newBottleneck(t *testing.T) *Bottleneck {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	b, err := NewBottleneck(2, 9000, slowQueue)
	if err != nil {
		t.Skip(err) // a container, or a kernel without bridge, token bucket or eBPF classifier
	}
	t.Cleanup(b.Close)
	return b
}

// send sends datagrams of 1000 bytes at once, with the given TOS, from a sender to its target.
func (b *Bottleneck) send(t *testing.T, from, datagrams, tos int) {
	t.Helper()
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

// read reads the switch's counters.
func (b *Bottleneck) read(t *testing.T) Reading {
	t.Helper()
	r, err := b.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBottleneck(t *testing.T) {
	b := newBottleneck(t)
	b.send(t, 0, 10, 2)
	short := b.read(t)
	if short.Marked != 0 || short.Drops != 0 {
		t.Errorf("a short queue: %+v", short)
	}
	if got := short.Bytes[0]; got < 10*1000 || got > 10*1200 || short.Bytes[1] > 1000 {
		t.Errorf("bytes by sender: %v", short.Bytes)
	}
	b.send(t, 1, 100, 2)
	long := b.read(t)
	// With those before, 110 datagrams of 1042 bytes are in a queue that marks all from the 40th on: 71, and a few less if the test was
	// interrupted for seconds. Before the 40th, this queue is too slow for the marker's arithmetic to mark any. A few small packets may
	// be the kernel's own: it looks for neighbours and routers by IPv6.
	if n := long.Marked; n < 60 || n > 75 || long.Drops != 0 || long.Unmarkable > 10 || long.Backlog < slowQueue.MarkAll {
		t.Errorf("a long queue: %+v", long)
	}
	b.send(t, 1, 400, 0)
	full := b.read(t)
	if full.Marked != long.Marked || full.Unmarkable < 400 || full.Drops < 300 {
		t.Errorf("too many that are not ECN-capable: %+v", full)
	}
}

func TestCompete(t *testing.T) {
	b := newBottleneck(t)
	sh := func(script string) Program { return Program{Args: []string{"sh", "-c", script}} }
	plays := func(client string) []Play {
		return []Play{{Server: sh("sleep 86400"), Client: sh("sleep 86400"), Limit: time.Minute}, {Server: sh("sleep 86400"), Client: sh(client), Limit: time.Minute}}
	}
	readings, err := b.Compete(context.Background(), plays("sleep 86400"), 5*time.Millisecond, 100*time.Millisecond)
	if err != nil || len(readings) < 2 {
		t.Errorf("%d readings, %v", len(readings), err)
	}
	if _, err := b.Compete(context.Background(), plays("echo no device >&2; exit 1"), time.Millisecond, time.Minute); err == nil || !strings.Contains(err.Error(), "no device") {
		t.Errorf("a client that fails: %v", err)
	}
}
