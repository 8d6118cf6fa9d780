// Package learn teaches RDMA by what happens: each lesson is a scenario in a simulated world
// (package trace/world), a text that points at its packets, a question, and claims about the play
// that a test holds it to. A student may change what happens to a packet; the claims then say what
// has become different.
//
// The files, in reading order:
//
//	learn.go       what a lesson is; all of them, in reading order
//	text.go        texts, and how they point at what happened
//	claim.go       claims: what a play must show
//	changed.go     a play that a student has changed; bound.go: sentences that claims are bound to
//	ends.go        the hosts of most lessons
//	show.go        a play as text for a terminal; picture.go the same as SVG
//	docs.go        the lessons as pages of the repository, docs/learn
//	operations.go ...   the lessons, a file for a chapter
//
// To add a lesson: write it into its chapter's file, run the tests, which say where its text or its
// claims are not true, and "go generate ./trace/learn", which writes its page.
package learn

import (
	"slices"

	"github.com/goroce/goroce/trace/world"
)

//go:generate go run ../../cmd/roce learn --docs ../../docs/learn

// Lesson is one thing to learn.
type Lesson struct {
	Name  string // for the command line: "lost-ack"
	Title string
	// Text is paragraphs with an empty line between them. What is in braces points at the play:
	// see text.go. Lines that begin with four blanks are kept as they are.
	Text string
	// NIC says what is different with a network adapter that does RDMA in hardware; "" if nothing.
	NIC      string
	Scenario world.Scenario
	Claims   []Claim // in the order of the text
	Question string
	Answers  []string
	Right    int    // which answer is right, from 0 on
	Why      string // it is, with pointers as Text has them
	Queues   bool   // the queues are worth seeing
	Terminal bool   // a browser cannot play it
	SetUp    bool   // what happens before the first request is worth seeing, too
}

// Chapter is lessons that belong together.
type Chapter struct {
	Name, Title string
	Text        string // what it is about
	Lessons     []*Lesson
}

// Chapters returns all lessons in reading order.
func Chapters() []*Chapter {
	return []*Chapter{&operations, &refusals, &setup, &loss, &myths, &costs, &memory, &outside}
}

// All returns all lessons in reading order.
func All() (all []*Lesson) {
	for _, c := range Chapters() {
		all = append(all, c.Lessons...)
	}
	return all
}

// Find returns a lesson by its name, nil if there is none.
func Find(name string) *Lesson {
	all := All()
	if i := slices.IndexFunc(all, func(l *Lesson) bool { return l.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Play plays the lesson with what a student changes about its packets.
func (l *Lesson) Play(changes []world.Change) *world.Play {
	p := world.Run(l.Scenario, changes)
	p.Title = l.Title
	p.Notes = append(p.Notes, notes(Passages(l.Text, p), p)...)
	return p
}

// Differs says what is not as the lesson claims: nothing, unless a student has changed something.
func (l *Lesson) Differs(p *world.Play) (all []string) {
	for _, c := range l.Claims {
		if err := c(p); err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}

// Page is a lesson as a page or a program shows it.
type Page struct {
	Chapter      string    `json:"chapter"`
	ChapterTitle string    `json:"chapterTitle"`
	Name         string    `json:"name"`
	Title        string    `json:"title"`
	Text         []Passage `json:"text"`
	NIC          []Passage `json:"nic,omitempty"`
	Question     string    `json:"question"`
	Answers      []string  `json:"answers"`
	Right        int       `json:"right"`
	Why          []Passage `json:"why"`
	Queues       bool      `json:"queues"`
	SetUp        bool      `json:"setUp"`
	Terminal     bool      `json:"terminal"` // roce learn can play it, a browser cannot
}

// Page returns the lesson with its pointers resolved against a play of it without changes.
func (l *Lesson) Page(p *world.Play) Page {
	x := Page{Name: l.Name, Title: l.Title, Text: Passages(l.Text, p), NIC: Passages(l.NIC, p),
		Question: l.Question, Answers: l.Answers, Right: l.Right, Why: Passages(l.Why, p), Queues: l.Queues,
		SetUp: l.SetUp, Terminal: l.Terminal}
	for _, c := range Chapters() {
		if slices.Contains(c.Lessons, l) {
			x.Chapter, x.ChapterTitle = c.Name, c.Title
		}
	}
	return x
}
