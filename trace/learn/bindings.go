package learn

// Sentences of lessons that point at nothing, and what they need to be true: values in memory, what
// a device does how often. Stages: facts, with what a student is told if they are none; the table.

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// fact is a claim, and what is so if it is not true: "the counter is 16".
type fact struct {
	claim Claim
	here  func(p *world.Play) string
}

// binding is a sentence, known by some of its words, and what it needs.
type binding struct {
	words string
	fact
}

// place is where 8 bytes are.
type place struct {
	host, region string
	at           int
}

// values: numbers of 8 bytes in memory, in the end. say has a verb for each: "the counter is %d".
func values(say string, at []place, want ...uint64) fact {
	return fact{func(p *world.Play) error {
		for i, x := range at {
			if err := has(x.host, x.region, x.at, native(want[i])...)(p); err != nil {
				return err
			}
		}
		return nil
	}, func(p *world.Play) string {
		var is []any
		for _, x := range at {
			is = append(is, binary.NativeEndian.Uint64(p.Memory(x.host, x.region)[x.at:]))
		}
		return fmt.Sprintf(say, is...)
	}}
}

// unless: a claim whose contrary is always the same.
func unless(claim Claim, here string) fact {
	return fact{claim, func(*world.Play) string { return here }}
}

// often is how many times, if it is any.
func often(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// acts: a host's device does something so many times.
func acts(host string, kind qp.RecordKind, want int, verb string) fact {
	return fact{records(host, kind, want), func(p *world.Play) string {
		n := len(p.EntriesOf(host, kind.String()))
		if n == 0 {
			return fmt.Sprintf("%s's device never %s", host, verb)
		}
		return fmt.Sprintf("%s's device %s %s", host, verb, often(n))
	}}
}

// becomes: what becomes of a packet.
func becomes(n int, want world.Fate) fact {
	return fact{fate(n, want), func(p *world.Play) string {
		if n > len(p.Packets) {
			return fmt.Sprintf("there is no packet %d", n)
		}
		return fmt.Sprintf("packet %d is %s", n, p.Packets[n-1].Fate)
	}}
}

// discards: a host's device drops so many packets for a reason.
func discards(host string, reason wire.DropReason, want int, why string) fact {
	return fact{drops(host, reason, want), func(p *world.Play) string {
		n := 0
		for drops(host, reason, n)(p) != nil {
			n++
		}
		packets := fmt.Sprintf("%d packets", n)
		switch n {
		case 0:
			packets = "no packet"
		case 1:
			packets = "1 packet"
		}
		return fmt.Sprintf("%s's device drops %s %s", host, packets, why)
	}}
}

// behind: a host's device drops these packets, as one before them is missing.
func behind(host string, numbers ...int) fact {
	kept := func(p *world.Play) int { // the first that it does not drop so; 0: it drops all
		for _, n := range numbers {
			if !slices.ContainsFunc(p.EntriesOf(host, qp.RecordDropped.String()), func(e world.Entry) bool {
				return e.Packet == n && wire.DropReason(e.Record.Value) == wire.DropOutOfSequence
			}) {
				return n
			}
		}
		return 0
	}
	return fact{func(p *world.Play) error {
		if n := kept(p); n > 0 {
			return fmt.Errorf("packet %d is not dropped behind a gap, as it is in the lesson", n)
		}
		return nil
	}, func(p *world.Play) string {
		n := kept(p)
		if n <= len(p.Packets) && p.Packets[n-1].Fate != world.Delivered {
			return fmt.Sprintf("packet %d is %s", n, p.Packets[n-1].Fate)
		}
		return fmt.Sprintf("packet %d does not come behind a gap", n)
	}}
}

// knows: a host's device gets a request that it knows.
func knows(host string) fact {
	return unless(func(p *world.Play) error {
		if len(p.EntriesOf(host, qp.RecordDuplicate.String())) == 0 {
			return fmt.Errorf("%s knows no request, as it does in the lesson", host)
		}
		return nil
	}, fmt.Sprintf("no request comes to %s's device that it knows", host))
}

// The facts that several sentences need.
var (
	torn = values("the READ has version %d at the front and %d at the end", []place{{"A", "buf", 7100},
		{"A", "buf", 7108}}, 1, 2)
	added = values("A's device gets %d back", []place{{"A", "buf", 4096}}, 10)
	evil  = unless(has("B", "buf", 0, []byte("evil")...), "B's memory does not have \"evil\"")
)

// bindings are those of the lessons, by their names.
var bindings = map[string][]binding{
	"write": {{"Then the device writes them", unless(holds("B", "buf", 0, "A", "buf", 0, 32),
		"they are not in B's memory")}},
	"atomics": {{"brings 48, so now it is 1000", values("it is %d", []place{{"B", "buf", 64}}, 1000)}},
	"atomic-covers": {{"In between A's", added}, {"adds 5: it is 15", added}, {"brings back the 10", added},
		{"A's 5 are lost", values("the counter is %d at the end", []place{{"B", "buf", 0}}, 11)}},
	"uc": {{"the others are not", unless(has("B", "buf", 1024, make([]byte, 1976)...),
		"more than 1024 bytes of it are in B's memory")},
		{"It is taken as if nothing had happened", unless(holds("B", "buf", 4096, "A", "buf", 0, 8), "it is not at B")},
		{"1024 bytes are in B's memory", unless(holds("B", "buf", 0, "A", "buf", 0, 1024),
			"the first 1024 bytes are not in B's memory")}},
	"ud":        {{"It is dropped, too", discards("B", wire.DropNoRecv, 1, "for want of a receive")}},
	"multicast": {{"Its copy is dropped", discards("C", wire.DropNoRecv, 1, "for want of a receive")}},
	"rnr": {{"A's device waits.", acts("A", qp.RecordWait, 1, "waits")},
		{"as long as 150 round trips", acts("A", qp.RecordWait, 1, "waits")}},
	"lost-packet": {{"B's device gets packet 3", behind("B", 3)}, {"It does not keep packet 3", behind("B", 3, 4, 6)},
		{"One lost packet has cost four", acts("A", qp.RecordRetry, 1, "goes back")}},
	"lost-last": {{"B's device has seen PSN 1000", knows("B")}, {"It does not execute it again", knows("B")},
		{"A's device does not know whether", acts("A", qp.RecordProbe, 1, "asks")}},
	"lost-atomic": {{"It does not.", knows("B")}, {"It is executed, the counter is 11", becomes(1, world.Delivered)}},
	"retry-exceeded": {{"all that A sends is lost", becomes(1, world.Lost)},
		{"as often as its retry_cnt says", acts("A", qp.RecordGiveUp, 1, "gives up")}},
	"overtaken": {{"When the late packet comes at last", knows("B")}, {"is 20 us late", becomes(2, world.Delivered)}},
	"corrupted": {{"B's device computes another ICRC", unless(func(p *world.Play) error {
		if drops("B", wire.DropICRC, 0)(p) == nil {
			return fmt.Errorf("B's device drops no packet for its ICRC, as it does in the lesson")
		}
		return nil
	}, "no packet has another ICRC")}},
	"ecn": {{"Nothing was lost, and nothing was sent twice", acts("A", qp.RecordRetry, 0, "goes back")}},
	"torn-read": {{"B's program makes a new record", torn}, {"was read before that", torn},
		{"What A has is neither", torn}, {"sees that they differ", torn},
		{"Now it has 2 and 2", values("it has %d and %d", []place{{"A", "buf", 0}, {"A", "buf", 6992}}, 2, 2)}},
	"myth-pinned": {{"B's memory has the old first half", unless(has("B", "buf", 0, 1, 2, 3),
		"B has the new first half, too")}},
	"two-devices": {{"the counter ends at 12", values("it ends at %d", []place{{"B1", "buf", 0}}, 12)}},
	"capabilities": {{"B's device has no reason to doubt it", evil}, {"has a PSN that B has seen already", knows("B")},
		{"B takes it for a repetition", knows("B")}, {"its bytes are not there", evil}},
}

// bound says why a sentence is not true of the changed play; "" if no claim that it is bound to
// says so.
func (d *doubt) bound(sentence string) string {
	for _, b := range bindings[d.Name] {
		if strings.Contains(sentence, b.words) && b.claim(d.after) != nil {
			return "here " + b.here(d.after)
		}
	}
	return ""
}
