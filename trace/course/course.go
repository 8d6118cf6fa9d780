// Package course is a course of two afternoons, made of the lessons, the quiz and the commands: it
// retells a training module that is often used, works its exercise sheet with its own numbers, and
// says where each item of it is and what is not so. docs/course is written from it.
//
// The files, in reading order:
//
//	course.go   the plan, and how the pages are written
//	items.go    every item of the module, and where it is
//	slides.go   the slides
//	text        the pages, in which {{lesson "write"}}, {{quiz "pages"}} and {{answer "A1"}}
//	            stand for what they name; what does not exist fails
package course

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/quiz"
)

//go:generate go test . -count=1 -run ^TestDocsAreNotStale$ -generate

//go:embed text
var texts embed.FS

// Names are the pages of docs/course.
var Names = []string{"README.md", "module.md", "exercises.md", "answers.md"}

// Unit is a part of an afternoon.
type Unit struct {
	Minutes int
	What    string
	Lessons string // in this order, which is that of the slides
	Tasks   string // of the exercise sheet, in words
}

// Afternoon is units with a break between.
type Afternoon struct {
	Title string
	Units []Unit
}

// Plan is the course. A unit is half shown and half played: each student drops a packet of his own.
var Plan = []Afternoon{
	{"What happens", []Unit{
		{25, "Two ways from program to program", "copies write", ""},
		{35, "The four operations", "packets send read atomics", "opcode and fields: C1 to C8"},
		{30, "Memory: registering, keys, pages", "registration page-moved page-swapped", "A1 to A5, R1 to R3; lab 2"},
		{15, "Break", "", ""},
		{30, "Queues, doorbells, completions", "rings doorbells myth-unsignaled", "B1 to B6"},
		{30, "Exchanging addresses and keys", "by-hand keys-swapped", "predictions 2 and 7"},
		{30, "Lab: a device without a NIC", "", "lab 1"},
		{15, "What was not said: who knows of a WRITE?", "notify", ""},
	}},
	{"What goes wrong, and what it costs", []Unit{
		{35, "Refused here, refused there, done wrongly", "unregistered wrong-rkey num-sge-zero num-sge-garbage",
			"predictions 1 to 4"},
		{25, "Too late: queues that are full or empty", "rnr cq-overrun page-unmapped", "predictions 5, 8, 10"},
		{30, "A packet is lost", "lost-packet lost-ack lost-atomic", ""},
		{15, "Break", "", ""},
		{30, "Where the time goes", "timeline poll-or-sleep", "D1 to D4, T1, T2, Q1"},
		{35, "Lab: RDMA beside sockets", "", "labs 2 and 3; S1 to S6"},
		{25, "What tutorials get wrong", "myth-opcodes myth-status-5 myth-poll", ""},
		{15, "When to, when not", "when-not capabilities", ""},
	}},
}

// at is where each lesson is in docs/learn.
func at(l *learn.Lesson) string {
	for i, c := range learn.Chapters() {
		for _, x := range c.Lessons {
			if x == l {
				return fmt.Sprintf("../learn/%02d-%s.md#%s", i+1, c.Name, l.Name)
			}
		}
	}
	return ""
}

// functions are what a page's text may call.
var functions = template.FuncMap{
	"lesson": func(name string) (string, error) {
		l := learn.Find(name)
		if l == nil {
			return "", fmt.Errorf("there is no lesson %q", name)
		}
		return fmt.Sprintf("[%s](%s)", name, at(l)), nil
	},
	"quiz": func(kind string) (string, error) {
		if quiz.Find(kind) == nil {
			return "", fmt.Errorf("there is no quiz %q", kind)
		}
		return "`roce learn quiz " + kind + "`", nil
	},
	"answer":    answer,
	"tasks":     tasks,
	"plan":      plan,
	"table":     table,
	"questions": questions,
	"measured":  measured,
	"count":     func() int { return len(learn.All()) },
}

func task(name string) (quiz.Task, error) {
	for _, t := range quiz.Sheet() {
		if t.Name == name {
			return t, nil
		}
	}
	return quiz.Task{}, fmt.Errorf("the sheet has no task %q", name)
}

// answer is a task's number with its unit.
func answer(name string) (string, error) {
	t, err := task(name)
	return strings.TrimSpace(said(&t) + " " + t.Unit), err
}

// said is an answer; addresses and keys are in hexadecimal digits, as the sheet has them.
func said(t *quiz.Task) string {
	if t.Kind == "send-wr" && t.Answer > 4096 {
		return fmt.Sprintf("0x%x", int64(t.Answer))
	}
	return quiz.Number(t.Answer)
}

