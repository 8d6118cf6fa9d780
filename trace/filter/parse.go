package filter

// Words to a tree of tests. "or" binds less than "and", that less than "not", that less than a
// comparison. What a field is compared with is read here, so that whatever is wrong with it is said
// before a packet is looked at.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/trace"
)

// Filter is an expression that packets are held against. It is not for concurrent use.
type Filter struct {
	test  test
	slots map[string][]int // by field of package trace: which values it is one of
	heads map[string][]int // the same of headers
	names map[string]bool  // headers that are looked at

	begun  bool
	first  int64 // the time of the first packet
	packet *trace.Packet
	walked bool
	values [][]value // of the packet at hand
}

// test is a part of the expression.
type test func(f *Filter) bool

// Parse reads an expression. An empty one has all packets. The error is an *Error.
func Parse(expression string) (*Filter, error) {
	words, err := lex(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{expression: expression, words: words,
		f: &Filter{slots: map[string][]int{}, heads: map[string][]int{},
			names: map[string]bool{}}}
	if words[0].at == len(expression) && !words[0].quoted {
		p.f.test = func(*Filter) bool { return true }
		return p.f, nil
	}
	if p.f.test, err = p.or(0); err != nil {
		return nil, err
	}
	if !p.ended() {
		return nil, p.wrong(p.words[0], "%q is left over: join two tests by && or ||", p.words[0].text)
	}
	return p.f, nil
}

// maxDepth is how deep expressions may be nested.
const maxDepth = 100

type parser struct {
	expression string
	words      []word
	f          *Filter
}

func (p *parser) wrong(w word, format string, args ...any) error {
	return &Error{p.expression, w.at, fmt.Sprintf(format, args...)}
}

// ended says whether no word is left.
func (p *parser) ended() bool { return len(p.words) == 1 }

// take takes the next word if it is this operator.
func (p *parser) take(sign string) bool {
	if p.words[0].quoted || p.words[0].text != sign || p.ended() {
		return false
	}
	p.words = p.words[1:]
	return true
}

// word takes the next word, whatever it is.
func (p *parser) word() word {
	w := p.words[0]
	if !p.ended() {
		p.words = p.words[1:]
	}
	return w
}

func (p *parser) or(depth int) (test, error) { return p.joined(depth, "||", (*parser).and) }

func (p *parser) and(depth int) (test, error) { return p.joined(depth, "&&", (*parser).not) }

// joined reads tests with an operator between them.
func (p *parser) joined(depth int, sign string, part func(*parser, int) (test, error)) (test, error) {
	if depth > maxDepth {
		return nil, p.wrong(p.words[0], "nested deeper than %d", maxDepth)
	}
	first, err := part(p, depth)
	if err != nil {
		return nil, err
	}
	all := []test{first}
	for p.take(sign) {
		next, err := part(p, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, next)
	}
	if len(all) == 1 {
		return first, nil
	}
	decisive := sign == "||"
	return func(f *Filter) bool {
		for _, t := range all {
			if t(f) == decisive {
				return decisive
			}
		}
		return !decisive
	}, nil
}

func (p *parser) not(depth int) (test, error) {
	if depth > maxDepth {
		return nil, p.wrong(p.words[0], "nested deeper than %d", maxDepth)
	}
	if p.take("!") {
		inner, err := p.not(depth + 1)
		return func(f *Filter) bool { return !inner(f) }, err
	}
	open := p.words[0]
	if !p.take("(") {
		return p.comparison()
	}
	inner, err := p.or(depth + 1)
	if err == nil && !p.take(")") {
		err = p.wrong(open, "a parenthesis that is not closed")
	}
	return inner, err
}

// relations are what stands between a field and a value.
var relations = []string{"==", "!=", "<", ">", "<=", ">=", "contains", "in"}

func (p *parser) comparison() (test, error) {
	end := p.ended()
	w := p.word()
	x := fields[w.text]
	switch {
	case end:
		return nil, p.wrong(w, "the expression ends where a field is expected")
	case w.quoted || x == nil:
		return nil, p.wrong(w, "%q is no field%s", w.text, similar(w.text))
	}
	values := p.f.valuesOf(x)
	relation := p.words[0]
	if p.ended() || relation.quoted || !slices.Contains(relations, relation.text) {
		return func(f *Filter) bool { return len(values(f)) > 0 }, nil
	}
	p.word()
	if x.kind == present {
		return nil, p.wrong(relation, "%s is a header, which is there or not: it has no value", x.name)
	}
	if relation.text == "in" {
		return p.set(x, values)
	}
	return p.single(x, values, relation)
}

// single reads what a field is compared with.
func (p *parser) single(x *field, values func(*Filter) []value, relation word) (test, error) {
	if relation.text == "contains" {
		b, err := p.contained(x)
		return func(f *Filter) bool { return slices.ContainsFunc(values(f), b) }, err
	}
	ordered := relation.text != "==" && relation.text != "!="
	to, err := p.value(x, ordered)
	if err != nil {
		return nil, err
	}
	if relation.text == "!=" {
		return func(f *Filter) bool {
			all := values(f)
			return len(all) > 0 && !slices.ContainsFunc(all, func(v value) bool { return to.holds("==", v) })
		}, nil
	}
	return func(f *Filter) bool {
		return slices.ContainsFunc(values(f), func(v value) bool { return to.holds(relation.text, v) })
	}, nil
}

// set reads {1, 3..5}.
func (p *parser) set(x *field, values func(*Filter) []value) (test, error) {
	open := p.words[0]
	if !p.take("{") {
		return nil, p.wrong(open, "behind \"in\" comes a set, {1, 3..5}")
	}
	var members []test1
	for {
		low, err := p.value(x, false)
		if err != nil {
			return nil, err
		}
		member := func(v value) bool { return low.holds("==", v) }
		if dots := p.words[0]; p.take("..") {
			if x.kind == text || low.network() {
				return nil, p.wrong(dots, "%s has no ranges", x.name)
			}
			high, err := p.value(x, true)
			if err != nil {
				return nil, err
			}
			member = func(v value) bool { return low.holds(">=", v) && high.holds("<=", v) }
		}
		members = append(members, member)
		if p.take("}") {
			break
		}
		if w := p.words[0]; !p.take(",") {
			return nil, p.wrong(w, "in a set, a comma or } comes here")
		}
	}
	return func(f *Filter) bool {
		return slices.ContainsFunc(values(f), func(v value) bool {
			return slices.ContainsFunc(members, func(m test1) bool { return m(v) })
		})
	}, nil
}

// test1 is about one value.
type test1 = func(v value) bool

// similar names a field that is like a word.
func similar(name string) string {
	best, least := "", 1+len(name)/4
	for _, f := range Fields() {
		if d := distance(name, f, least); d <= least && (d < least || best == "") {
			best, least = f, d
		}
	}
	if best == "" {
		if _, last, ok := cutLast(name); ok {
			for _, f := range Fields() {
				if strings.HasSuffix(f, "."+last) {
					return fmt.Sprintf("; %s is one (roce trace decode --fields has them all)", f)
				}
			}
		}
		return "; roce trace decode --fields has them all"
	}
	return fmt.Sprintf("; %s is one", best)
}

func cutLast(name string) (before, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:], i >= 0
}

// distance is how many characters must be changed to make one name the other, up to a limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			here := diagonal
			if a[i] != b[j] {
				here = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], here
		}
	}
	return row[len(b)]
}
