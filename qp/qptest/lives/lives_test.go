package lives

import (
	"bytes"
	"flag"
	"os"
	"strconv"
	"strings"
	"sync"
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
	seeds := qptest.Seeds{First: *firstFlag, Worlds: worlds, Digest: *digestFlag}
	if *seedFlag != 0 {
		seeds = qptest.Seeds{First: *seedFlag, Worlds: 1}
	}
	var mu sync.Mutex
	done := map[string]int{}
	digest, seed, err := seeds.Play(func(seed uint64, d *qptest.Digest) error {
		p := draw(seed)
		err := p.Play(nil, d)
		mu.Lock()
		defer mu.Unlock()
		for kind, n := range p.done {
			done[kind] += n
		}
		return err
	})
	if err != nil {
		report(t, draw, seed, err)
	}
	if digest != "" {
		t.Logf("seeds %d to %d: %v", *firstFlag, *firstFlag+uint64(worlds)-1, digest)
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
