package porttest

// Several ports with one address.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Lanes is a kind of port that can have several lanes. Devices 0 and 1 can reach each other without
// loss.
type Lanes struct {
	Name    string
	Open    transport.Opener
	Address string                     // of device i, "udp:127.0.0.%d", i+1
	Group   string                     // that the devices can join
	Within  func(device int, f func()) // runs f where the device is
	// Spread says that the network spreads packets over the lanes as it likes: it does not read
	// BTH.
	Spread bool
}

// laneRules is a test for each.
var laneRules = []struct {
	name string
	test func(t *testing.T, k Lanes, lanes int)
}{
	{"Steer", testLanesSteer},
	{"Group", testLanesGroup},
	{"Close", testLanesClose},
}

// TestLanes holds kinds of port to the rules of lanes.
func TestLanes(t *testing.T, kinds ...Lanes) {
	for _, k := range kinds {
		for _, r := range laneRules {
			for _, lanes := range []int{2, 4} {
				t.Run(fmt.Sprintf("%s/%s/%d", k.Name, r.name, lanes), func(t *testing.T) { r.test(t, k, lanes) })
			}
		}
	}
}

// open opens the ports of device i.
func (k *Lanes) open(t testing.TB, i, lanes int) (ports []transport.Port) {
	t.Helper()
	var err error
	k.Within(i, func() { ports, err = k.Open(fmt.Sprintf(k.Address, i+1), lanes, transport.Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { transport.CloseAll(ports) })
	return ports
}

// openBoth opens two devices that know each other's link address.
func (k *Lanes) openBoth(t testing.TB, lanes int) (a, b []transport.Port) {
	t.Helper()
	a, b = k.open(t, 0, lanes), k.open(t, 1, lanes)
	for _, err := range []error{transport.Resolve(context.Background(), a[0], b[0].Info().GIDs[0], Patience),
		transport.Resolve(context.Background(), b[0], a[0].Info().GIDs[0], Patience)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// Collect receives at several ports until count frames have come, and returns at which port each
// was by its number.
func Collect(t testing.TB, ports []transport.Port, count int) map[int]int {
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
				number := Number(t, &frames[j])
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
func testLanesSteer(t *testing.T, k Lanes, lanes int) {
	from, to := k.openBoth(t, lanes)
	const packets = 256
	used := map[int]int{}
	for round := range 4 {
		sender := from[round%lanes]
		batch := wire.NewBatch(packets, 1100)
		path := PathBetween(t, sender, to[0], 0, 64)
		for i := range packets {
			PutFor(t, batch, path, uint32(i*0x12345+round), i, i*3)
		}
		SendAll(t, sender, batch)
		for i, lane := range Collect(t, to, packets) {
			if want := (i*0x12345 + round) & (lanes - 1); lane != want && !k.Spread {
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
	PutFor(t, batch, PathBetween(t, to[lanes-1], from[0], 0, 64), uint32(lanes-1), 1, 99)
	SendAll(t, to[lanes-1], batch)
	if k.Spread {
		Collect(t, from, 1)
	} else if got := RecvSome(t, from[lanes-1], make([]wire.Frame, 4)); len(got) != 1 || Number(t, &got[0]) != 1 {
		t.Errorf("%d frames back", len(got))
	}
}

// A group that the first port has joined comes to one of the lanes, from other devices and from the
// own one.
func testLanesGroup(t *testing.T, k Lanes, lanes int) {
	from, to := k.openBoth(t, lanes)
	group, err := wire.ParseGID(k.Group)
	if err != nil {
		t.Fatal(err)
	}
	k.Within(1, func() { err = to[0].(transport.Multicaster).JoinGroup(group) })
	if err != nil {
		t.Fatal(err)
	}
	for i, sender := range []transport.Port{from[0], from[lanes-1], to[0], to[lanes-1]} {
		batch := wire.NewBatch(8, 1100)
		path := PathTo(t, sender, group, 0, 64)
		for n := range 8 {
			PutFor(t, batch, path, wire.MulticastQPN, i*8+n, 200)
		}
		SendAll(t, sender, batch)
		Collect(t, to, 8)
	}
	if err := to[0].(transport.Multicaster).LeaveGroup(group); err != nil {
		t.Fatal(err)
	}
}

// The address is free when all lanes are closed.
func testLanesClose(t *testing.T, k Lanes, lanes int) {
	for range 3 {
		ports := k.open(t, 0, lanes)
		for i, p := range ports {
			if p.Info().GIDs[0] != ports[0].Info().GIDs[0] {
				t.Fatal("lanes have different addresses")
			}
			if s := p.Info().QPNs; s != (wire.QPNSpace{}).Lane(i, lanes) {
				t.Errorf("lane %d of %d has the numbers %+v", i, lanes, s)
			}
		}
		transport.CloseAll(ports)
		for _, p := range ports {
			if err := p.Close(); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("second close: %v", err)
			}
		}
	}
}
