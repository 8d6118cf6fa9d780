package cm

import (
	"bytes"
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	swarmFlag = flag.Int("swarm", 3000, "how many worlds TestSwarm runs, with about three connections each")
	firstFlag = flag.Uint64("first", 1, "the seed of the first of them")
	seedFlag  = flag.Uint64("seed", 0, "run the one world of this seed")
)

// TestSwarm runs random worlds on all cores. Of one that fails it tells the end of the story.
func TestSwarm(t *testing.T) {
	first, worlds := *firstFlag, uint64(*swarmFlag)
	if *seedFlag != 0 {
		first, worlds = *seedFlag, 1
	}
	var next, connections, established atomic.Uint64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := next.Add(1); n <= worlds && !failed.Load(); n = next.Add(1) {
				seed := first + n - 1
				w := newWorld(seed, nil)
				w.play()
				for _, e := range w.ends {
					if !e.c.passive {
						connections.Add(1)
						if e.running {
							established.Add(1)
						}
					}
				}
				if w.err != nil && !failed.Swap(true) {
					report(t, seed)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d connections and queries, %d established", connections.Load(), established.Load())
	if worlds >= 100 && established.Load() < connections.Load()/4 && !failed.Load() {
		t.Errorf("only %d of %d connections were established: the worlds are too bad to show anything",
			established.Load(), connections.Load())
	}
}

// report plays a world once more, and prints the end of its story.
func report(t *testing.T, seed uint64) {
	var story bytes.Buffer
	w := newWorld(seed, &story)
	w.play()
	lines := strings.SplitAfter(story.String(), "\n")
	t.Errorf("seed %d: %v\nagain: go test ./cm -run TestSwarm -seed=%d\n%s%s", seed, w.err, seed, lines[0],
		strings.Join(lines[max(1, len(lines)-80):], ""))
}

// play runs a world from its beginning to its end.
func (w *world) play() {
	within := func(t Time) Time { return Time(w.rnd.Int64N(int64(t))) }
	for range 1 + w.rnd.IntN(8) {
		w.in(within(5*second), func() { w.connect(w.devices[w.rnd.IntN(len(w.devices))]) })
	}
	if w.crash {
		for range 1 + w.rnd.IntN(3) {
			w.in(within(15*second), func() { w.devices[w.rnd.IntN(len(w.devices))].crash() })
		}
	}
	if w.monkey {
		for range 5 + w.rnd.IntN(40) {
			w.in(within(20*second), w.monkeyCall)
		}
	}
	if w.listeners {
		for range 1 + w.rnd.IntN(5) {
			w.in(within(10*second), func() { w.devices[w.rnd.IntN(len(w.devices))].relisten() })
		}
	}
	w.bother()
	w.run()
	w.agree()
	w.farewell()
	w.run()
	w.lastWord()
}
