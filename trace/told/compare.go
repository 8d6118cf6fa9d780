package told

// Two plays side by side. Stages: which packets were changed, and whose they are → what devices did
// in one play and not in the other (news, gone) → packets that answer, and packets that are sent
// again.

import (
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// comparison is two plays, and how they differ.
type comparison struct {
	before, after *world.Play
	changes       []world.Change
	changed       []*world.Packet // of after: what the student's changes were done to
	news          []*world.Entry  // of after, in the order of time: what devices did not do before
	gone          []*world.Entry  // of before: what they do not do now
}

// deed is what makes two entries the same, whenever they are.
type deed struct {
	kind  string
	host  int
	qpn   uint32
	psn   wire.PSN
	op    uint8
	value uint64 // of what is dropped: the reason
	event qp.EventType
}

func deedOf(e *world.Entry) deed {
	d := deed{kind: e.Kind, host: e.Host, qpn: e.QPN, psn: e.Record.PSN, op: e.Record.Op, event: e.Event}
	if e.Record.Kind == qp.RecordDropped {
		d.value = e.Record.Value
	}
	if e.Record.Kind == qp.RecordCompletion {
		d.value = e.Record.Value<<8 | uint64(e.Record.Length) // wr_id and status
	}
	return d
}

// does says whether an entry is something that a device does, and not its program.
func does(e *world.Entry) bool { return e.Record.Kind != 0 || e.Async }

func compare(before, after *world.Play, changes []world.Change) *comparison {
	c := &comparison{before: before, after: after, changes: changes}
	for _, x := range changes {
		if x.Packet <= len(after.Packets) {
			c.changed = append(c.changed, &after.Packets[x.Packet-1])
		}
	}
	slices.SortFunc(c.changed, func(a, b *world.Packet) int { return a.N - b.N })
	c.news, c.gone = differ(before, after)
	if near := c.near(c.news); len(near) > 0 {
		c.news = near
	}
	if near := c.near(c.gone); len(near) > 0 {
		c.gone = near
	}
	return c
}

// differ finds the entries that only one of two plays has. Those of the same time are the same
// first; what is left may have moved.
func differ(before, after *world.Play) (news, gone []*world.Entry) {
	type place struct {
		deed
		time int64
	}
	at := map[place]int{}
	for i := range before.Entries {
		if e := &before.Entries[i]; does(e) {
			at[place{deedOf(e), e.Time}]++
		}
	}
	var moved []*world.Entry
	for i := range after.Entries {
		e := &after.Entries[i]
		if p := (place{deedOf(e), e.Time}); !does(e) {
			continue
		} else if at[p] > 0 {
			at[p]--
		} else {
			moved = append(moved, e)
		}
	}
	left := map[deed][]*world.Entry{}
	for i := len(before.Entries) - 1; i >= 0; i-- {
		if e := &before.Entries[i]; does(e) && at[place{deedOf(e), e.Time}] > 0 {
			at[place{deedOf(e), e.Time}]--
			left[deedOf(e)] = append(left[deedOf(e)], e) // the latest first
		}
	}
	for _, e := range moved {
		if list := left[deedOf(e)]; len(list) > 0 {
			left[deedOf(e)] = list[:len(list)-1]
			continue
		}
		news = append(news, e)
	}
	for _, list := range left {
		gone = append(gone, list...)
	}
	slices.SortStableFunc(gone, func(a, b *world.Entry) int {
		if a.Time != b.Time {
			return int(a.Time - b.Time)
		}
		return strings.Compare(a.Kind+a.Text, b.Kind+b.Text)
	})
	return news, gone
}

// near are the entries of the queue pairs that the changed packets went between.
func (c *comparison) near(all []*world.Entry) (some []*world.Entry) {
	for _, e := range all {
		if slices.ContainsFunc(c.changed, func(p *world.Packet) bool {
			return e.QPN == p.QPN || e.QPN != 0 && e.QPN == c.sender(p)
		}) {
			some = append(some, e)
		}
	}
	return some
}

// sender is the queue pair that a packet comes from; 0: it has no one peer.
func (c *comparison) sender(p *world.Packet) uint32 {
	for _, q := range c.after.Hosts[p.From].QPs {
		if q.Peer == p.QPN && p.QPN != 0 {
			return q.QPN
		}
	}
	return 0
}

// pair is a queue pair of a host.
func (c *comparison) pair(host int, qpn uint32) world.QPInfo {
	for _, q := range c.after.Hosts[host].QPs {
		if q.QPN == qpn {
			return q
		}
	}
	return world.QPInfo{}
}

// service is what a packet belongs to: "RC", "UC", "UD".
func service(p *world.Packet) string { return strings.SplitN(p.Op, " ", 2)[0] }

// of says what becomes of a packet of the play without the change that is the same as p: nil, if
// there is none at its number.
func (c *comparison) twin(p *world.Packet) *world.Packet {
	if p.N > len(c.before.Packets) {
		return nil
	}
	x := &c.before.Packets[p.N-1]
	if x.From != p.From || x.To != p.To || x.QPN != p.QPN || x.PSN != p.PSN || x.Op != p.Op {
		return nil
	}
	return x
}

// outgoing is the first packet that a queue pair sends from a time on of which want says yes.
func (c *comparison) outgoing(host int, qpn uint32, from int64, want func(p *world.Packet) bool) *world.Packet {
	peer := c.pair(host, qpn).Peer
	for i := range c.after.Packets {
		p := &c.after.Packets[i]
		if p.From == host && p.QPN == peer && p.Sent >= from && want(p) {
			return p
		}
	}
	return nil
}

// repeated are the packets that a queue pair sends from a time up to another although it has sent
// their PSNs before.
func (c *comparison) repeated(host int, qpn uint32, from, to int64) (all []*world.Packet) {
	peer := c.pair(host, qpn).Peer
	seen := map[uint32]bool{}
	for i := range c.after.Packets {
		p := &c.after.Packets[i]
		if p.From != host || p.QPN != peer || p.Kind != "request" {
			continue
		}
		if (seen[p.PSN] || c.rest(p, qpn)) && p.Sent >= from && p.Sent < to {
			all = append(all, p)
		}
		seen[p.PSN] = true
	}
	return all
}

// rest says whether a packet asks for the rest of a READ that has been asked for: no request of the
// program begins with its PSN.
func (c *comparison) rest(p *world.Packet, qpn uint32) bool {
	return labelled(p, "RDMA_READ") && !slices.ContainsFunc(c.after.Entries, func(e world.Entry) bool {
		return e.Record.Kind == qp.RecordRequest && e.QPN == qpn && uint32(e.Record.PSN) == p.PSN
	})
}

// never is later than anything.
const never = int64(1) << 62

// decides says of an entry that its device sends something again, or stops to.
func decides(e *world.Entry) bool {
	switch e.Record.Kind {
	case qp.RecordRetry, qp.RecordProbe, qp.RecordGap, qp.RecordWait, qp.RecordGiveUp:
		return true
	}
	return false
}

// until is when the queue pair of an entry next decides something; never, if it does not.
func (c *comparison) until(e *world.Entry) int64 {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Time > e.Time && x.Host == e.Host && x.QPN == e.QPN && decides(x) {
			return x.Time
		}
	}
	return never
}

// label is what a packet is: "SEND_ONLY", "ACK".
func labelled(p *world.Packet, begins string) bool { return strings.HasPrefix(p.Label, begins) }

// later says whether a PSN is at or behind another, in the circle of them.
func atOrBehind(a, b uint32) bool { return wire.PSN(a).Sub(wire.PSN(b)) >= 0 }
