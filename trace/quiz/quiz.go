// Package quiz asks for the arithmetic that people who work with RDMA do in their heads: how large
// a table, how many packets, how long, how fast. Each question has numbers of its own, drawn from a
// seed, and an answer that is explained step by step.
//
// The files: this one has what a question is, and how an answer is read and checked; kinds.go and
// more.go have the kinds of questions, a row for each; sheet.go an exercise sheet's own numbers.
package quiz

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Kind is a kind of question.
type Kind struct {
	Name  string // for the command line
	About string // what is to be computed
	ask   func(d *dice) Question
}

// Question is one question with its answer. Its fields are for reading.
type Question struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Given are the numbers of the question by their names, in the units of the explanation.
	Given  map[string]float64 `json:"given"`
	Answer float64            `json:"answer"`
	Unit   string             `json:"unit"`
	// Within is what part of the answer a given one may be off: 0 asks for the exact number.
	Within float64 `json:"within"`
	Why    string  `json:"why"` // the answer, step by step
}

// Find returns a kind by its name, nil if there is none.
func Find(name string) *Kind {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i]
		}
	}
	return nil
}

// Ask returns count questions, 1 to 1000, for a seed: the same ones for the same seed. They are all
// of one kind, or if that is nil of all kinds in turn, in an order that the seed chooses.
func Ask(seed uint64, count int, kind *Kind) ([]Question, error) {
	if count < 1 || count > 1000 {
		return nil, fmt.Errorf("%d questions: want 1 to 1000", count)
	}
	d := &dice{rand.New(rand.NewPCG(seed, 0))}
	order := d.Perm(len(Kinds))
	all := make([]Question, count)
	for i := range all {
		k := kind
		if k == nil {
			k = &Kinds[order[i%len(order)]]
		}
		all[i] = k.ask(d)
		all[i].Kind = k.Name
	}
	return all, nil
}

// Check says whether an answer is right: a number, also in hexadecimal (0x10), with K, M or G (of
// powers of 1024) behind it, or with the question's unit. The error says what cannot be read.
func (q *Question) Check(answer string) (right bool, err error) {
	v, err := Parse(strings.TrimSuffix(strings.TrimSpace(answer), q.Unit))
	if err != nil {
		return false, err
	}
	// what is exact may still be beyond the digits that people type
	return math.Abs(v-q.Answer) <= math.Max(q.Within, 1e-9)*math.Abs(q.Answer), nil
}

// multiples are the powers of 1024 that may stand behind a number.
var multiples = map[byte]float64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}

// thousands is a number with commas between each three digits. Others are no number: half the world
// writes 4,5 and means 4.5.
var thousands = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+([^0-9,].*)?$`)

// Parse reads a number as people type it: 4096, 0x1000, 4K, 1.5, 16M, 4,096.
func Parse(text string) (float64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	if thousands.MatchString(s) {
		s = strings.ReplaceAll(s, ",", "")
	}
	if strings.HasPrefix(s, "0x") {
		if n, err := strconv.ParseUint(s, 0, 64); err == nil {
			return float64(n), nil
		}
	}
	s = strings.TrimSuffix(s, "ib")
	times := 1.0
	if n := len(s); n > 0 && multiples[s[n-1]] > 0 {
		times, s = multiples[s[n-1]], s[:n-1]
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no number: want one such as 4096, 0x1000, 4K or 1.5", text)
	}
	return v * times, nil
}

// Number prints an answer as it is said: whole numbers in full, others with four digits.
func Number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		short = v
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// dice draw the numbers.
type dice struct{ *rand.Rand }

// of draws one of several.
func of[T any](d *dice, all ...T) T { return all[d.IntN(len(all))] }

// from draws a number between two, both included.
func (d *dice) from(low, high int) int { return low + d.IntN(high-low+1) }

// size prints bytes with the largest unit that they are a multiple of.
func size(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// exact is what whole numbers are checked by, close what has been rounded.
const (
	exact = 0
	near  = 0.01
)
