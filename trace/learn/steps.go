package learn

// The walk through a lesson: which sentence is read at which moment of the play. Stages: a text →
// sentences, each with the moment that it is about → steps: sentences that follow each other and
// are about one moment.
//
// A sentence is about the latest of what its pointers point at (text.go); one without pointers,
// about the same as the sentence before it. A paragraph begins a step, and so does a later moment.
// Where that is not enough a cue in front of a sentence, which nobody sees, begins a step and says
// its moment:
//
//	{: 1 sent}  {: 4-6 arrives}   packet 1 leaves; packets 4 to 6 have arrived
//	{: A ibv_post_ 2}             the second entry of A of this kind, or whose text begins so
//	{:}                           no other moment, but another step
//	{: without 4 7-9}             packets that no step is about; {: without others}: all of them

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goroce/goroce/trace/glossary"
	"github.com/goroce/goroce/trace/world"
)

// Step is a part of a lesson's text with its moment.
type Step struct {
	Time    int64     `json:"time"`
	Packets []int     `json:"packets,omitempty"` // that it is about
	Text    []Passage `json:"text"`
	Terms   []string  `json:"terms,omitempty"` // that no step has had before, of any lesson
}

// String is the step's text.
func (s *Step) String() string {
	var all []string
	for _, p := range s.Text {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n\n")
}

// walker makes steps of sentences.
type walker struct {
	play  *world.Play
	steps []Step
	begin bool  // the next sentence begins a step
	now   int64 // the moment that the walk has come to
	left  []int // packets that no step is about
	rest  bool  // all others are such, too
	wrong []error
}

var (
	cue      = regexp.MustCompile(`\{:([^{}]*)\}\s*`)
	sentence = regexp.MustCompile(`[.?!]["”)]* `)
)

// walk makes the steps of a text.
func walk(text string, p *world.Play) *walker {
	w := &walker{play: p}
	for _, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, "    ") {
			w.add(Passages(paragraph, p)...)
			continue
		}
		w.begin = true
		rest := strings.Join(strings.Fields(paragraph), " ")
		for rest != "" {
			end := len(rest)
			if m := sentence.FindStringIndex(rest); m != nil {
				end = m[1]
			}
			w.say(strings.TrimSpace(rest[:end]))
			rest = rest[end:]
		}
	}
	w.allTold()
	return w
}

// step is the step that is being made.
func (w *walker) step() *Step {
	if len(w.steps) == 0 || w.begin {
		w.steps = append(w.steps, Step{Time: w.now})
		w.begin = false
	}
	return &w.steps[len(w.steps)-1]
}

func (w *walker) add(all ...Passage) { s := w.step(); s.Text = append(s.Text, all...) }

// say adds a sentence.
func (w *walker) say(text string) {
	var about []int
	told := w.now
	cued := false
	for _, m := range cue.FindAllStringSubmatch(text, -1) {
		what := strings.Fields(m[1])
		if len(what) > 0 && what[0] == "without" {
			w.leave(what[1:])
			continue
		}
		w.begin, cued = true, true
		at, packets, err := moment(what, w.now, w.play)
		if err == nil && at < w.now {
			err = fmt.Errorf("{:%s} is at %d ns, and the walk has come to %d", m[1], at, w.now)
		}
		if err != nil {
			w.wrong = append(w.wrong, err)
			continue
		}
		told, about = at, append(about, packets...)
	}
	if text = cue.ReplaceAllString(text, ""); text == "" {
		return
	}
	said := pieces(text, w.play)
	for _, x := range said {
		if x.Packet > 0 && x.wrong == nil && !slices.Contains(about, x.Packet) {
			about = append(about, x.Packet)
		}
		if x.at > told && cued {
			w.wrong = append(w.wrong, fmt.Errorf("%q: its cue is for %d ns, what it points at happens at %d",
				text, told, x.at))
		}
		told = max(told, x.at)
	}
	w.begin = w.begin || told > w.now
	w.now = told
	s := w.step()
	if n := len(s.Text); n > 0 && s.Text[n-1].Lines == "" {
		said = append(append(s.Text[n-1].Pieces, Piece{Text: " "}), said...)
		s.Text = s.Text[:n-1]
	}
	s.Text = append(s.Text, Passage{Pieces: said})
	for _, n := range about {
		if !slices.Contains(s.Packets, n) {
			s.Packets = append(s.Packets, n)
		}
	}
}

