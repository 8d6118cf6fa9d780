package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPort is the UDP port of these tests, so that they run beside a device on 4791, and beside themselves. Tests that
// look at real packets use 4791 in a network namespace of their own.
// It is below those that the kernel gives to sockets which ask for none (32768 and up): nobody else has one by chance.
var testPort = 10000 + os.Getpid()%20000

// patience is for how long a test waits for what must come. It only ends what would hang.
const patience = time.Minute

// kindUnderTest is one kind of port; open gives port number i of a network of its kind.
type kindUnderTest struct {
	name string
	open func(t testing.TB, i int, o Options) Port
}

func kindsUnderTest() []kindUnderTest {
	udp := func(format string, open func(name, rest string, lanes int, o Options) ([]Port, error)) func(testing.TB, int, Options) Port {
		return func(t testing.TB, i int, o Options) Port {
			t.Helper()
			rest := fmt.Sprintf(format, i+1)
			o.UDPPort = testPort
			ports, err := open("udp:"+rest, rest, 1, o.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ports[0].Close() })
			return ports[0]
		}
	}
	return append([]kindUnderTest{
		{"pipe", func(t testing.TB, i int, o Options) Port {
			t.Helper()
			return mustOpen(t, fmt.Sprintf("pipe:%s/10.1.0.%d", t.Name(), i+1), o)
		}},
		{"udp4", udp("127.77.0.%d", openUDP)},
		{"udp4-portable", udp("127.78.0.%d", openPortableUDP)},
	}, moreKinds...)
}

var moreKinds []kindUnderTest // of one operating system

