package course

// The slides: one file that needs nothing else. Stages: for each lesson of the plan a slide with
// its title, what it begins with and its picture, and one with its question; all into a document
// whose only script turns the pages.

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"github.com/goroce/goroce/trace/learn"
)

// slide is one of them.
type slide struct {
	Kind     string // afternoon, unit, lesson, question
	Title    string
	Small    string // above the title
	Lines    []string
	Picture  template.HTML
	Question string
	Answers  []string
	Right    string
	Why      string
}

// Slides writes the slides of both afternoons.
func Slides(out io.Writer) error {
	var all []slide
	for i, a := range Plan {
		s := slide{Kind: "afternoon", Small: []string{"First afternoon", "Second afternoon"}[i], Title: a.Title}
		for _, u := range a.Units {
			s.Lines = append(s.Lines, u.What)
		}
		all = append(all, s)
		for _, u := range a.Units {
			unit, err := u.slides()
			if err != nil {
				return err
			}
			all = append(all, unit...)
		}
	}
	script, style := text("slides.js"), text("slides.css")
	return document.Execute(out, map[string]any{"Slides": all, "Script": template.JS(script),
		"Style": template.CSS(style),
		"Policy": "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) + "; base-uri " +
			"'none'"})
}

// slides of a unit: what it is, then two for each lesson.
func (u *Unit) slides() (all []slide, err error) {
	s := slide{Kind: "unit", Title: u.What}
	if u.Tasks != "" {
		s.Lines = []string{"Exercises: " + u.Tasks}
	}
	all = append(all, s)
	for _, name := range strings.Fields(u.Lessons) {
		l := learn.Find(name)
		p := l.Play(nil)
		shown := slide{Kind: "lesson", Small: "roce learn " + name, Title: l.Title}
		for _, passage := range learn.Passages(l.Text, p) {
			if shown.Lines = append(shown.Lines, passage.String()); len(shown.Lines) == 2 {
				break
			}
		}
		var picture strings.Builder
		if err := l.WriteSVG(&picture, p); err != nil {
			return nil, err
		}
		shown.Picture = template.HTML(picture.String())
		all = append(all, shown, slide{Kind: "question", Small: l.Title, Title: "Question", Question: l.Question,
			Answers: l.Answers,
			Right:   l.Answers[l.Right], Why: plain(l, l.Why)})
	}
	return all, nil
}

func text(name string) string {
	b, err := texts.ReadFile("text/" + name)
	if err != nil {
		panic(err) // it is embedded, or the program is not whole
	}
	return string(b)
}

// hash is what the policy knows a script or a style by.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var document = template.Must(template.New("slides").Parse(text("slides.html")))