// moment is when that happens which a cue names, and the packets that it is about.
func moment(what []string, now int64, p *world.Play) (int64, []int, error) {
	if len(what) == 0 {
		return now, nil, nil
	}
	if numbers, err := numbersOf(what[:1]); err == nil && len(what) == 2 {
		at := int64(0)
		for _, n := range numbers {
			if n < 1 || n > len(p.Packets) {
				return 0, nil, fmt.Errorf("{: %v}: there are %d packets", what, len(p.Packets))
			}
			x := &p.Packets[n-1]
			t := x.Sent
			if what[1] == "arrives" {
				t = x.Arrived
			}
			if t == 0 || what[1] != "arrives" && what[1] != "sent" {
				return 0, nil, fmt.Errorf("{: %v}: packet %d is %s", what, n, x.Fate)
			}
			at = max(at, t)
		}
		return at, numbers, nil
	}
	n, words := 1, what[1:]
	if last, err := strconv.Atoi(what[len(what)-1]); err == nil {
		n, words = last, words[:len(words)-1]
	}
	kind, seen := strings.Join(words, " "), 0
	for i := range p.Entries {
		e := &p.Entries[i]
		if p.Hosts[e.Host].Name == what[0] && (e.Kind == kind || strings.HasPrefix(e.Text, kind)) {
			if seen++; seen == n {
				return e.Time, nil, nil
			}
		}
	}
	return 0, nil, fmt.Errorf("{: %v}: there are %d such entries", what, seen)
}

// numbersOf reads "3" and "5-7".
func numbersOf(words []string) (all []int, err error) {
	for _, word := range words {
		from, to, _ := strings.Cut(word, "-")
		if to == "" {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return nil, err
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all, nil
}

// leave notes packets that no step is about.
func (w *walker) leave(words []string) {
	if slices.Equal(words, []string{"others"}) {
		w.rest = true
		return
	}
	numbers, err := numbersOf(words)
	if err != nil {
		w.wrong = append(w.wrong, err)
	}
	w.left = append(w.left, numbers...)
}

// allTold notes packets that no step is about and that are not left out, or both.
func (w *walker) allTold() {
	for n := 1; n <= len(w.play.Packets); n++ {
		told := slices.ContainsFunc(w.steps, func(s Step) bool { return slices.Contains(s.Packets, n) })
		switch left := slices.Contains(w.left, n); {
		case told && left:
			w.wrong = append(w.wrong, fmt.Errorf("packet %d is left out, and a step is about it", n))
		case !told && !left && !w.rest:
			w.wrong = append(w.wrong, fmt.Errorf("no step is about packet %d", n))
		}
	}
}

// Steps are those of the lesson's text, against a play without changes.
func (l *Lesson) Steps(p *world.Play) []Step {
	all := walk(l.Text, p).steps
	seen := map[string]bool{}
	for i := range all {
		for _, u := range glossary.In(all[i].String()) {
			if !seen[u.Name] && firsts()[u.Name] == l.Name {
				all[i].Terms = append(all[i].Terms, u.Name)
			}
			seen[u.Name] = true
		}
		for k := range all[i].Text {
			all[i].Text[k] = withTerms(all[i].Text[k])
		}
	}
	return all
}

// Explained is a term, and the first lesson that has it.
type Explained struct {
	glossary.Term
	Lesson string `json:"lesson,omitempty"`
}

// Glossary returns all terms.
func Glossary() (all []Explained) {
	for _, t := range glossary.All() {
		all = append(all, Explained{t, firsts()[t.Name]})
	}
	return all
}

// firsts are the first lessons of all terms, by these.
var firsts = sync.OnceValue(func() map[string]string {
	first := map[string]string{}
	for _, l := range All() {
		for _, u := range glossary.In(plain(l.Text)) {
			if first[u.Name] == "" {
				first[u.Name] = l.Name
			}
		}
	}
	return first
})

// plain is a text without cues, and with the words of its pointers.
func plain(text string) string {
	text = cue.ReplaceAllString(text, "")
	text = pointer.ReplaceAllStringFunc(text, func(p string) string {
		words := strings.Fields(strings.Trim(p, "{}"))
		last := words[len(words)-1]
		switch {
		case len(words) == 3 && words[1] == "event":
			return "IBV_EVENT_" + last
		case len(words) == 3 && words[0] > "9":
			return "IBV_WC_" + last
		}
		return strings.Join(words, " ")
	})
	return text
}

// withTerms splits the pieces of a passage where it uses a term for the first time.
func withTerms(p Passage) Passage {
	seen := map[string]bool{}
	var all []Piece
	for _, x := range p.Pieces {
		at := 0
		for _, u := range glossary.In(x.Text) {
			if seen[u.Name] {
				continue
			}
			seen[u.Name] = true
			if x.Packet > 0 {
				continue
			}
			if x.Host != "" {
				x.Term = u.Name
				continue
			}
			all = append(all, Piece{Text: x.Text[at:u.Begin]}, Piece{Text: x.Text[u.Begin:u.End], Term: u.Name})
			at = u.End
		}
		if x.Text = x.Text[at:]; x.Text != "" {
			all = append(all, x)
		}
	}
	p.Pieces = slices.DeleteFunc(all, func(x Piece) bool { return x.Text == "" })
	return p
}
