package filter

// The text to words. A word is a name, a value or an operator; a text in quotation marks is a value
// only.

import (
	"fmt"
	"strings"
)

// Error says what is wrong with an expression.
type Error struct {
	Expression string
	At         int // where, in bytes from its beginning
	What       string
}

// Error names the place by the character, from 1 on.
func (e *Error) Error() string {
	return fmt.Sprintf("filter: %s (at character %d of %q)", e.What, len([]rune(e.Expression[:e.At]))+1,
		cut(e.Expression))
}

// cut shortens what a user wrote to what a line has room for.
func cut(s string) string {
	const most = 200
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// word is a piece of an expression.
type word struct {
	text   string
	at     int
	quoted bool
}

// plain are the characters of names and values.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-"

// signs are the operators that are no words, longer ones before those that they begin with.
var signs = []string{"==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "!", "(", ")", "{", "}", ","}

// sameSign are the words for them.
var sameSign = map[string]string{"eq": "==", "ne": "!=", "le": "<=", "ge": ">=", "lt": "<", "gt": ">", "and": "&&",
	"or": "||", "not": "!"}

// lex splits an expression. The last word is an empty one.
func lex(expression string) (words []word, err error) {
	for at := 0; ; {
		for at < len(expression) && strings.IndexByte(" \t\r\n", expression[at]) >= 0 {
			at++
		}
		if at == len(expression) {
			return append(words, word{at: at}), nil
		}
		w, end, err := next(expression, at)
		if err != nil {
			return nil, err
		}
		words = append(words, w)
		at = end
	}
}

// next is the word that begins at a place, and where it ends.
func next(expression string, at int) (w word, end int, err error) {
	rest := expression[at:]
	if rest[0] == '"' {
		return quoted(expression, at)
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			return word{text: s, at: at}, at + len(s), nil
		}
	}
	n := 0
	for n < len(rest) && strings.IndexByte(plain, rest[n]) >= 0 && !strings.HasPrefix(rest[n:], "..") {
		n++
	}
	if n == 0 {
		r := []rune(rest)[0]
		return w, 0, &Error{expression, at, fmt.Sprintf("%q begins neither a name nor a value nor an operator", r)}
	}
	w = word{text: rest[:n], at: at}
	if s := sameSign[w.text]; s != "" {
		w.text = s
	}
	return w, at + n, nil
}

// quoted reads a text in quotation marks, in which \ stands before a mark or another \.
func quoted(expression string, at int) (w word, end int, err error) {
	var b strings.Builder
	for i := at + 1; i < len(expression); i++ {
		switch c := expression[i]; {
		case c == '"':
			return word{text: b.String(), at: at, quoted: true}, i + 1, nil
		case c == '\\' && i+1 < len(expression):
			i++
			b.WriteByte(expression[i])
		default:
			b.WriteByte(c)
		}
	}
	return w, 0, &Error{expression, at, "a quotation mark that is not closed"}
}
