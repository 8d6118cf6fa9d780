package qptest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	worldsFlag = flag.Int("worlds", defaultWorlds(), "how many random worlds TestWorlds runs (or the environment's GOROCE_WORLDS)")
	swarmFlag  = flag.Int("swarm", 300, "how many worlds of the swarm TestSwarm runs")
	firstFlag  = flag.Uint64("first", 1, "the seed of the first of them")
	seedFlag   = flag.Uint64("seed", 0, "run the one world of this seed")
	digestFlag = flag.Bool("digest", false, "log one hash over all packets and completions of all worlds (with -v)")
)

func defaultWorlds() int {
	if n, err := strconv.Atoi(os.Getenv("GOROCE_WORLDS")); err == nil {
		return n
	}
	return 300
}

// TestWorlds runs random worlds on all cores. A world that fails is made smaller, printed, and
// written as pcapng.
func TestWorlds(t *testing.T) { play(t, NewPlan, *worldsFlag) }

// TestSwarm does that with worlds that have a few things only, and much of them.
func TestSwarm(t *testing.T) { play(t, NewSwarm, *swarmFlag) }

// TestCrowd does that with worlds in which kept packets give way.
func TestCrowd(t *testing.T) { play(t, NewCrowd, *swarmFlag) }

// play runs worlds that a function draws.
func play(t *testing.T, draw func(seed uint64) *Plan, worlds int) {
	if *seedFlag != 0 {
		if err := draw(*seedFlag).Play(nil, nil, nil); err != nil {
			report(t, draw, *seedFlag, err)
		}
		return
	}
	digests := make(Digests, worlds)
	var next atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !failed.Load() {
				n := next.Add(1)
				if n > uint64(worlds) {
					return
				}
				seed := *firstFlag + n - 1
				var digest *Digest
				if *digestFlag {
					digest = NewDigest()
				}
				if err := draw(seed).Play(nil, nil, digest); err != nil && !failed.Swap(true) {
					mu.Lock()
					report(t, draw, seed, err)
					mu.Unlock()
				}
				if *digestFlag {
					digests.Set(int(n-1), digest)
				}
			}
		})
	}
	wg.Wait()
	if *digestFlag {
		t.Logf("seeds %d to %d: %v", *firstFlag, *firstFlag+uint64(worlds)-1, digests)
	}
}

// report prints what a person needs to find the bug: the smallest world that still fails, and the
// end of its story.
func report(t *testing.T, draw func(seed uint64) *Plan, seed uint64, err error) {
	t.Helper()
	small, smallErr := Shrink(draw(seed), err)
	capture, story := &Capture{}, &bytes.Buffer{}
	_ = small.Play(capture, story, nil)
	path, werr := capture.WriteFile(artifacts(t), fmt.Sprintf("goroce-world-%d", seed))
	if werr != nil {
		path = werr.Error()
	}
	lines := strings.SplitAfter(story.String(), "\n")
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest -run %s -seed=%d\nthe smallest world with this failure: %v\n%sits end:\n%spackets: %s",
		seed, err, t.Name(), seed, smallErr, small, strings.Join(lines[max(0, len(lines)-40):], ""), path)
}

// artifacts is where a file survives the test: the artifact directory if -artifacts asks for one.
func artifacts(t *testing.T) string {
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	return os.TempDir()
}
