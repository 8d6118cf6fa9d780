package learn

// Sentences that point at nothing, and are true only while a claim is: in a play that a student has
// changed they are marked with it. A sentence is known by some of its words.

import (
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

// binding is a sentence and what it needs.
type binding struct {
	words string
	claim Claim
}

// bindings are those of the lessons, by their names.
var bindings = map[string][]binding{
	"lost-packet": {{"It does not keep packet 3", fate(2, world.Lost)}, {"One lost packet has cost four", records("A", qp.RecordRetry, 1)}},
	"rnr":         {{"A's device waits so long", records("A", qp.RecordWait, 1)}, {"as long as 150 round trips", records("A", qp.RecordWait, 1)}},
}

// bound says why a sentence is not true of the changed play; "" if no claim that it is bound to
// says so.
func (d *doubt) bound(sentence string) string {
	for _, b := range bindings[d.Name] {
		if strings.Contains(sentence, b.words) && b.claim(d.after) != nil {
			return "here it is otherwise"
		}
	}
	return ""
}
