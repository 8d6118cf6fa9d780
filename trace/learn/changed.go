package learn

// A lesson that a student has changed: the play, what is to be told of it (package told), and which
// sentences of the text are not true of it any more.
//
// A sentence is not if it points at what is not there: at a packet that is not sent now; at a
// completion, refusal or event that has not come. Or if it says of a packet that it comes, and it
// does not, or is treated otherwise. Or if a claim is not true that the sentence is bound to. A
// packet that only has another number is pointed at by that.
//
// Stages: the play and what is untrue; sentences; packets that are the same; a terminal's text;
// facts that sentences need which point at nothing; the table of these sentences.

import (
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
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

// fact is a claim, and what is so if it is not true: "the counter is 16".
type fact struct {
	claim Claim
	here  func(p *world.Play) string
}

// binding is a sentence, known by some of its words, and what it needs.
type binding struct {
	words string
	fact
}

// place is where 8 bytes are.
type place struct {
	host, region string
	at           int
}

// values: numbers of 8 bytes in memory, in the end. say has a verb for each: "the counter is %d".
func values(say string, at []place, want ...uint64) fact {
	return fact{func(p *world.Play) error {
		for i, x := range at {
			if err := has(x.host, x.region, x.at, native(want[i])...)(p); err != nil {
				return err
			}
		}
		return nil
	}, func(p *world.Play) string {
		var is []any
		for _, x := range at {
			is = append(is, binary.NativeEndian.Uint64(p.Memory(x.host, x.region)[x.at:]))
		}
		return fmt.Sprintf(say, is...)
	}}
}

// unless: a claim whose contrary is always the same.
func unless(claim Claim, here string) fact {
	return fact{claim, func(*world.Play) string { return here }}
}

// often is how many times, if it is any.
func often(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// acts: a host's device does something so many times.
func acts(host string, kind qp.RecordKind, want int, verb string) fact {
	return fact{records(host, kind, want), func(p *world.Play) string {
		n := len(p.EntriesOf(host, kind.String()))
		if n == 0 {
			return fmt.Sprintf("%s's device never %s", host, verb)
		}
		return fmt.Sprintf("%s's device %s %s", host, verb, often(n))
	}}
}

// becomes: what becomes of a packet.
func becomes(n int, want world.Fate) fact {
	return fact{fate(n, want), func(p *world.Play) string {
		if n > len(p.Packets) {
			return fmt.Sprintf("there is no packet %d", n)
		}
		return fmt.Sprintf("packet %d is %s", n, p.Packets[n-1].Fate)
	}}
}

// discards: a host's device drops so many packets for a reason.
func discards(host string, reason wire.DropReason, want int, why string) fact {
	return fact{drops(host, reason, want), func(p *world.Play) string {
		n := 0
		for drops(host, reason, n)(p) != nil {
			n++
		}
		packets := fmt.Sprintf("%d packets", n)
		switch n {
		case 0:
			packets = "no packet"
		case 1:
			packets = "1 packet"
		}
		return fmt.Sprintf("%s's device drops %s %s", host, packets, why)
	}}
}

// behind: a host's device drops these packets, as one before them is missing.
func behind(host string, numbers ...int) fact {
	kept := func(p *world.Play) int { // the first that it does not drop so; 0: it drops all
		for _, n := range numbers {
			if !slices.ContainsFunc(p.EntriesOf(host, qp.RecordDropped.String()), func(e world.Entry) bool {
				return e.Packet == n && wire.DropReason(e.Record.Value) == wire.DropOutOfSequence
			}) {
				return n
			}
		}
		return 0
	}
	return fact{func(p *world.Play) error {
		if n := kept(p); n > 0 {
			return fmt.Errorf("packet %d is not dropped behind a gap, as it is in the lesson", n)
		}
		return nil
	}, func(p *world.Play) string {
		n := kept(p)
		if n <= len(p.Packets) && p.Packets[n-1].Fate != world.Delivered {
			return fmt.Sprintf("packet %d is %s", n, p.Packets[n-1].Fate)
		}
		return fmt.Sprintf("packet %d does not come behind a gap", n)
	}}
}

// knows: a host's device gets a request that it knows.
func knows(host string) fact {
	return unless(func(p *world.Play) error {
		if len(p.EntriesOf(host, qp.RecordDuplicate.String())) == 0 {
			return fmt.Errorf("%s knows no request, as it does in the lesson", host)
		}
		return nil
	}, fmt.Sprintf("no request comes to %s's device that it knows", host))
}

// The facts that several sentences need.
var (
	torn = values("the READ has version %d at the front and %d at the end", []place{{"A", "buf", 7100},
		{"A", "buf", 7108}}, 1, 2)
	added = values("A's device gets %d back", []place{{"A", "buf", 4096}}, 10)
	evil  = unless(has("B", "buf", 0, []byte("evil")...), "B's memory does not have \"evil\"")
)

// bindings are those of the lessons, by their names.
var bindings = map[string][]binding{
	"write": {{"Then the device writes them", unless(holds("B", "buf", 0, "A", "buf", 0, 32),
		"they are not in B's memory")}},
	"atomics": {{"brings 48, so now it is 1000", values("it is %d", []place{{"B", "buf", 64}}, 1000)}},
	"atomic-covers": {{"In between A's", added}, {"adds 5: it is 15", added}, {"brings back the 10", added},
		{"A's 5 are lost", values("the counter is %d at the end", []place{{"B", "buf", 0}}, 11)}},
	"uc": {{"the others are not", unless(has("B", "buf", 1024, make([]byte, 1976)...),
		"more than 1024 bytes of it are in B's memory")},
		{"It is taken as if nothing had happened", unless(holds("B", "buf", 4096, "A", "buf", 0, 8), "it is not at B")},
		{"1024 bytes are in B's memory", unless(holds("B", "buf", 0, "A", "buf", 0, 1024),
			"the first 1024 bytes are not in B's memory")}},
	"ud":        {{"It is dropped, too", discards("B", wire.DropNoRecv, 1, "for want of a receive")}},
	"multicast": {{"Its copy is dropped", discards("C", wire.DropNoRecv, 1, "for want of a receive")}},
	"rnr": {{"A's device waits.", acts("A", qp.RecordWait, 1, "waits")},
		{"as long as 150 round trips", acts("A", qp.RecordWait, 1, "waits")}},
	"lost-packet": {{"B's device gets packet 3", behind("B", 3)}, {"It does not keep packet 3", behind("B", 3, 4, 6)},
		{"One lost packet has cost four", acts("A", qp.RecordRetry, 1, "goes back")}},
	"lost-last": {{"B's device has seen PSN 1000", knows("B")}, {"It does not execute it again", knows("B")},
		{"A's device does not know whether", acts("A", qp.RecordProbe, 1, "asks")}},
	"lost-atomic": {{"It does not.", knows("B")}, {"It is executed, the counter is 11", becomes(1, world.Delivered)}},
	"retry-exceeded": {{"all that A sends is lost", becomes(1, world.Lost)},
		{"as often as its retry_cnt says", acts("A", qp.RecordGiveUp, 1, "gives up")}},
	"overtaken": {{"When the late packet comes at last", knows("B")}, {"is 20 us late", becomes(2, world.Delivered)}},
	"corrupted": {{"B's device computes another ICRC", unless(func(p *world.Play) error {
		if drops("B", wire.DropICRC, 0)(p) == nil {
			return fmt.Errorf("B's device drops no packet for its ICRC, as it does in the lesson")
		}
		return nil
	}, "no packet has another ICRC")}},
	"ecn": {{"Nothing was lost, and nothing was sent twice", acts("A", qp.RecordRetry, 0, "goes back")}},
	"torn-read": {{"B's program makes a new record", torn}, {"was read before that", torn},
		{"What A has is neither", torn}, {"sees that they differ", torn},
		{"Now it has 2 and 2", values("it has %d and %d", []place{{"A", "buf", 0}, {"A", "buf", 6992}}, 2, 2)}},
	"myth-pinned": {{"B's memory has the old first half", unless(has("B", "buf", 0, 1, 2, 3),
		"B has the new first half, too")}},
	"two-devices": {{"the counter ends at 12", values("it ends at %d", []place{{"B1", "buf", 0}}, 12)}},
	"capabilities": {{"B's device has no reason to doubt it", evil}, {"has a PSN that B has seen already", knows("B")},
		{"B takes it for a repetition", knows("B")}, {"its bytes are not there", evil}},
}

// bound says why a sentence is not true of the changed play; "" if no claim that it is bound to
// says so.
func (d *doubt) bound(sentence string) string {
	for _, b := range bindings[d.Name] {
		if strings.Contains(sentence, b.words) && b.claim(d.after) != nil {
			return "here " + b.here(d.after)
		}
	}
	return ""
}