// tasks lists the sheet's tasks whose names begin with one of the letters; with their answers, or
// without.
func tasks(letters string, answered bool) string {
	var b strings.Builder
	all := quiz.Sheet()
	for i, t := range all {
		if !strings.Contains(letters, t.Name[:1]) {
			continue
		}
		fmt.Fprintf(&b, "- **%s** %s", t.Name, escape(t.Text))
		if last := i+1 == len(all) || all[i+1].Kind != t.Kind; t.Kind != "" && last && !answered {
			fmt.Fprintf(&b, " (More of them: `roce learn quiz %s`)", t.Kind)
		}
		b.WriteByte('\n')
		if answered {
			fmt.Fprintf(&b, "  **%s**. %s", strings.TrimSpace(said(&t)+" "+t.Unit), escape(t.Why))
			if t.Sheet != 0 {
				fmt.Fprintf(&b, " (The sheet: %s.)", quiz.Number(t.Sheet))
			}
			if t.Remark != "" {
				b.WriteString(" " + escape(t.Remark))
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plan is the two afternoons as tables.
func plan() (string, error) {
	var b strings.Builder
	for i, a := range Plan {
		fmt.Fprintf(&b, "### Afternoon %d: %s\n\n| minutes | what | lessons, in this order | exercises "+
			"|\n|---|---|---|---|\n", i+1, a.Title)
		for _, u := range a.Units {
			var links []string
			for _, name := range strings.Fields(u.Lessons) {
				l := learn.Find(name)
				if l == nil {
					return "", fmt.Errorf("there is no lesson %q", name)
				}
				links = append(links, fmt.Sprintf("[%s](%s)", name, at(l)))
			}
			fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", u.Minutes, u.What, strings.Join(links, ", "), u.Tasks)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String()), nil
}

// runs are what "roce perf reg" has measured, pinned, on a virtual machine with two processors, for
// the sizes of the sheet, in microseconds; untouched is 1 GiB that nobody had used before
// (bench/RESULTS.md).
var runs = []struct {
	bytes, sheet, took int
}{{4096, 50, 3}, {1 << 20, 5000, 93}, {1 << 30, 500_000, 92_406}}

const untouched = 262_040

// measured is the sheet's table beside what was measured.
func measured() string {
	var b strings.Builder
	b.WriteString("| bytes | pages | the sheet, us | a page | measured, us | a page |\n|---|---|---|---|---|---|\n")
	for _, r := range runs {
		pages := r.bytes / 4096
		each := func(us int) string { return quiz.Number(float64(us) / float64(pages)) }
		fmt.Fprintf(&b, "| %d | %d | %d | %s | %d | %s |\n", r.bytes, pages, r.sheet, each(r.sheet), r.took,
			each(r.took))
	}
	last := runs[len(runs)-1]
	fmt.Fprintf(&b, "| %d, never touched | %d | | | %d | %s |\n", last.bytes, last.bytes/4096, untouched,
		quiz.Number(float64(untouched)/float64(last.bytes/4096)))
	return b.String()
}

// questions are those of the plan's lessons; with their answers, or without.
func questions(answered bool) string {
	var b strings.Builder
	for _, a := range Plan {
		for _, u := range a.Units {
			for _, name := range strings.Fields(u.Lessons) {
				l := learn.Find(name)
				fmt.Fprintf(&b, "- **%s** %s\n", name, escape(l.Question))
				for i, text := range l.Answers {
					if !answered {
						fmt.Fprintf(&b, "  - (%c) %s\n", 'a'+i, escape(text))
					}
				}
				if answered {
					fmt.Fprintf(&b, "  **(%c) %s.** %s\n", 'a'+l.Right, escape(l.Answers[l.Right]), escape(plain(l,
						l.Why)))
				}
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plain is a text with its pointers in words.
func plain(l *learn.Lesson, text string) string {
	var all []string
	for _, p := range learn.Passages(text, l.Play(nil)) {
		all = append(all, p.String())
	}
	return strings.Join(all, " ")
}

// escape keeps what Markdown would take for its own. Emphasis of a remark stays.
func escape(s string) string {
	return strings.NewReplacer("_", `\_`, "<", "&lt;", ">", "&gt;", " * ", ` \* `).Replace(s)
}

// Docs returns the files of docs/course by their names.
func Docs() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range Names {
		t, err := template.New(name+".tmpl").Funcs(functions).ParseFS(texts, "text/"+name+".tmpl")
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		if err := t.Execute(&b, nil); err != nil {
			return nil, err
		}
		files[name] = []byte(b.String())
	}
	return files, nil
}
