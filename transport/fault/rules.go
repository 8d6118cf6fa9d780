package fault

// Rules: what goes wrong on purpose, where and when, as text. A rule is MATCH:NTH:ACTION; several
// make a list with commas between them. "tx.SEND:3:drop, rx.ACK:5%:delay=2ms, link:1s:down=300ms"
//
//	MATCH   what is counted           tx or rx: packets sent or received; tx.KIND: of a kind
//	                                  link; and what the port does not know: verbs, work requests
//	NTH     which of them             3  3-5  3- (from the third on)  *  2% (by chance, seeded)
//	                                  of link: the time since the port was opened, "1s"
//	ACTION  what is done with them    drop duplicate corrupt ecn late=N delay=TIME; down=TIME
//
// "seed=N" in the list is the seed of what is left to chance, 0 without it. The same list does the
// same to the same packets in every run.
//
// Stages: a rule, a list of them, which of what is counted a rule means, and its own counter.

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Rule is one line of a list.
type Rule struct {
	Match  string // "tx.SEND"
	Nth    string // "3-5"
	Action string // "delay"
	Value  string // "2ms" of "delay=2ms"

	index int // in the list: rules throw dice of their own
	seed  uint64
}

// String is the rule as it is written.
func (r Rule) String() string {
	s := r.Match + ":" + r.Nth + ":" + r.Action
	if r.Value != "" {
		s += "=" + r.Value
	}
	return s
}

// Errorf is an error about the rule.
func (r Rule) Errorf(format string, args ...any) error {
	return fmt.Errorf("fault rule %q: %w", r.String(), fmt.Errorf(format, args...))
}

// Parse reads a list of rules. It checks their form and NTH; what MATCH and ACTION may be is for
// those to say that play them.
func Parse(text string) (rules []Rule, err error) {
	var seed uint64
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if number, ok := strings.CutPrefix(part, "seed="); ok {
			if seed, err = strconv.ParseUint(number, 0, 64); err != nil {
				return nil, fmt.Errorf("fault rules: %q: want a whole number after seed=", part)
			}
			continue
		}
		fields := strings.Split(part, ":")
		if len(fields) != 3 || fields[0] == "" || fields[1] == "" || fields[2] == "" {
			return nil, fmt.Errorf("fault rule %q: want MATCH:NTH:ACTION, as in tx.SEND:3:drop", part)
		}
		r := Rule{Match: fields[0], Nth: fields[1], index: len(rules)}
		r.Action, r.Value, _ = strings.Cut(fields[2], "=")
		rules = append(rules, r)
	}
	for i := range rules {
		rules[i].seed = seed
		if rules[i].Match == Link {
			continue // its NTH is a time
		}
		if _, err := rules[i].Count(); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// Counter counts what a rule matches, and says which of it is meant. One goroutine at a time.
type Counter struct {
	n        uint64
	from, to uint64     // which are meant, both included
	share    float64    // or by chance, if there are dice
	dice     *rand.Rand // nil: not by chance
}

// Count returns the rule's counter at its beginning.
func (r Rule) Count() (*Counter, error) {
	c := &Counter{from: 1, to: ^uint64(0)}
	wrong := r.Errorf("which of them is %q; want 3, 3-5, 3-, * or 2%%", r.Nth)
	if percent, ok := strings.CutSuffix(r.Nth, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, wrong
		}
		c.share, c.dice = p/100, rand.New(rand.NewPCG(r.seed, uint64(r.index)))
		return c, nil
	}
	if r.Nth == "*" {
		return c, nil
	}
	from, to, isRange := strings.Cut(r.Nth, "-")
	var err error
	if c.from, err = strconv.ParseUint(from, 10, 64); err != nil || c.from == 0 {
		return nil, wrong
	}
	switch {
	case !isRange:
		c.to = c.from
	case to != "":
		if c.to, err = strconv.ParseUint(to, 10, 64); err != nil || c.to < c.from {
			return nil, wrong
		}
	}
	return c, nil
}

// Next counts one more, and says whether that is one of those meant.
func (c *Counter) Next() bool {
	c.n++
	if c.dice != nil {
		return c.dice.Float64() < c.share
	}
	return c.from <= c.n && c.n <= c.to
}
