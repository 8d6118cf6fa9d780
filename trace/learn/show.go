package learn

// A lesson for a terminal. Stages: its text → the play, a line for each thing that a program or a
// device did and an arrow for each packet, in the order of time, with the queues where they matter
// → what is different with a NIC. Asking the question is the command's.

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

// step is a line of a play: an entry, a packet that leaves, or a change of queues.
type step struct {
	time   int64
	entry  *world.Entry
	packet *world.Packet
	queues string
}

// steps puts entries and packets in the order of time. Of one time, what a program and its device
// did comes before the packets that came of it.
func (l *Lesson) steps(p *world.Play) (all []step) {
	begun := l.SetUp
	for i := range p.Entries {
		e := &p.Entries[i]
		begun = begun || strings.HasPrefix(e.Text, "ibv_post_") || e.Kind == "cpu" && e.Time > 0
		if e.Err != nil || begun && !tells(e) && (l.SetUp || !preparing(e)) {
			all = append(all, step{time: e.Time, entry: e})
		}
	}
	for i := range p.Packets {
		all = append(all, step{time: p.Packets[i].Sent, packet: &p.Packets[i]})
	}
	slices.SortStableFunc(all, func(a, b step) int { return int(a.time - b.time) })
	if l.Queues {
		all = withQueues(all, p)
	}
	return all
}

// preparing says whether an entry is about objects that are made.
func preparing(e *world.Entry) bool {
	for _, verb := range []string{"ibv_create_", "ibv_modify_", "ibv_reg_", "ibv_alloc_", "ibv_attach_"} {
		if strings.HasPrefix(e.Text, verb) {
			return true
		}
	}
	return false
}

// tells says whether an entry only tells what others do, too: that a time is up, or that a queue
// pair is in the state that its program has asked for.
func tells(e *world.Entry) bool {
	return e.Kind == qp.RecordTimer.String() && qp.TimerKind(e.Record.Op) != qp.TimerAck ||
		e.Kind == qp.RecordState.String() &&
			qp.QPState(e.Record.Op) <= qp.StateRTS
}

// withQueues adds what is in the queues, after each time at which that has changed.
func withQueues(all []step, p *world.Play) []step {
	last := ""
	for i := range p.Moments {
		m := &p.Moments[i]
		next := i + 1
		if text := queueLine(p, m); text != last && (next == len(p.Moments) || p.Moments[next].Time > m.Time) {
			last = text
			if len(all) > 0 && m.Time >= all[0].time {
				at := slices.IndexFunc(all, func(s step) bool { return s.time > m.Time })
				if at < 0 {
					at = len(all)
				}
				all = slices.Insert(all, at, step{time: m.Time, queues: text})
			}
		}
	}
	return all
}

// queueLine says what is in all queues: "A: SQ 1 2, CQ empty | B: RQ 7, CQ empty".
func queueLine(p *world.Play, m *world.Moment) string {
	var hosts []string
	for h, s := range m.Hosts {
		var parts []string
		for _, q := range s.QPs {
			parts = append(parts, q.State)
			for _, x := range q.SQ {
				parts = append(parts, fmt.Sprintf("SQ[wr %d %s]", x.WRID, x.State))
			}
			for _, x := range q.RQ {
				parts = append(parts, fmt.Sprintf("RQ[wr %d]", x.WRID))
			}
		}
		for _, cq := range s.CQs {
			for _, wc := range cq {
				parts = append(parts, fmt.Sprintf("CQ[wr %d %s]", wc.WRID, strings.TrimPrefix(wc.Status, "IBV_WC_")))
			}
		}
		hosts = append(hosts, p.Hosts[h].Name+": "+strings.Join(parts, " "))
	}
	return strings.Join(hosts, "   ")
}

// Show writes the lesson for a terminal, without its question. The first of a chapter has what the
// chapter is about in front.
func (l *Lesson) Show(out io.Writer, p *world.Play) error {
	var b strings.Builder
	for _, c := range Chapters() {
		if c.Lessons[0] == l {
			fmt.Fprintf(&b, "Chapter: %s\n\n", c.Title)
			writePassages(&b, Passages(c.Text, nil))
		}
	}
	fmt.Fprintf(&b, "%s\n%s\n\n", l.Title, strings.Repeat("=", len(l.Title)))
	writePassages(&b, Passages(l.Text, p))
	l.WritePlay(&b, p)
	if l.NIC != "" {
		b.WriteString("\nWith a NIC\n")
		writePassages(&b, Passages(l.NIC, p))
	}
	_, err := io.WriteString(out, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// WritePlay writes what happened, a line each, in columns of microseconds, hosts and words.
func (l *Lesson) WritePlay(b *strings.Builder, p *world.Play) {
	all := l.steps(p)
	if len(all) == 0 {
		return
	}
	b.WriteString("        us\n")
	for _, s := range all {
		fmt.Fprintf(b, "%10.3f  ", float64(s.time)/1000)
		switch {
		case s.packet != nil:
			b.WriteString(arrow(p, s.packet))
		case s.entry != nil:
			b.WriteString(indent(fmt.Sprintf("%s: %s", p.Hosts[s.entry.Host].Name, s.entry.Text), 15))
		default:
			b.WriteString("   queues  " + indent(s.queues, 23))
		}
		b.WriteByte('\n')
	}
}

// indent breaks a text into lines that begin at a column, but for the first.
func indent(text string, column int) string {
	return strings.ReplaceAll(Wrap(text, width-column), "\n", "\n"+strings.Repeat(" ", column))
}

// arrow is a packet's line.
func arrow(p *world.Play, x *world.Packet) string {
	text := fmt.Sprintf(" %d  %s psn %d", x.N, x.Label, x.PSN)
	if x.Length > 0 {
		text += fmt.Sprintf(", %d B", x.Length)
	}
	from, to := p.Hosts[x.From].Name, "nobody"
	if x.To >= 0 {
		to = p.Hosts[x.To].Name
	}
	line := fmt.Sprintf("   %s ──%s %s▶ %s", from, text, strings.Repeat("─", max(2, 46-len(text))), to)
	if x.Fate == world.Lost {
		line = fmt.Sprintf("   %s ──%s ──✗  %s", from, text, "lost")
	} else if x.Fate != world.Delivered {
		line += "  " + string(x.Fate)
	}
	if x.Change == world.Delay {
		line += "  delayed"
	}
	return line
}

// width is that of a text in a terminal.
const width = 96

func writePassages(b *strings.Builder, all []Passage) {
	for _, p := range all {
		if p.Lines != "" {
			b.WriteString("    " + strings.ReplaceAll(p.Lines, "\n", "\n    ") + "\n\n")
			continue
		}
		b.WriteString(Wrap(p.String(), width) + "\n\n")
	}
}

// Wrap breaks a paragraph into lines.
func Wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
