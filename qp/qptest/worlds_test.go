package qptest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	worldsFlag = flag.Int("worlds", defaultWorlds(), "how many random worlds TestWorlds runs (or the environment's GOROCE_WORLDS)")
	seedFlag   = flag.Uint64("seed", 0, "run the one world of this seed")
)

func defaultWorlds() int {
	if n, err := strconv.Atoi(os.Getenv("GOROCE_WORLDS")); err == nil {
		return n
	}
	return 300
}

// TestWorlds runs random worlds on all cores. A world that fails is made smaller, printed, and written as pcapng.
func TestWorlds(t *testing.T) {
	if *seedFlag != 0 {
		if err := NewPlan(*seedFlag).Play(nil, nil); err != nil {
			report(t, *seedFlag, err)
		}
		return
	}
	var next atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !failed.Load() {
				seed := next.Add(1)
				if seed > uint64(*worldsFlag) {
					return
				}
				if err := NewPlan(seed).Play(nil, nil); err != nil && !failed.Swap(true) {
					mu.Lock()
					report(t, seed, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// report prints what a person needs to find the bug.
func report(t *testing.T, seed uint64, err error) {
	t.Helper()
	small, smallErr := Shrink(NewPlan(seed), err)
	capture := &Capture{}
	_ = small.Play(capture, nil)
	path, werr := capture.WriteFile(t.ArtifactDir(), "world-"+strconv.FormatUint(seed, 10))
	if werr != nil {
		path = werr.Error()
	}
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest -run TestWorlds -seed=%d\nthe smallest world with this failure: %v\n%spackets: %s",
		seed, err, seed, smallErr, small, path)
}
