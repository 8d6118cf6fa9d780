package learn

// Which sentences need what. A sentence that points at a packet that is lost now is true all the
// same if it is about who sends it. One that points at nothing may be bound to a claim.

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var (
	// sending are words of sentences about what somebody sends, receiving of those that are true
	// only if it has come.
	sending = regexp.MustCompile(`(?i)\b(makes?|sends?|leaves?|answers?|three packets|no payload|whole message|no trace|` +
		`carr(y|ies)|READs|as in|follows|knows no address|has all|are packets that|names a key|has a wrong|` +
		`says (once|so|again)|A? ?writes( with it)?:|has the new ones|on its way already)\b`)
	receiving = regexp.MustCompile(`(?i)\b(arriv\w+|comes|came|has come|executed|finds|brings|shows|gets|is taken|takes it|` +
		`goes straight|are quick|round trip|after packet|adds)\b`)
)

// isOfSender says whether a sentence is about who sends, and not about who receives.
func isOfSender(sentence string) bool {
	return sending.MatchString(sentence) && !receiving.MatchString(sentence)
}

// binding is a sentence, known by some of its words, and what it needs.
type binding struct {
	words string
	claim Claim
}

// bindings are those of the lessons, by their names.
var bindings = map[string][]binding{
	"write":   {{"Then it writes them", holds("B", "buf", 0, "A", "buf", 0, 32)}},
	"atomics": {{"It was 48, so now it is 1000", has("B", "buf", 64, native(1000)...)}},
	"uc": {{"the others are not", has("B", "buf", 1024, make([]byte, 1976)...)},
		{"1024 bytes are in B's memory", holds("B", "buf", 0, "A", "buf", 0, 1024)}},
	"rnr": {{"A's device waits so long", records("A", qp.RecordWait, 1)},
		{"as long as 150 round trips", records("A", qp.RecordWait, 1)}},
	"lost-packet": {{"It does not keep packet 3", fate(2, world.Lost)},
		{"One lost packet has cost four", records("A", qp.RecordRetry, 1)}},
	"lost-last": {{"B's device has seen PSN 1000", repeated("B", 1)}, {"It does not execute it again", repeated("B",
		1)},
		{"A's device does not know whether", records("A", qp.RecordProbe, 1)}},
	"lost-atomic": {{"It does not.", repeated("B", 1)}},
	"retry-exceeded": {{"all that A sends is lost", fate(1, world.Lost)}, {"three times more", records("A",
		qp.RecordGiveUp, 1)}},
	"overtaken": {{"When the late packet comes at last", repeated("B", 1)}, {"is 20 us late", fate(2,
		world.Delivered)}},
	"corrupted": {{"B's device computes another ICRC", drops("B", wire.DropICRC, 1)}},
	"ecn":       {{"Nothing was lost, and nothing was sent twice", records("A", qp.RecordRetry, 0)}},
}

// repeated: a host's device gets at least so many requests that it knows.
func repeated(host string, least int) Claim {
	return func(p *world.Play) error {
		if n := len(p.EntriesOf(host, qp.RecordDuplicate.String())); n < least {
			return fmt.Errorf("%s knows %d requests, of %d in the lesson", host, n, least)
		}
		return nil
	}
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
