package lives

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/qp/qptest"
)

var (
	livesFlag  = flag.Int("lives", defaultLives(), "how many worlds TestLives runs (or the environment's GOROCE_LIVES)")
	swarmFlag  = flag.Int("swarm", defaultWorlds, "how many worlds TestSwarm runs")
	firstFlag  = flag.Uint64("first", 1, "the seed of the first of them")
	seedFlag   = flag.Uint64("seed", 0, "run the one world of this seed")
	digestFlag = flag.Bool("digest", false, "log one hash over all packets and completions of all worlds (with -v)")
)

// defaultWorlds is how many play when nobody says how many.
const defaultWorlds = 300

func defaultLives() int {
	if n, err := strconv.Atoi(os.Getenv("GOROCE_LIVES")); err == nil {
		return n
	}
	return defaultWorlds
}

// TestLives runs random worlds on all cores. One that fails is made smaller and printed.
func TestLives(t *testing.T) {
	done := play(t, NewPlan, *livesFlag)
	for _, r := range deeds { // a deed that never takes effect looks like one that was tested
		if done[r.kind] == 0 && *livesFlag >= defaultWorlds && *seedFlag == 0 && !t.Failed() {
			t.Errorf("in %d worlds no application did this: %s", *livesFlag, r.kind)
		}
	}
}

// TestSwarm runs worlds with few kinds of deeds, and many of each.
func TestSwarm(t *testing.T) { play(t, NewSwarm, *swarmFlag) }

// play runs worlds that a function draws, and returns how often deeds of a row have taken effect.
func play(t *testing.T, draw func(seed uint64) *Plan, worlds int) map[string]int {
	done := map[string]int{}
	if *seedFlag != 0 {
		if err := draw(*seedFlag).Play(nil, nil); err != nil {
			report(t, draw, *seedFlag, err)
		}
		return done
	}
	digests := make(qptest.Digests, worlds)
	var next atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !failed.Load() {
				n := next.Add(1)
				if n > uint64(worlds) {
					return
				}
				seed := *firstFlag + n - 1
				p := draw(seed)
				var digest *qptest.Digest
				if *digestFlag {
					digest = qptest.NewDigest()
				}
				if err := p.Play(nil, digest); err != nil && !failed.Swap(true) {
					report(t, draw, seed, err)
				}
				if *digestFlag {
					digests.Set(int(n-1), digest)
				}
				mu.Lock()
				for kind, n := range p.done {
					done[kind] += n
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if *digestFlag {
		t.Logf("seeds %d to %d: %v", *firstFlag, *firstFlag+uint64(worlds)-1, digests)
	}
	return done
}

// report prints the smallest world that still fails, and the end of its story.
func report(t *testing.T, draw func(seed uint64) *Plan, seed uint64, err error) {
	t.Helper()
	small, smallErr := Shrink(draw(seed), err)
	var story bytes.Buffer
	_ = small.Play(&story, nil)
	lines := strings.SplitAfter(story.String(), "\n")
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest/lives -run %s -seed=%d\nthe smallest world with this failure: %v\n%sits end:\n%s",
		seed, err, t.Name(), seed, smallErr, small, strings.Join(lines[max(0, len(lines)-60):], ""))
}
