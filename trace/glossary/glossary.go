// Package glossary explains the terms that the lessons bring (package trace/learn), each in words
// that a reader knows by then. The lessons' page shows an explanation where its term is new and
// wherever a reader points at it; "roce trace explain" says the same.
//
//	glossary.go   finding terms in a text
//	terms.go      the table
package glossary

import (
	"slices"
	"strings"

	"github.com/goroce/goroce/trace"
)

// Term is a term and what it means.
type Term struct {
	Name  string `json:"name"`
	Means string `json:"means"`

	forms string // other forms of it, with | between them
}

// All returns every term: the table, then the statuses and events, whose words are package trace's.
func All() []Term { return slices.Clone(all) }

var all = func() (all []Term) {
	all = append(all, terms...)
	for _, t := range trace.Topics() {
		if t.Kind == "completion status" || t.Kind == "event" {
			all = append(all, Term{Name: t.Name, Means: t.Means})
		}
	}
	return all
}()

// Find returns a term by its name, in whatever case; nil if there is none.
func Find(name string) *Term {
	name = strings.TrimSpace(name)
	i := slices.IndexFunc(all, func(t Term) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Use is where a text uses a term.
type Use struct {
	Name       string
	Begin, End int // of the term in the text, in bytes
}

// form is how a term may stand in a text.
type form struct{ name, text string }

// forms are those that begin with a word, by it in small letters, the longest first.
var forms = func() map[string][]form {
	all := map[string][]form{}
	for _, t := range All() {
		for _, text := range append(strings.Split(t.forms, "|"), t.Name) {
			if text != "" {
				first := strings.ToLower(text[:wordEnd(text, 0)])
				all[first] = append(all[first], form{t.Name, text})
			}
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b form) int { return len(b.text) - len(a.text) })
	}
	return all
}()

// wordEnd is where the word ends that begins at a place, without the s of a plural.
func wordEnd(text string, at int) int {
	end := at
	for end < len(text) && isWord(text[end]) {
		end++
	}
	return end
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// In returns the uses of terms in a text, in order. What the table writes small may begin a
// sentence, and a term may be plural.
func In(text string) (uses []Use) {
	for at := 0; at < len(text); {
		if !isWord(text[at]) {
			at++
			continue
		}
		end := wordEnd(text, at)
		word := strings.ToLower(text[at:end])
		found := false
		for _, f := range slices.Concat(forms[word], forms[strings.TrimSuffix(word, "s")]) {
			if n := f.begins(text[at:]); n > 0 {
				uses = append(uses, Use{f.name, at, at + n})
				at, found = at+n, true
				break
			}
		}
		if !found {
			at = end
		}
	}
	return uses
}

// begins is how many bytes of a text are the form, 0: it does not begin with it.
func (f *form) begins(text string) int {
	n := len(f.text)
	if len(text) < n || text[1:n] != f.text[1:] || text[0] != f.text[0] &&
		text[:1] != strings.ToUpper(f.text[:1]) {
		return 0
	}
	if n < len(text) && text[n] == 's' {
		n++
	}
	if n < len(text) && isWord(text[n]) {
		return 0
	}
	return n
}
