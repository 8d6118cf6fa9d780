package learn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
)

// trial is a lesson and what a student changes.
type trial struct {
	lesson *Lesson
	before *world.Play
	change world.Change
}

// trials are all lessons with each of their first packets changed in each way.
func trials() (all []trial) {
	for _, l := range All() {
		if l.Terminal && l.Claims == nil {
			continue
		}
		before := l.Play(nil)
		for n := range min(len(before.Packets), 12) {
			for _, a := range []world.Action{world.Drop, world.Delay, world.Duplicate, world.Mark, world.Corrupt, world.Deliver} {
				all = append(all, trial{l, before, world.Change{Packet: n + 1, Action: a}})
			}
		}
	}
	return all
}

func (x *trial) String() string {
	return fmt.Sprintf("roce learn %s --change %s:%d", x.lesson.Name, x.change.Action, x.change.Packet)
}

// jargon is how a test speaks, or a program that has gone wrong.
var jargon = regexp.MustCompile(`(?i)claim|record(ed|s)|assert|expect|your change|%!|nil|differs|"[a-z ]+" is|[{}]|-\d|\b0 (times|ns|us)\b`)

// TestTold: of every change three to six sentences are told, each is true, and where anything is
// different a rule is named. Sentences are held against packets, records and completions by an
// oracle that shares no code with those who make them (oracle_test.go).
func TestTold(t *testing.T) {
	all := trials()
	if testing.Short() {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:150]
	}
	require.Greater(t, len(all), 100)
	seen := map[string]int{}
	for _, x := range all {
		changes := []world.Change{x.change}
		after := x.lesson.Play(changes)
		sentences := told.Tell(x.before, after, changes)
		o := &oracle{before: x.before, after: after, change: x.change}
		require.NoError(t, o.whole(sentences), "%v", &x)
		for _, s := range sentences {
			seen[string(s.Kind)+": "+s.Rule]++
			require.NoError(t, o.judge(&s), "%v: %s: %s", &x, s.Rule, s.Text)
			require.NotRegexp(t, jargon, s.Text, "%v", &x)
			require.NoError(t, numbersIn(&s), "%v: %s", &x, s.Text)
		}
	}
	for rule := range truths {
		if !testing.Short() && !slices.Contains(rare, rule) {
			require.True(t, wasTold(seen, rule), "no change leads to %q", rule)
		}
	}
}

// rare are the rules that no lesson leads to, but other delays, several changes, or lessons to
// come.
var rare = []string{"RNR NAK", "corrupt", "ignored", "more", "no CNP for CNP", "no connection", "nobody", "other length", "refusal",
	"under way"}

// wasTold says whether a rule was told.
func wasTold(seen map[string]int, rule string) bool {
	for name := range seen {
		if strings.HasSuffix(strings.TrimSuffix(name, ", event"), ": "+rule) {
			return true
		}
	}
	return false
}

// whole judges the sentences together.
func (o *oracle) whole(all []told.Sentence) error {
	if n := len(all); n < 3 || n > 6 {
		return fmt.Errorf("%d sentences", n)
	}
	if all[0].Kind != told.Change || all[len(all)-2].Kind != told.Cost || all[len(all)-1].Kind != told.Application {
		return fmt.Errorf("not in order: %v", all)
	}
	named := slices.ContainsFunc(all[1:len(all)-2], func(s told.Sentence) bool {
		return s.Section != "" && (s.Kind == told.Cause || s.Kind == told.Saw || s.Kind == told.Twice)
	})
	if o.different() && !named {
		return fmt.Errorf("something is different, and nobody says why: %v", all)
	}
	return nil
}

// different says whether anything but the fate of the packet is not as it was.
func (o *oracle) different() bool {
	if len(o.before.Packets) != len(o.after.Packets) || len(o.before.Completions) != len(o.after.Completions) {
		return true
	}
	for i := range o.after.Completions {
		if o.before.Completions[i].Time != o.after.Completions[i].Time || o.before.Completions[i].WC != o.after.Completions[i].WC {
			return true
		}
	}
	return false
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|\d+(\.\d+)?`)

// fixed are words with digits that are no numbers of a play.
var fixed = regexp.MustCompile(`4\.096 us \* 2\^|PSN|wr |RNR NAK [0-9.]+ ms|B[12]'s|\b[AB][12]\b|RC|\(\d+\)`)

// numbersIn says of a sentence whether each number in its text is one of its fields: they are what
// the oracle judges.
func numbersIn(s *told.Sentence) error {
	text := fixed.ReplaceAllString(s.Text, "")
	var known []string
	for _, n := range []int{s.Count, s.Without, s.Bytes, s.Spared, s.Code, int(s.PSN), int(s.Want), len(s.Packets), len(s.Packets) - 2,
		len(s.Packets) - 3} {
		known = append(known, strconv.Itoa(n))
	}
	for _, p := range s.Packets {
		known = append(known, strconv.Itoa(p))
	}
	for _, d := range []int64{s.At, s.Before, s.For, -s.For, s.Trip, s.Done} {
		known = append(known, fmt.Sprintf("%.3f", float64(d)/1000), strconv.FormatInt(d, 10), fmt.Sprintf("%.3f", float64(d)/1e6))
	}
	known = append(known, fmt.Sprintf("%.3g", 8*float64(s.Bytes)/1e9), strconv.FormatUint(s.WR, 10), strconv.FormatUint(s.Other, 10))
	for _, m := range s.Memory {
		for _, x := range []string{m.Is, m.Was, strconv.Quote(m.Region)} {
			known = append(known, digits.FindAllString(x, -1)...)
		}
		known = append(known, strconv.Itoa(m.Bytes), strconv.Itoa(m.At))
	}
	for _, n := range digits.FindAllString(text, -1) {
		if !slices.Contains(known, n) {
			return fmt.Errorf("%s is in no field of it: %+v", n, *s)
		}
	}
	return nil
}

// TestToldOfSeveral: several changes at once, and long delays, are told of too.
func TestToldOfSeveral(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	all := trials()
	for range 150 {
		x := all[r.IntN(len(all))]
		changes := []world.Change{x.change, {Packet: 1 + r.IntN(len(x.before.Packets)), Action: world.Delay, For: 2 * world.Millisecond},
			{Packet: 1 + r.IntN(len(x.before.Packets)), Action: world.Drop}}
		after := x.lesson.Play(changes)
		sentences := told.Tell(x.before, after, changes)
		require.NoError(t, (&oracle{before: x.before, after: after, change: x.change}).whole(sentences), "%v, %v", &x, changes)
		for _, s := range sentences {
			require.NotRegexp(t, jargon, s.Text)
			require.NoError(t, numbersIn(&s), "%v: %s", changes, s.Text)
		}
	}
	require.Empty(t, told.Tell(all[0].before, all[0].before, nil))
}

// TestToldSections: the sections that sentences name are there, and the links lead to them.
func TestToldSections(t *testing.T) {
	text, err := os.ReadFile("../../docs/rocev2.md")
	require.NoError(t, err)
	cited := map[string]bool{}
	for _, x := range trials() {
		if x.change.Packet > 3 {
			continue
		}
		changes := []world.Change{x.change}
		for _, s := range told.Tell(x.before, x.lesson.Play(changes), changes) {
			if s.Section == "" || cited[s.Section] {
				continue
			}
			cited[s.Section] = true
			require.Contains(t, string(text), "\n### "+s.Title+"\n")
			slug := strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(s.Title), ""), " ", "-")
			require.True(t, strings.HasSuffix(s.Link, "docs/rocev2.md#"+slug), s.Link)
		}
	}
	require.Greater(t, len(cited), 8)
}
