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
)

var (
	livesFlag = flag.Int("lives", defaultLives(), "how many worlds TestLives runs (or the environment's GOROCE_LIVES)")
	firstFlag = flag.Uint64("first", 1, "the seed of the first of them")
	seedFlag  = flag.Uint64("seed", 0, "run the one world of this seed")
)

func defaultLives() int {
	if n, err := strconv.Atoi(os.Getenv("GOROCE_LIVES")); err == nil {
		return n
	}
	return 300
}

// TestLives runs random worlds on all cores. One that fails is made smaller and printed.
func TestLives(t *testing.T) {
	if *seedFlag != 0 {
		if err := NewPlan(*seedFlag).Play(nil); err != nil {
			report(t, *seedFlag, err)
		}
		return
	}
	var next atomic.Uint64
	var failed atomic.Bool
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !failed.Load() {
				n := next.Add(1)
				if n > uint64(*livesFlag) {
					return
				}
				seed := *firstFlag + n - 1
				if err := NewPlan(seed).Play(nil); err != nil && !failed.Swap(true) {
					report(t, seed, err)
				}
			}
		})
	}
	all.Wait()
}

// report prints the smallest world that still fails, and the end of its story.
func report(t *testing.T, seed uint64, err error) {
	t.Helper()
	small, smallErr := Shrink(NewPlan(seed), err)
	var story bytes.Buffer
	_ = small.Play(&story)
	lines := strings.SplitAfter(story.String(), "\n")
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest/lives -run TestLives -seed=%d\nthe smallest world with this failure: %v\n%sits end:\n%s",
		seed, err, seed, smallErr, small, strings.Join(lines[max(0, len(lines)-60):], ""))
}
