// Package inside measures what only a program can that holds both ends: two devices on a wire in
// memory, driven by one goroutine, so that what is counted is the stack and nothing else; or lanes,
// by a goroutine each, over real sockets. Each measurement is one line of Measurements.
package inside

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"
)

// Task says what to measure.
type Task struct {
	Device   string        // for what needs a real port
	QPs      int           // connected queue pairs; of lanes, one on each
	Duration time.Duration // about
}

// Measurement is one figure.
type Measurement struct {
	Name  string
	Brief string
	Run   func(Task) (float64, error)
}

// Measurements are all of them.
var Measurements = []Measurement{
	{"scale", "ns a message: RC WRITE 8 B in bursts of 32, to one connected queue pair after the other", scale},
	{"lanes", "M messages/s: RC WRITE 8 B over loopback, as many lanes at both ends, each with a processor " +
		"that does both", lanes},
	{"memory", "bytes of an idle connected RC queue pair beyond its queues: what is left at a depth of zero", memory},
	{"register", "us to register 1 GiB that is not pinned", register},
	{"pinned", "us to register 1 GiB that is pinned and was never touched, median of 5", registerPinned},
	{"mlock", "us that mlock takes of 1 GiB that was never touched, median of 5", lockAlone},
	{"idle", "% of a core that an idle device with a connected queue pair takes", idle},
	{"allocs", "allocations a message while RC WRITEs run", hotAllocations},
}

// Run measures and prints {"value": figure}.
func Run(out io.Writer, name string, t Task) error {
	for _, m := range Measurements {
		if m.Name != name {
			continue
		}
		v, err := m.Run(t)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return json.NewEncoder(out).Encode(map[string]float64{"value": v})
	}
	return fmt.Errorf("no measurement %q", name)
}

// burst is how many messages are posted with one call.
const burst = 32

func scale(t Task) (float64, error) {
	w, err := newWorld(t.QPs, burst)
	if err != nil {
		return 0, err
	}
	defer w.close()
	// Every queue pair sends once or twice before it counts.
	if err := w.write(2 * max(t.QPs, 1000)); err != nil {
		return 0, err
	}
	messages, start := 0, time.Now()
	for time.Since(start) < t.Duration {
		if err := w.write(t.QPs); err != nil {
			return 0, err
		}
		messages += t.QPs * burst
	}
	return float64(time.Since(start).Nanoseconds()) / float64(messages), nil
}

// memory extrapolates from two depths to queues of no depth at all.
func memory(t Task) (float64, error) {
	const shallow, deep = 16, 64
	at := func(depth int) (float64, error) {
		before := heap()
		w, err := newWorld(t.QPs, depth)
		if err != nil {
			return 0, err
		}
		each := float64(heap()-before) / float64(2*t.QPs) // both ends are here
		w.close()
		return each, nil
	}
	if _, err := at(shallow); err != nil { // what is made once and for all
		return 0, err
	}
	atShallow, err := at(shallow)
	if err != nil {
		return 0, err
	}
	atDeep, err := at(deep)
	if err != nil {
		return 0, err
	}
	return atShallow - shallow*(atDeep-atShallow)/(deep-shallow), nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // finalizers' objects go with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func hotAllocations(t Task) (float64, error) {
	w, err := newWorld(1, burst)
	if err != nil {
		return 0, err
	}
	defer w.close()
	if err := w.write(1000); err != nil {
		return 0, err
	}
	const rounds = 10000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = w.write(rounds)
	runtime.ReadMemStats(&after)
	each := float64(after.Mallocs-before.Mallocs) / (rounds * burst)
	if each < 1e-4 { // the runtime's own, now and then
		each = 0
	}
	return each, err
}
