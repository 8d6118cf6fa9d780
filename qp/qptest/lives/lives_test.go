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
	if *seedFlag != 0 {
		if err := NewPlan(*seedFlag).Play(nil, nil); err != nil {
			report(t, *seedFlag, err)
		}
		return
	}
	digests := make(qptest.Digests, *livesFlag)
	var next atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	done := map[string]int{}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !failed.Load() {
				n := next.Add(1)
				if n > uint64(*livesFlag) {
					return
				}
				seed := *firstFlag + n - 1
				p := NewPlan(seed)
				var digest *qptest.Digest
				if *digestFlag {
					digest = qptest.NewDigest()
				}
				if err := p.Play(nil, digest); err != nil && !failed.Swap(true) {
					report(t, seed, err)
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
		t.Logf("seeds %d to %d: %v", *firstFlag, *firstFlag+uint64(*livesFlag)-1, digests)
	}
	for _, r := range deeds { // a deed that never takes effect looks like one that was tested
		if done[r.kind] == 0 && *livesFlag >= defaultWorlds && !failed.Load() {
			t.Errorf("in %d worlds no application did this: %s", *livesFlag, r.kind)
		}
	}
}

// report prints the smallest world that still fails, and the end of its story.
func report(t *testing.T, seed uint64, err error) {
	t.Helper()
	small, smallErr := Shrink(NewPlan(seed), err)
	var story bytes.Buffer
	_ = small.Play(&story, nil)
	lines := strings.SplitAfter(story.String(), "\n")
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest/lives -run TestLives -seed=%d\nthe smallest world with this failure: %v\n%sits end:\n%s",
		seed, err, seed, smallErr, small, strings.Join(lines[max(0, len(lines)-60):], ""))
}