func mustOpen(t testing.TB, name string, o Options) Port {
	t.Helper()
	p, err := Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pathBetween is the path that an engine on port a would use to reach b.
func pathBetween(t testing.TB, a, b Port, tos, ttl uint8) *wire.Path {
	t.Helper()
	return pathTo(t, a, b.Info().GIDs[0], tos, ttl)
}

func pathTo(t testing.TB, a Port, dst wire.GID, tos, ttl uint8) *wire.Path {
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

// put adds a sealed packet with n bytes of payload to b: UC SEND_ONLY, PSN = number, payload derived from number.
func put(t testing.TB, b *wire.Batch, p *wire.Path, number, n int) {
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

func fillPayload(b []byte, number int) {
	var x [4]byte
	binary.LittleEndian.PutUint32(x[:], uint32(number)*2654435761)
	for i := range b {
		b[i] = x[i%4] + byte(i)
	}
}

// number checks a packet made by put and returns its number.
func number(t testing.TB, f *wire.Frame) int {
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

// sendAll sends the whole batch, waiting for room when there is none.
func sendAll(t testing.TB, p Port, b *wire.Batch) {
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

// recvSome waits until at least one frame is there.
func recvSome(t testing.TB, p Port, frames []wire.Frame) []wire.Frame {
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

func TestRoundTrip(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			a, b := k.open(t, 0, Options{}), k.open(t, 1, Options{})
			batch := wire.NewBatch(64, 4200)
			frames := make([]wire.Frame, 64)
			to, back := pathBetween(t, a, b, 0, 64), pathBetween(t, b, a, 0, 64)
			for i, n := range []int{0, 1, 2, 3, 4, 63, 256, 1024, 4095, 4096} {
				put(t, batch, to, i, n)
				sendAll(t, a, batch)
				got := recvSome(t, b, frames)
				if len(got) != 1 || number(t, &got[0]) != i {
					t.Fatalf("%d bytes: %d frames", n, len(got))
				}
				f := &got[0]
				if f.Src() != a.Info().GIDs[0] || f.Dst() != b.Info().GIDs[0] || f.SrcPort() != to.SrcPort {
					t.Fatalf("from %v:%d to %v", f.Src(), f.SrcPort(), f.Dst())
				}
				if _, drop := wire.SplitFrame(wire.AppendFrame(nil, f)); drop != wire.DropNone {
					t.Fatalf("the head is wrong: %v", drop)
				}
				put(t, batch, back, i, n)
				sendAll(t, b, batch)
				if got := recvSome(t, a, frames); len(got) != 1 || number(t, &got[0]) != i {
					t.Fatalf("%d bytes back: %d frames", n, len(got))
				}
			}
			if s := a.Stats(); s.SendFrames != 10 || s.RecvFrames != 10 || s.SendBatches != 10 || s.LastSendError != "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Many packets of changing sizes, in large batches with runs, to two receivers: each gets all of its own in order.
func TestBigBatches(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			const rounds, each = 40, maxRun + 22 // the longest run, and a rest
			a := k.open(t, 0, Options{})
			to := []Port{k.open(t, 1, Options{}), k.open(t, 2, Options{})}
			batch := wire.NewBatch(2*each+maxRun, 4200) // with room for one whole run more
			batch.MaxRun(a.Info().MaxRun)
			frames := make([]wire.Frame, 48) // not a divisor of anything
			var paths [2]*wire.Path
			for i, p := range to {
				paths[i] = pathBetween(t, a, p, 0, 64)
			}
			for round := range rounds {
				for i := range each {
					size := []int{64, 64, 64, 1024, 1024, 4096, 0}[(i/7+round)%7]
					put(t, batch, paths[0], round*each+i, size)
				}
				for i := range each {
					put(t, batch, paths[1], round*each+i, 32+round)
				}
				for batch.Len() > 0 {
					n, err := a.Send(batch)
					if err != nil {
						t.Fatal(err)
					}
					batch.Drop(n)
				}
				for i, p := range to {
					for next := round * each; next < (round+1)*each; {
						got := recvSome(t, p, frames)
						for j := range got {
							if n := number(t, &got[j]); n != next {
								t.Fatalf("receiver %d: packet %d instead of %d", i, n, next)
							}
							next++
						}
					}
				}
			}
			s := a.Stats()
			if s.SendFrames != 2*rounds*each {
				t.Errorf("%+v", s)
			}
			if a.Info().MaxRun > 1 && (s.SendRuns < 2*rounds || to[1].Stats().RecvRuns < rounds) {
				t.Errorf("%d runs sent, %d received as runs", s.SendRuns, to[1].Stats().RecvRuns)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			p := k.open(t, 0, Options{})
			i := p.Info()
			if len(i.GIDs) != 1 || i.NetMTU < 1400 || i.MaxRun < 1 || !i.Up || i.Name == "" {
				t.Errorf("%+v", i)
			}
			if strings.HasPrefix(k.name, "udp") && (i.Interface == "" || i.SrcPort != wire.UDPPort || !i.Loopback || (i.ICRC == ICRCSolved) != i.GIDs[0].Is4()) {
				t.Errorf("%+v", i)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			p := k.open(t, 0, Options{})
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			_, recvErr := p.Recv(make([]wire.Frame, 1))
			_, sendErr := p.Send(wire.NewBatch(1, 64))
			p.Wake()
			p.Stats()
			for _, err := range []error{recvErr, sendErr, p.Wait(0), p.Close()} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			}
			k.open(t, 0, Options{}) // the address is free again
		})
	}
}

func TestOpenErrors(t *testing.T) {
	taken := mustOpen(t, "udp:127.0.0.1", Options{UDPPort: testPort})
	mustOpen(t, "pipe:TestOpenErrors/10.9.9.9", Options{})
	self, _ := os.Executable()
	for _, c := range []struct{ name, want string }{
		{"token:ring", `"token" is not a kind of port; there are `},
		{"udp:", "what follows the colon is missing"},
		{"udp", "what follows the colon is missing"},
		{"udp:nosuch0", `"nosuch0" is neither an IP address nor an interface; interfaces are lo`},
		{"udp:192.0.2.77", "192.0.2.77 is not an address of this machine; its addresses are 127.0.0.1 (lo)"},
		{"udp:0.0.0.0", "0.0.0.0 stands for all addresses"},
		{"udp:224.0.0.1", "multicast group"},
		{"udp:fe80::1", "needs an interface"},
		{"udp:127.0.0.1", fmt.Sprintf("UDP port %d of 127.0.0.1 is in use", testPort)},
		{"pipe:TestOpenErrors/10.9.9.9", "another port of this process has the address 10.9.9.9"},
		{"pipe:TestOpenErrors/nine", `"nine" is not an IP address`},
		{"pipe:/10.0.0.1", "the pipe has no name"},
		{"pipe:x/239.0.0.1", "can not be the address of a port"},
	} {
		p, err := Open(c.name, Options{UDPPort: testPort})
		if err == nil {
			p.Close()
			t.Errorf("%s: opened", c.name)
			continue
		}
		var oe *OpenError
		if !errors.As(err, &oe) || oe.Name != c.name || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (want %q)", c.name, err, c.want)
		}
		if self != "" && c.name == taken.Info().Name && hasProc() && !strings.Contains(err.Error(), "another device of this process") {
			t.Errorf("%s: %v does not say who", c.name, err)
		}
	}
}

func hasProc() bool {
	_, err := os.Stat("/proc/net/udp")
	return err == nil
}

// An interface's name stands for its best address.
func TestOpenByInterface(t *testing.T) {
	lo, ok := interfaceOf(netip.MustParseAddr("127.0.0.1"))
	if !ok {
		t.Skip("no interface has 127.0.0.1")
	}
	p := mustOpen(t, "udp:"+lo.Name, Options{UDPPort: testPort})
	if i := p.Info(); i.GIDs[0].String() != "::ffff:127.0.0.1" || i.Interface != lo.Name || len(i.Addresses) == 0 {
		t.Errorf("%+v", i)
	}
}

// Wait ends by itself, by a wake-up before and during it, and by a packet.
func TestWait(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			a, b := k.open(t, 0, Options{}), k.open(t, 1, Options{})
			for _, d := range []time.Duration{0, time.Nanosecond, 50 * time.Microsecond, time.Millisecond} {
				if err := a.Wait(d); err != nil {
					t.Fatal(err)
				}
			}
			a.Wake()
			a.Wake()
			if err := a.Wait(-1); err != nil { // hangs if the wake-up was lost
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				batch := wire.NewBatch(1, 64)
				put(t, batch, pathBetween(t, b, a, 0, 64), 1, 8)
				sendAll(t, b, batch)
			}()
			if got := recvSome(t, a, make([]wire.Frame, 4)); number(t, &got[0]) != 1 {
				t.Fatal(got)
			}
			<-done
		})
	}
}

// Wakers and a sleeper that answers each wake-up: one that is lost stops the test for good.
func TestWakeIsNeverLost(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			const rounds = 5000
			p := k.open(t, 0, Options{})
			work, answer := make(chan int, 1), make(chan int)
			go func() {
				defer close(answer)
				for n := 0; n < rounds; {
					select {
					case n = <-work:
						answer <- n
					default:
						if err := p.Wait(-1); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}()
			for n := 1; n <= rounds; n++ {
				work <- n
				p.Wake()
				if got := <-answer; got != n {
					t.Fatalf("%d, want %d", got, n)
				}
			}
			<-answer
		})
	}
}

