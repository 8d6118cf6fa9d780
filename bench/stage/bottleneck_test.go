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

// slowQueue is left by what a test sends in a moment in tens of milliseconds.
var slowQueue = Queue{Rate: 10e6, MarkFrom: 20 << 10, MarkAll: 40 << 10, MarkMost: 0.1, Limit: 150 << 10}

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

// drain waits until nothing waits for the slow link.
func (b *Bottleneck) drain(t *testing.T) Reading {
	t.Helper()
	for {
		if r := b.read(t); r.Backlog == 0 {
			return r
		}
	}
}

func TestBottleneck(t *testing.T) {
	b := newBottleneck(t)
	b.send(t, 0, 10, 2)
	short := b.drain(t)
	if short.Marked != 0 || short.Drops != 0 {
		t.Errorf("a short queue: %+v", short)
	}
	if got := short.Bytes[0]; got < 10*1000 || got > 10*1200 || short.Bytes[1] > 1000 {
		t.Errorf("bytes by sender: %v", short.Bytes)
	}
	b.send(t, 1, 100, 2)
	long := b.read(t)
	// 100 datagrams wait in a queue that marks all from the 40th on, and some before.
	if n := long.Marked; n < 40 || n > 80 || long.Drops != 0 || long.Unmarkable != 0 || long.Backlog < slowQueue.MarkAll {
		t.Errorf("a long queue: %+v", long)
	}
	b.drain(t)
	b.send(t, 1, 400, 0)
	full := b.drain(t)
	if full.Marked != long.Marked || full.Unmarkable < 40 || full.Drops < 100 {
		t.Errorf("too many that are not ECN-capable: %+v", full)
	}
}

func TestCompete(t *testing.T) {
	b := newBottleneck(t)
	sh := func(script string) Program { return Program{Args: []string{"sh", "-c", script}} }
	plays := func(client string) []Play {
		return []Play{{Server: sh("sleep 60"), Client: sh("sleep 60"), Limit: 20 * time.Second}, {Server: sh("sleep 60"), Client: sh(client), Limit: 20 * time.Second}}
	}
	readings, err := b.Compete(context.Background(), plays("sleep 60"), 5*time.Millisecond, 100*time.Millisecond)
	if err != nil || len(readings) < 2 {
		t.Errorf("%d readings, %v", len(readings), err)
	}
	if _, err := b.Compete(context.Background(), plays("echo no device >&2; exit 1"), time.Millisecond, time.Minute); err == nil || !strings.Contains(err.Error(), "no device") {
		t.Errorf("a client that fails: %v", err)
	}
}
