package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goroce/goroce/wire"
)

// lanesUnderTest is a kind of port that can have several lanes. Devices 0 and 1 can reach each other without loss.
type lanesUnderTest struct {
	name    string
	address string                                   // of device i, "udp:127.0.0.%d", i+1
	group   string                                   // that the devices can join
	within  func(t testing.TB, device int, f func()) // runs f where the device is
	spread  bool                                     // the network spreads packets over the lanes as it likes: it does not read BTH
}

var laneKinds = []lanesUnderTest{
	{"pipe", "pipe:TestLanes/10.1.0.%d", "239.1.2.3", func(_ testing.TB, _ int, f func()) { f() }, false},
}

// open opens the ports of device i.
func (k *lanesUnderTest) open(t testing.TB, i, lanes int) (ports []Port) {
	t.Helper()
	var err error
	k.within(t, i, func() { ports, err = OpenLanes(fmt.Sprintf(k.address, i+1), lanes, Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(ports) })
	return ports
}

// openBoth opens two devices that know each other's link address.
func (k *lanesUnderTest) openBoth(t testing.TB, lanes int) (a, b []Port) {
	t.Helper()
	a, b = k.open(t, 0, lanes), k.open(t, 1, lanes)
	for _, err := range []error{Resolve(context.Background(), a[0], b[0].Info().GIDs[0], patience), Resolve(context.Background(), b[0], a[0].Info().GIDs[0], patience)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func mustOpenLanes(t testing.TB, name string, lanes int) []Port {
	t.Helper()
	ports, err := OpenLanes(name, lanes, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(ports) })
	return ports
}

// overLanes runs f for each kind of port with lanes.
func overLanes(t *testing.T, f func(t *testing.T, k lanesUnderTest, lanes int)) {
	for _, k := range laneKinds {
		for _, lanes := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s/%d", k.name, lanes), func(t *testing.T) { f(t, k, lanes) })
		}
	}
}

// putFor adds a packet with a number to b, as put does, for a queue pair.
func putFor(t testing.TB, b *wire.Batch, p *wire.Path, qpn uint32, number, n int) {
	t.Helper()
	put(t, b, p, number, n)
	f := &b.Frames()[b.Len()-1]
	(*wire.BTH)(f.Body).Put(wire.UCSendOnly, 0, uint8(wire.Pad(n)), wire.DefaultPKey, qpn, wire.PSN(number))
	wire.Seal(f)
}

// collect receives at several ports until count frames have come, and returns at which port each was by its number.
func collect(t testing.TB, ports []Port, count int) map[int]int {
	t.Helper()
	at := map[int]int{}
	frames := make([]wire.Frame, 64)
	for got := 0; got < count; {
		for i, p := range ports {
			n, err := p.Recv(frames)
			if err != nil {
				t.Fatal(err)
			}
			got += n
			for j := range n {
				number := number(t, &frames[j])
				if _, twice := at[number]; twice {
					t.Fatalf("packet %d came twice", number)
				}
				at[number] = i
			}
		}
	}
	return at
}

// Every packet comes to the lane that its queue pair's number names, whichever lane sends it.
func TestLanesSteer(t *testing.T) {
	overLanes(t, func(t *testing.T, k lanesUnderTest, lanes int) {
		from, to := k.openBoth(t, lanes)
		const packets = 256
		used := map[int]int{}
		for round := range 4 {
			sender := from[round%lanes]
			batch := wire.NewBatch(packets, 1100)
			path := pathBetween(t, sender, to[0], 0, 64)
			for i := range packets {
				putFor(t, batch, path, uint32(i*0x12345+round), i, i*3)
			}
			sendAll(t, sender, batch)
			for i, lane := range collect(t, to, packets) {
				if want := (i*0x12345 + round) & (lanes - 1); lane != want && !k.spread {
					t.Fatalf("packet for QP 0x%06x came to lane %d of %d", i*0x12345+round, lane, lanes)
				}
				used[lane]++
			}
		}
		if len(used) != lanes {
			t.Errorf("lanes in use: %v", used)
		}
		// And back, to the lane that waits.
		batch := wire.NewBatch(1, 1100)
		putFor(t, batch, pathBetween(t, to[lanes-1], from[0], 0, 64), uint32(lanes-1), 1, 99)
		sendAll(t, to[lanes-1], batch)
		if k.spread {
			collect(t, from, 1)
		} else if got := recvSome(t, from[lanes-1], make([]wire.Frame, 4)); len(got) != 1 || number(t, &got[0]) != 1 {
			t.Errorf("%d frames back", len(got))
		}
	})
}

// A group that the first port has joined comes to one of the lanes, from other devices and from the own one.
func TestLanesGroup(t *testing.T) {
	overLanes(t, func(t *testing.T, k lanesUnderTest, lanes int) {
		from, to := k.openBoth(t, lanes)
		group, err := wire.ParseGID(k.group)
		if err != nil {
			t.Fatal(err)
		}
		k.within(t, 1, func() { err = to[0].(Multicaster).JoinGroup(group) })
		if err != nil {
			t.Fatal(err)
		}
		for i, sender := range []Port{from[0], from[lanes-1], to[0], to[lanes-1]} {
			batch := wire.NewBatch(8, 1100)
			path := pathTo(t, sender, group, 0, 64)
			for n := range 8 {
				putFor(t, batch, path, wire.MulticastQPN, i*8+n, 200)
			}
			sendAll(t, sender, batch)
			collect(t, to, 8)
		}
		if err := to[0].(Multicaster).LeaveGroup(group); err != nil {
			t.Fatal(err)
		}
	})
}

// The address is free when all lanes are closed.
func TestLanesClose(t *testing.T) {
	overLanes(t, func(t *testing.T, k lanesUnderTest, lanes int) {
		for range 3 {
			ports := k.open(t, 0, lanes)
			for _, p := range ports {
				if p.Info().GIDs[0] != ports[0].Info().GIDs[0] {
					t.Fatal("lanes have different addresses")
				}
			}
			closeAll(ports)
			for _, p := range ports {
				if err := p.Close(); !errors.Is(err, ErrClosed) {
					t.Errorf("second close: %v", err)
				}
			}
		}
	})
}

func TestLanesNumber(t *testing.T) {
	for _, lanes := range []int{-1, 0, 3, 6, 65, 128} {
		ports, err := OpenLanes("pipe:TestLanesNumber", lanes, Options{})
		if err == nil {
			closeAll(ports)
		}
		if want := fmt.Sprintf("%d lanes: the number must be a power of two from 1 to 64", lanes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d lanes: %v", lanes, err)
		}
	}
	mustOpenLanes(t, "pipe:TestLanesNumber/10.1.1.1", MaxLanes)
	for _, lanes := range []int{1, 2} {
		if _, err := OpenLanes("pipe:TestLanesNumber/10.1.1.1", lanes, Options{}); err == nil || !strings.Contains(err.Error(), "another port") {
			t.Errorf("the same address again: %v", err)
		}
	}
}
