package learn

// Texts. What is in braces points at what happened, and says what is there, so that a test finds a
// text that is not true:
//
//	{3 RDMA_WRITE_LAST}    packet 3, whose label begins so
//	{3 lost}               "packet 3 is lost": its fate is that
//	{A 1 SUCCESS}          the first completion of host A, with this status
//	{A refuses 1 EINVAL}   the first call of A that was refused, with this kind of error
//	{B event QP_FATAL}     an asynchronous event of B

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/world"
)

// Passage is a paragraph: pieces of text, or lines that are kept as they are.
type Passage struct {
	Lines  string  `json:"lines,omitempty"` // with newlines; Pieces is empty then
	Pieces []Piece `json:"pieces,omitempty"`
}

// Piece is text, or a pointer in words.
type Piece struct {
	Text   string `json:"text"`
	Packet int    `json:"packet,omitempty"` // it points at this packet
	Host   string `json:"host,omitempty"`   // or at something of this host
	Untrue string `json:"untrue,omitempty"` // why its sentence is not true now

	wrong error // it points at nothing
}

// String is the passage without its pointers' targets.
func (p Passage) String() string {
	if p.Lines != "" {
		return p.Lines
	}
	var b strings.Builder
	for _, x := range p.Pieces {
		b.WriteString(x.Text)
	}
	return b.String()
}

// notes are the sentences of a text that point at a packet, for who looks at the packet. Of a play
// that a student has changed there are those that are true of it.
func notes(text []Passage, p *world.Play) (all []world.Note) {
	for _, passage := range text {
		whole, at := passage.String(), 0
		for _, x := range passage.Pieces {
			if x.Packet > 0 && x.wrong == nil && x.Untrue == "" {
				begin := strings.LastIndex(whole[:at], ". ") + 1
				end := len(whole)
				if i := strings.Index(whole[at:], ". "); i >= 0 {
					end = at + i + 1
				}
				all = append(all, world.Note{
					Time:   p.Packets[x.Packet-1].Sent,
					Packet: x.Packet,
					Text:   strings.TrimSpace(whole[begin:end]),
				})
			}
			at += len(x.Text)
		}
	}
	return all
}

var pointer = regexp.MustCompile(`\{([^{}]*)\}`)

// Passages resolves a text against a play.
func Passages(text string, p *world.Play) (all []Passage) {
	for _, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.TrimSpace(paragraph) == "":
		case strings.HasPrefix(paragraph, "    "):
			all = append(all, Passage{Lines: strings.ReplaceAll(strings.TrimPrefix(paragraph, "    "), "\n    ", "\n")})
		default:
			all = append(all, Passage{Pieces: pieces(strings.Join(strings.Fields(paragraph), " "), p)})
		}
	}
	return all
}

func pieces(text string, p *world.Play) (all []Piece) {
	at := 0
	for _, m := range pointer.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			all = append(all, Piece{Text: text[at:m[0]]})
		}
		x := resolve(text[m[2]:m[3]], p)
		if before := strings.TrimSpace(text[:m[0]]); x.Packet > 0 && (before == "" || strings.HasSuffix(before, ".")) {
			x.Text = "P" + x.Text[1:] // a sentence begins
		}
		all = append(all, x)
		at = m[1]
	}
	if at < len(text) {
		all = append(all, Piece{Text: text[at:]})
	}
	return all
}

// resolve makes words of a pointer.
func resolve(what string, p *world.Play) Piece {
	words := strings.Fields(what)
	if len(words) < 2 {
		return Piece{Text: what, wrong: fmt.Errorf("{%s} is no pointer", what)}
	}
	if n, err := strconv.Atoi(words[0]); err == nil {
		return resolvePacket(n, strings.Join(words[1:], " "), p)
	}
	host := words[0]
	switch {
	case p.Host(host) < 0:
		return Piece{Text: what, wrong: fmt.Errorf("{%s}: there is no host %s", what, host)}
	case words[1] == "event" && len(words) == 3:
		return resolveEvent(host, "IBV_EVENT_"+words[2], p)
	case words[1] == "refuses" && len(words) == 4:
		n, _ := strconv.Atoi(words[2])
		x := Piece{Text: words[3], Host: host}
		if errs := p.Refusals(host); n < 1 || n > len(errs) || errno(errs[n-1]) != words[3] {
			x.wrong = fmt.Errorf("{%s}: refused were %v", what, errs)
		}
		return x
	case len(words) == 3:
		return resolveCompletion(host, words[1], "IBV_WC_"+words[2], p)
	}
	return Piece{Text: what, wrong: fmt.Errorf("{%s} is no pointer", what)}
}

func resolvePacket(n int, label string, p *world.Play) Piece {
	x := Piece{Text: fmt.Sprintf("packet %d (%s)", n, label), Packet: n}
	switch {
	case n < 1 || n > len(p.Packets):
		x.wrong = fmt.Errorf("{%d %s}: there are %d packets", n, label, len(p.Packets))
	case string(p.Packets[n-1].Fate) == label:
		x.Text = fmt.Sprintf("packet %d is %s", n, label)
	case !strings.HasPrefix(p.Packets[n-1].Label, label):
		x.wrong = fmt.Errorf("{%d %s}: it is %s, %s", n, label, p.Packets[n-1].Label, p.Packets[n-1].Fate)
	}
	return x
}

func resolveCompletion(host, number, status string, p *world.Play) Piece {
	x := Piece{Text: status, Host: host}
	n, _ := strconv.Atoi(number)
	wcs := p.CompletionsOf(host)
	if n < 1 || n > len(wcs) || world.StatusName(wcs[n-1].Status) != status {
		x.wrong = fmt.Errorf("{%s %s %s}: the completions are %v", host, number, status, statuses(wcs))
		return x
	}
	x.Text += fmt.Sprintf(" (%d)", wcs[n-1].Status)
	return x
}

func resolveEvent(host, name string, p *world.Play) Piece {
	for _, e := range p.EntriesOf(host, "event") {
		if e.Async && eventName(e.Event) == name {
			return Piece{Text: name, Host: host}
		}
	}
	return Piece{Text: name, Host: host, wrong: fmt.Errorf("{%s event %s}: there is none", host, name)}
}

// eventName is an event's name in the verbs.
func eventName(t qp.EventType) string {
	for _, topic := range trace.Topics() {
		if topic.Kind == "event" && topic.Number == int(t) {
			return topic.Name
		}
	}
	return t.String()
}

// errno is the error of the verbs that an error stands for.
func errno(err error) string {
	switch {
	case errors.Is(err, qp.ErrFull), errors.Is(err, qp.ErrLimit), errors.Is(err, mr.ErrFull):
		return "ENOMEM"
	case errors.Is(err, qp.ErrBusy), errors.Is(err, mr.ErrBusy):
		return "EBUSY"
	}
	return "EINVAL"
}
