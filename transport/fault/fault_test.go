package fault

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/transport/pipe"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runFaults sends packets 0..n-1 over a pipe with faults and returns the numbers that arrive;
// damaged ones as -1.
func runFaults(t *testing.T, cfg Config, n int) (got []int, f *Port) {
	t.Helper()
	a, b := porttest.Open(t, pipe.Open, "pipe:"+t.Name()+"/10.0.0.1", transport.Options{}),
		porttest.Open(t, pipe.Open, "pipe:"+t.Name()+"/10.0.0.2", transport.Options{QueueLen: 50})
	tx, rx := a, b
	if cfg.On == Recv {
		f = Wrap(b, cfg)
		rx = f
	} else {
		f = Wrap(a, cfg)
		tx = f
	}
	batch := wire.NewBatch(40, 300)
	frames := make([]wire.Frame, 13)
	path := porttest.PathBetween(t, tx, rx, 0, 64)
	drain := func() {
		for {
			k, err := rx.Recv(frames)
			if err != nil {
				t.Fatal(err)
			}
			for i := range k {
				if !wire.Verify(&frames[i]) {
					got = append(got, -1)
				} else {
					got = append(got, porttest.Number(t, &frames[i]))
				}
			}
			// This is a turn of the sender: what had no room goes now.
			if _, err := tx.Recv(nil); err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				return
			}
		}
	}
	for i := 0; i < n; {
		for ; i < n && batch.Len() < 40; i++ {
			porttest.Put(t, batch, path, i, i%200)
		}
		for batch.Len() > 0 {
			k, err := tx.Send(batch)
			if err != nil {
				t.Fatal(err)
			}
			batch.Drop(k)
			drain()
		}
	}
	drain()
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	return got, f
}

// packets is how many each case sends.
const packets = 2000

// about tells whether v is what the rate makes of the packets, give or take two fifths.
func about(v uint64, rate float64) bool {
	return float64(v) > packets*rate*0.6 && float64(v) < packets*rate*1.4
}

// cases are the faults, with what must be true of the packets that arrive.
var cases = []struct {
	name  string
	cfg   Config
	check func(got []int, c Counts) bool
}{
	{"none", Config{}, func(got []int, c Counts) bool {
		return len(got) == packets && slices.IsSorted(got) && c == Counts{Passed: packets}
	}},
	{"loss", Config{Loss: 0.2}, func(got []int, c Counts) bool {
		return about(c.Lost, 0.2) && uint64(len(got)) == packets-c.Lost && slices.IsSorted(got)
	}},
	{"burst", Config{Loss: 0.02, BurstLen: 5}, func(got []int, c Counts) bool {
		return c.Lost > 100 && c.Lost < 300 && uint64(len(got)) == packets-c.Lost
	}},
	{"duplicate", Config{Duplicate: 0.2}, func(got []int, c Counts) bool {
		return about(c.Duplicated, 0.2) && uint64(len(got)) == packets+c.Duplicated && len(slices.Compact(got)) == packets
	}},
	{"corrupt", Config{Corrupt: 0.2}, func(got []int, c Counts) bool {
		bad := 0
		for _, g := range got {
			if g < 0 {
				bad++
			}
		}
		return about(c.Corrupted, 0.2) && uint64(bad) == c.Corrupted && len(got) == packets
	}},
	{"reorder", Config{Reorder: 0.05, ReorderBy: 4}, func(got []int, c Counts) bool {
		late := uint64(0)
		for i := 1; i < len(got); i++ {
			if got[i] < got[i-1] {
				late++
			}
		}
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		return about(c.Reordered, 0.05) && late > c.Reordered/2 && len(got) >= packets-4 && len(slices.Compact(sorted)) == len(got)
	}},
}

func TestFaults(t *testing.T) {
	for _, side := range []Side{Send, Recv} {
		for _, c := range cases {
			t.Run(c.name+map[Side]string{Send: "-send", Recv: "-recv"}[side], func(t *testing.T) {
				c.cfg.Seed, c.cfg.On = 42, side
				got, f := runFaults(t, c.cfg, packets)
				send, recv := f.Counts()
				if side == Recv {
					send, recv = recv, send
				}
				if !c.check(slices.Clone(got), send) || recv != (Counts{}) {
					t.Errorf("%d packets arrived, %+v, other side %+v", len(got), send, recv)
				}
				again, _ := runFaults(t, c.cfg, packets)
				if !slices.Equal(got, again) {
					t.Error("another result with the same seed")
				}
				c.cfg.Seed++
				if other, _ := runFaults(t, c.cfg, packets); c.name != "none" && slices.Equal(got, other) {
					t.Error("the same result with another seed")
				}
			})
		}
	}
}