// leastAllocs is how many allocations f makes, in the best of some series: a goroutine that looks at neighbours makes some now and
// then, above all in the beginning, and more of them fall into a series the slower the machine is.
func leastAllocs(runs int, f func()) (least float64) {
	for i := range 10 {
		if n := testing.AllocsPerRun(runs, f); i == 0 || n < least {
			least = n
		}
		if least == 0 {
			break
		}
	}
	return least
}

func TestNoAllocations(t *testing.T) {
	for _, k := range kindsUnderTest() {
		if k.name == "udp4-portable" {
			continue // package net allocates
		}
		t.Run(k.name, func(t *testing.T) {
			a, b := k.open(t, 0, Options{}), k.open(t, 1, Options{})
			batch := wire.NewBatch(64, 1100)
			batch.MaxRun(a.Info().MaxRun)
			frames := make([]wire.Frame, 64)
			path := pathBetween(t, a, b, 2, 63)
			turn := func() {
				for i := range 60 {
					put(t, batch, path, i, 64+i/20*64)
				}
				sendAll(t, a, batch)
				for n := 0; n < 60; {
					n += len(recvSome(t, b, frames))
				}
			}
			for range 100 { // pipes grow their slots once
				turn()
			}
			if n := leastAllocs(100, turn); n != 0 {
				t.Fatalf("%v allocations per turn", n)
			}
		})
	}
}
