package trace

// What a number or a name that RDMA programs print means, its usual causes, and where to look:
// completion statuses, syndromes, asynchronous events, events of librdmacm, reasons for which a
// packet is dropped, counters, and why the connection manager refuses. The tables are in
// statuses.go, events.go, counters.go and connecting.go.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Topic is something that can be explained.
type Topic struct {
	Kind   string   // as topicWords has them, "drop counter" and "counter"
	Name   string   // "IBV_WC_REM_ACCESS_ERR"
	Number int      // -1: it has none
	Means  string   // a sentence or two
	Causes []string // the usual ones, the most usual first
	Look   []string // where to look, what to try
}

// Topics returns all that ExplainStatus knows.
func Topics() []Topic {
	var all []Topic
	for _, table := range [][]Topic{statuses, syndromes, events, cmEvents, rejections(), sidrAnswers(), drops(),
		counters()} {
		all = append(all, table...)
	}
	return all
}

// drops makes topics of the counters of packets that go no further.
func drops() (all []Topic) {
	for r := wire.DropNone + 1; r < wire.NumDropReasons; r++ {
		all = append(all, Topic{Kind: "drop counter", Name: r.String(), Number: -1,
			Means: "Packets that arrived and went no further: " + r.Explain() +
				". Their sender hears nothing of it; of a reliable connection it repeats them.", Causes: dropCauses[r]})
	}
	return all
}

// kinds of topics by the words that may stand before a number: "event 3".
var topicWords = map[string]string{"status": "completion status", "wc": "completion status",
	"wc_status": "completion status", "syndrome": "syndrome", "nak": "syndrome", "event": "event", "async": "event",
	"cm": "rdma_cm event", "cm_event": "rdma_cm event", "rdma_cm": "rdma_cm event", "rdma_cm_event": "rdma_cm event",
	"sidr": "SIDR status", "reject": "rejection", "rej": "rejection", "reason": "rejection"}

// ExplainStatus explains what a program printed: "IBV_WC_REM_INV_REQ_ERR", "rem_inv_req_err", 9,
// "syndrome 0x61", "0x61" (a syndrome), "event 3", "IBV_EVENT_QP_FATAL", "rx_icrc_errors", "rej
// 28", "cm 8", "RDMA_CM_EVENT_REJECTED", "sidr 1". A number alone is a completion status, one that
// begins with 0x a syndrome. It returns false if it knows no such thing.
func ExplainStatus(what string) (string, bool) {
	kind, number := topicNumber(what)
	name := plainName(what)
	var out strings.Builder
	for _, t := range Topics() {
		if kind != "" && t.Kind == kind && t.Number == number || kind == "" && t.hasName(name) {
			t.write(&out)
		}
	}
	if out.Len() == 0 && kind == "syndrome" && number < 256 {
		t := Topic{
			Kind:   kind,
			Name:   wire.Syndrome(number).String(),
			Number: number,
			Means:  upperFirst(syndromeMeans(nil, uint64(number))) + ".",
		}
		t.write(&out)
	}
	return out.String(), out.Len() > 0
}

// topicNumber reads "9", "0x61", "event 3"; kind is "" if there is no number.
func topicNumber(what string) (kind string, number int) {
	words := strings.Fields(strings.ToLower(what))
	if len(words) == 0 || len(words) > 2 {
		return "", 0
	}
	digits := words[len(words)-1]
	n, err := strconv.ParseUint(digits, 0, 8)
	switch {
	case err != nil:
		return "", 0
	case len(words) == 2:
		return topicWords[words[0]], int(n)
	case strings.HasPrefix(digits, "0x") && len(digits) <= 4:
		return "syndrome", int(n)
	case len(digits) <= 2:
		return "completion status", int(n)
	}
	return "", 0
}

// plainName leaves out what people leave out: prefixes, case, separators.
func plainName(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	for _, prefix := range []string{"ibv_wc_", "ibv_event_", "ib_wc_", "ib_event_", "rdma_cm_event_", "rej:", "sidr:",
		"wc", "drop_", "vport_"} {
		s = strings.TrimPrefix(s, prefix)
	}
	return strings.NewReplacer("_", "", " ", "", "-", "").Replace(s)
}

// hasName says whether the topic goes by a plain name, or by the words that libibverbs prints.
func (t *Topic) hasName(name string) bool {
	words := t.Kind == topicWords["status"] && plainName(qp.WCStatus(t.Number).String()) == name
	return name != "" && (plainName(t.Name) == name || words)
}

func (t *Topic) write(out *strings.Builder) {
	if out.Len() > 0 {
		out.WriteByte('\n')
	}
	fmt.Fprintf(out, "%s", t.Name)
	if t.Number >= 0 && t.Kind == "syndrome" {
		fmt.Fprintf(out, " (%s 0x%02x)", t.Kind, t.Number)
	} else if t.Number >= 0 {
		fmt.Fprintf(out, " (%s %d)", t.Kind, t.Number)
	} else {
		fmt.Fprintf(out, " (%s)", t.Kind)
	}
	fmt.Fprintf(out, "\n  %s\n", t.Means)
	for _, list := range []struct {
		title string
		items []string
	}{{"usual causes", t.Causes}, {"where to look", t.Look}} {
		if len(list.items) > 0 {
			fmt.Fprintf(out, "  %s:\n", list.title)
		}
		for _, item := range list.items {
			fmt.Fprintf(out, "    - %s\n", item)
		}
	}
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
