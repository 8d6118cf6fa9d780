package learn

// A lesson that a student has changed: the play, what is to be told of it (package told), and which
// sentences of the text are not true of it any more.
//
// A sentence is not if it points at what is not there: at a packet that is not sent now; at a
// completion, refusal or event that has not come. Or if it says of a packet that it comes, and it
// does not, or is treated otherwise. Or if a claim is not true that the sentence is bound to. A packet that only has another number is pointed
// at by that.
//
// Stages: the play and what is untrue; sentences; packets that are the same; a terminal's text;
// what claims say that sentences are bound to (bindings.go).

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
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
	after.Notes = notes(c.Lesson.Text, after)
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
	why, lost := "", ""
	end := func() {
		whole := Passage{Pieces: out[first:]}.String()
		if why == "" && receiving.MatchString(whole) {
			why = lost
		}
		if why == "" {
			why = d.bound(whole)
		}
		if why != "" && strings.TrimSpace(whole) != "" {
			for i := first; i < len(out); i++ {
				out[i].Untrue = why
			}
			*all = append(*all, Untrue{strings.TrimSpace(whole), why})
		}
		first, why, lost = len(out), "", ""
	}
	for i, x := range was {
		if x.Packet > 0 || x.Host != "" {
			out = append(out, d.renumbered(x))
			if why == "" {
				why = d.pointer(x, is[i])
			}
			if lost == "" {
				lost = d.treated(x)
			}
			continue
		}
		at := 0
		for _, m := range ending.FindAllStringIndex(x.Text, -1) {
			out = append(out, Piece{Text: x.Text[at:m[1]], Term: x.Term})
			at = m[1]
			end()
		}
		if at < len(x.Text) {
			out = append(out, Piece{Text: x.Text[at:], Term: x.Term})
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
	n := d.same(was.Packet)
	a := &d.before.Packets[was.Packet-1]
	switch {
	case n == 0:
		return fmt.Sprintf("here there is no such packet: no %s with PSN %d", a.Label, a.PSN)
	case d.lost(was) != "":
		return ""
	case a.Fate == world.Lost && d.after.Packets[n-1].Fate != world.Lost:
		return fmt.Sprintf("here packet %d is not lost", n)
	}
	return ""
}

// treated says what becomes of a packet that a sentence points at, if it is not what became of it.
func (d *doubt) treated(was Piece) string {
	n := 0
	if was.Packet > 0 {
		n = d.same(was.Packet)
	}
	if n == 0 {
		return ""
	}
	if why := d.lost(was); why != "" {
		return why
	}
	did := became(d.after, n)
	switch {
	case slices.Equal(did, became(d.before, was.Packet)):
		return ""
	case len(did) == 0:
		return fmt.Sprintf("here nothing comes of packet %d", n)
	}
	return fmt.Sprintf("here packet %d is %s", n, strings.Join(did, ", "))
}

// same is the number that a packet of the lesson has in the changed play: that of the packet that
// says the same and was sent as often before; 0: there is none.
func (d *doubt) same(n int) int {
	a := &d.before.Packets[n-1]
	is := func(x *world.Packet) bool {
		return x.Label == a.Label && x.PSN == a.PSN && x.QPN == a.QPN && x.From == a.From && x.To == a.To
	}
	left := 0
	for i := range d.before.Packets[:n] {
		if is(&d.before.Packets[i]) {
			left++
		}
	}
	for i := range d.after.Packets {
		if x := &d.after.Packets[i]; is(x) {
			if left--; left == 0 {
				return x.N
			}
		}
	}
	return 0
}

// renumbered is a pointer to a packet that may have another number.
func (d *doubt) renumbered(x Piece) Piece {
	if x.Packet == 0 {
		return x
	}
	if n := d.same(x.Packet); n > 0 {
		x.Text = strings.Replace(x.Text, strconv.Itoa(x.Packet), strconv.Itoa(n), 1)
		x.Packet = n
	}
	return x
}

// lost says that a packet does not come where it came; "" if it comes, or did not.
func (d *doubt) lost(x Piece) string {
	if x.Packet == 0 || d.before.Packets[x.Packet-1].Arrived == 0 {
		return ""
	}
	n := d.same(x.Packet)
	if n == 0 {
		return ""
	}
	if b := &d.after.Packets[n-1]; b.Arrived == 0 || b.Fate == world.Corrupted &&
		d.before.Packets[x.Packet-1].Fate != world.Corrupted {
		return fmt.Sprintf("here packet %d is %s", n, b.Fate)
	}
	return ""
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
func (l *Lesson) ShowChanged(out io.Writer, c *Changed, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, changed\n\n", l.Title)
	l.WritePlay(&b, c.Play, width)
	b.WriteString("\nWhat came of it\n\n")
	for i, s := range c.Told {
		text := s.Text
		if s.Section != "" {
			text += fmt.Sprintf(" (docs/rocev2.md, section %s)", s.Section)
		}
		fmt.Fprintf(&b, "%2d. %s\n", i+1, indent(text, 4, width))
	}
	if len(c.Untrue) > 0 {
		b.WriteString("\nNot true any more of the lesson's text\n\n")
	}
	for _, u := range c.Untrue {
		fmt.Fprintf(&b, "  - %s\n", indent(u.Text+" ("+u.Why+")", 4, width))
	}
	if c.Play.Unfinished {
		b.WriteString("\nIt does not come to rest, and was ended.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// receiving are words of sentences that are true only if a packet has come, or was treated so. What
// somebody sends is as true of a packet that is lost.
var receiving = regexp.MustCompile(`(?i)\b(arriv\w+|comes|came[;.,]|has come|executed|finds|brings|shows|gets|is taken|takes it|` +
	`goes straight|are quick|round trip|after packet|adds|drops|dropped)\b`)
