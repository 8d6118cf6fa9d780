// Package porttest holds what every kind of port must do, as tests, and the packets that tests
// send. Each kind's own tests call Test with a way to open it.
//
//	porttest.go              opening, sending and receiving (this file)
//	rules.go                 what every port keeps
//	groups.go                multicast
//	share.go                 neighbours that flood; share_linux.go: addresses and queues
//	lanes.go                 several ports with one address
//	watched_linux.go         two goroutines that wait for one port
//	wire_linux.go            ports in network namespaces, and forged packets
package porttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// UDPPort is the UDP port of these tests, so that they run beside a device on 4791, and beside
// themselves. Tests that look at real packets use 4791 in a network namespace of their own. It is
// below those that the kernel gives to sockets which ask for none (32768 and up): nobody else has
// one by chance.
var UDPPort = 10000 + os.Getpid()%20000

// Patience is for how long a test waits for what must come. It only ends what would hang.
const Patience = time.Minute

// Kind is a kind of port.
type Kind struct {
	Name string
	// Open opens port i of a network of the kind: 0 to 2. It is closed with the test.
	Open func(t testing.TB, i int, o transport.Options) transport.Port
	// Portable are ports by means of package net alone, which shows no traffic class, has no
	// groups, and allocates.
	Portable bool
	// IPv6 says that its addresses are.
	IPv6 bool
	// Held says that a port which is full keeps its senders waiting.
	Held bool
	// Around, if not nil, puts a port around one, which is to be Watched as that is.
	Around func(transport.Port) transport.Port
}

// Open opens one port by an opener, and closes it with the test.
func Open(t testing.TB, open transport.Opener, name string, o transport.Options) transport.Port {
	t.Helper()
	return OpenLanes(t, open, name, 1, o)[0]
}

// OpenLanes opens the ports of several lanes.
func OpenLanes(t testing.TB, open transport.Opener, name string, lanes int, o transport.Options) []transport.Port {
	t.Helper()
	ports, err := open(name, lanes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { transport.CloseAll(ports) })
	return ports
}

// PathByHand is a path between two addresses.
func PathByHand(src, dst string, port uint16) *wire.Path {
	s, _ := wire.ParseGID(src)
	d, _ := wire.ParseGID(dst)
	p, _ := wire.NewPath(s, d, port, 0, 64, 0)
	return &p
}

// PathBetween is the path that an engine on port a would use to reach b.
func PathBetween(t testing.TB, a, b transport.Port, tos, ttl uint8) *wire.Path {
	t.Helper()
	return PathTo(t, a, b.Info().GIDs[0], tos, ttl)
}

// PathTo is the path that an engine on port a would use to reach an address.
func PathTo(t testing.TB, a transport.Port, dst wire.GID, tos, ttl uint8) *wire.Path {
	t.Helper()
	info := a.Info()
	src := info.SrcPort
	if src == 0 {
		src = 0xc123
	}
	p, err := wire.NewPath(info.GIDs[0], dst, src, tos, ttl, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// Put adds a sealed packet with n bytes of payload to b: UC SEND_ONLY, PSN = number, payload
// derived from number.
func Put(t testing.TB, b *wire.Batch, p *wire.Path, number, n int) {
	t.Helper()
	f := b.Reserve(p, wire.BodyLen(wire.UCSendOnly, n))
	if f == nil {
		t.Fatalf("no room in the batch for %d bytes", n)
	}
	bth := (*wire.BTH)(f.Body)
	bth.Put(wire.UCSendOnly, 0, uint8(wire.Pad(n)), wire.DefaultPKey, 0x11, wire.PSN(number))
	body := f.Body[wire.BTHLen:]
	clear(body)
	fillPayload(body[:n], number)
	wire.Seal(f)
}

// PutFor adds a packet with a number to b, as Put does, for a queue pair.
func PutFor(t testing.TB, b *wire.Batch, p *wire.Path, qpn uint32, number, n int) {
	t.Helper()
	Put(t, b, p, number, n)
	f := &b.Frames()[b.Len()-1]
	(*wire.BTH)(f.Body).Put(wire.UCSendOnly, 0, uint8(wire.Pad(n)), wire.DefaultPKey, qpn, wire.PSN(number))
	wire.Seal(f)
}

func fillPayload(b []byte, number int) {
	var x [4]byte
	binary.LittleEndian.PutUint32(x[:], uint32(number)*2654435761)
	for i := range b {
		b[i] = x[i%4] + byte(i)
	}
}

// Number checks a packet made by Put and returns its number.
func Number(t testing.TB, f *wire.Frame) int {
	t.Helper()
	if !wire.Verify(f) {
		t.Fatalf("bad ICRC: %s", wire.AppendPacket(nil, f))
	}
	var p wire.Packet
	if r := wire.Parse(f, &p); r != wire.DropNone {
		t.Fatalf("packet of %d bytes does not parse: %v", f.Len(), r)
	}
	want := make([]byte, len(p.Payload))
	fillPayload(want, int(p.BTH.PSN()))
	if !bytes.Equal(p.Payload, want) {
		t.Fatalf("packet %d: payload of %d bytes changed on the way", p.BTH.PSN(), len(want))
	}
	return int(p.BTH.PSN())
}

// SendAll sends the whole batch, waiting for room when there is none.
func SendAll(t testing.TB, p transport.Port, b *wire.Batch) {
	t.Helper()
	for b.Len() > 0 {
		n, err := p.Send(b)
		if err != nil {
			t.Fatal(err)
		}
		b.Drop(n)
		if b.Len() > 0 {
			if err := p.Wait(-1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// RecvSome waits until at least one frame is there.
func RecvSome(t testing.TB, p transport.Port, frames []wire.Frame) []wire.Frame {
	t.Helper()
	for {
		n, err := p.Recv(frames)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return frames[:n]
		}
		if err := p.Wait(-1); err != nil {
			t.Fatal(err)
		}
	}
}

// Reach has a port find out the Ethernet address of another one, if it needs to.
func Reach(t testing.TB, from, to transport.Port) {
	t.Helper()
	if err := transport.Resolve(context.Background(), from, to.Info().GIDs[0], Patience); err != nil {
		t.Fatal(err)
	}
}

// Drain receives until count frames have come, with slices of n, checks them, and returns copies of
// their heads.
func Drain(t *testing.T, p transport.Port, n, count int) (heads [][]byte) {
	t.Helper()
	frames := make([]wire.Frame, n)
	for len(heads) < count {
		for _, f := range RecvSome(t, p, frames) {
			if got := Number(t, &f); got != len(heads) {
				t.Fatalf("packet %d instead of %d", got, len(heads))
			}
			if _, drop := wire.SplitFrame(wire.AppendFrame(nil, &f)); drop != wire.DropNone {
				t.Fatalf("packet %d: the head is wrong: %v", len(heads), drop)
			}
			heads = append(heads, append([]byte(nil), f.Head...))
		}
	}
	return heads
}

// Resolve has a port find out a neighbour's address, as a connection does before it sends.
func Resolve(t testing.TB, p transport.Port, addr string) {
	t.Helper()
	gid, err := wire.ParseGID(addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.Resolve(context.Background(), p, gid, Patience); err != nil {
		t.Fatal(err)
	}
}

// Until calls f until it says that it is content.
func Until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
