package qptest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	seeds := Seeds{*firstFlag, worlds, *digestFlag}
	if *seedFlag != 0 {
		seeds = Seeds{First: *seedFlag, Worlds: 1}
	}
	digest, seed, err := seeds.Play(func(seed uint64, d *Digest) error { return draw(seed).Play(nil, nil, d) })
	if err != nil {
		report(t, draw, seed, err)
	}
	if digest != "" {
		t.Logf("seeds %d to %d: %v", *firstFlag, *firstFlag+uint64(worlds)-1, digest)
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
	t.Errorf("seed %d: %v\nagain: go test ./qp/qptest -run %s -seed=%d\nthe smallest world with this failure: %v\n%sits end:\n"+
		"%spackets: %s",
		seed, err, t.Name(), seed, smallErr, small, strings.Join(lines[max(0, len(lines)-40):], ""), path)
}

// artifacts is where a file survives the test: the artifact directory if -artifacts asks for one.
func artifacts(t *testing.T) string {
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	return os.TempDir()
}
