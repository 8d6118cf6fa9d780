package learn

// A lesson that a student has changed: the play, what is to be told of it (package told), and which
// sentences of the text are not true of it any more.
//
// A sentence is not if it points at what is not there: at a packet that is another one now, does not
// arrive, or is treated otherwise; at a completion, refusal or event that has not come. Or if a claim
// is not true that the sentence is bound to (bound.go).

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
)

// Changed is a lesson played with changes.
type Changed struct {
	Lesson  Page            `json:"lesson"`            // its pieces say what is untrue
	Play    *world.Play     `json:"play"`              // with the changes
	Told    []told.Sentence `json:"told"`              // what they have made of it
	Untrue  []Untrue        `json:"untrue"`            // sentences of the lesson
	Differs []string        `json:"differs,omitempty"` // claims of the lesson that are not true
}

// Untrue is a sentence that is not true any more, and why.
type Untrue struct {
	Text string `json:"text"`
	Why  string `json:"why"`
}

// Change plays the lesson with a student's changes.
func (l *Lesson) Change(changes []world.Change) *Changed {
	before, after := l.Play(nil), l.Play(changes)
	c := &Changed{Lesson: l.Page(before), Play: after, Told: told.Tell(before, after, changes), Untrue: []Untrue{},
		Differs: l.Differs(after)}
	if len(changes) == 0 {
		return c
	}
	d := doubt{l, before, after}
	for _, text := range []struct {
		source string
		to     *[]Passage
	}{{l.Text, &c.Lesson.Text}, {l.Why, &c.Lesson.Why}, {l.NIC, &c.Lesson.NIC}} {
		*text.to = d.mark(text.source, &c.Untrue)
	}
	return c
}

// doubt compares two plays of a lesson.
type doubt struct {
	*Lesson
	before, after *world.Play
}

// ending is the end of a sentence.
var ending = regexp.MustCompile(`[.?!]["')]*\s+`)

// mark resolves a text against the play without changes, and marks the sentences that are not true
// of the other.
func (d *doubt) mark(text string, all *[]Untrue) []Passage {
	was, is := Passages(text, d.before), Passages(text, d.after)
	for i := range was {
		if was[i].Lines == "" {
			was[i].Pieces = d.sentences(was[i].Pieces, is[i].Pieces, all)
		}
	}
	return was
}

// sentences cuts pieces where sentences end, and marks those of the ones that are not true.
func (d *doubt) sentences(was, is []Piece, all *[]Untrue) (out []Piece) {
	first := 0 // of the sentence, in out
	why := ""
	end := func() {
		whole := Passage{Pieces: out[first:]}.String()
		if why == "" {
			why = d.bound(whole)
		}
		if why != "" && strings.TrimSpace(whole) != "" {
			for i := first; i < len(out); i++ {
				out[i].Untrue = why
			}
			*all = append(*all, Untrue{strings.TrimSpace(whole), why})
		}
		first, why = len(out), ""
	}
	for i, x := range was {
		if x.Packet > 0 || x.Host != "" {
			out = append(out, x)
			if why == "" {
				why = d.pointer(x, is[i])
			}
			continue
		}
		at := 0
		for _, m := range ending.FindAllStringIndex(x.Text, -1) {
			out = append(out, Piece{Text: x.Text[at:m[1]]})
			at = m[1]
			end()
		}
		if at < len(x.Text) {
			out = append(out, Piece{Text: x.Text[at:]})
		}
	}
	end()
	return out
}

// pointer says why what a sentence points at is not as it was; "" if it is.
func (d *doubt) pointer(was, is Piece) string {
	if was.Packet == 0 {
		if is.wrong != nil {
			return "here it is not " + strings.TrimPrefix(was.Text, "IBV_WC_") + " of " + was.Host
		}
		return ""
	}
	n := was.Packet
	if n > len(d.after.Packets) {
		return fmt.Sprintf("here there is no packet %d", n)
	}
	a, b := &d.before.Packets[n-1], &d.after.Packets[n-1]
	switch {
	case a.Label != b.Label || a.PSN != b.PSN || a.From != b.From || a.To != b.To:
		return fmt.Sprintf("here packet %d is %s with PSN %d from %s", n, b.Label, b.PSN, d.after.Hosts[b.From].Name)
	case (a.Fate == world.Lost) != (b.Fate == world.Lost):
		return fmt.Sprintf("here packet %d is %s", n, b.Fate)
	case is.wrong != nil:
		return fmt.Sprintf("here packet %d is %s, %s", n, b.Label, b.Fate)
	}
	did := became(d.after, n)
	switch {
	case slices.Equal(did, became(d.before, n)):
		return ""
	case len(did) == 0:
		return fmt.Sprintf("here nothing comes of packet %d", n)
	}
	return fmt.Sprintf("here packet %d is %s", n, strings.Join(did, ", "))
}

// became is what a receiver has done with a packet.
func became(p *world.Play, n int) (all []string) {
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.Packet != n || e.Host != p.Packets[n-1].To {
			continue
		}
		switch e.Record.Kind {
		case qp.RecordExecuted, qp.RecordDropped, qp.RecordKept:
			if p.Packets[n-1].PSN == uint32(e.Record.PSN) && !slices.Contains(all, e.Kind) {
				all = append(all, e.Kind)
			}
		case qp.RecordDuplicate:
			return []string{"a duplicate"}
		}
	}
	return all
}

// ShowChanged writes a lesson that was changed for a terminal: what happened, what is told of it,
// and which sentences of its text are not true of it.
func (l *Lesson) ShowChanged(out io.Writer, c *Changed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, changed\n\n", l.Title)
	l.WritePlay(&b, c.Play)
	b.WriteString("\nWhat came of it\n\n")
	for i, s := range c.Told {
		text := s.Text
		if s.Section != "" {
			text += fmt.Sprintf(" (docs/rocev2.md, section %s)", s.Section)
		}
		fmt.Fprintf(&b, "%2d. %s\n", i+1, indent(text, 4))
	}
	if len(c.Untrue) > 0 {
		b.WriteString("\nNot true any more of the lesson's text\n\n")
	}
	for _, u := range c.Untrue {
		fmt.Fprintf(&b, "  - %s\n", indent(u.Text+" ("+u.Why+")", 4))
	}
	if c.Play.Unfinished {
		b.WriteString("\nIt does not come to rest, and was ended.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
