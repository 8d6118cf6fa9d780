package page

// The queues of a device that runs, as far as its records tell them. Stages: the entries of a
// device → which request has begun, which has completed, which state a queue pair is in → a moment
// for each change. What records do not tell is not shown: requests that the device has not taken
// yet, receives, and what lies in a completion queue.

import (
	"cmp"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// Bounds of what is kept: each page that follows gets all of it with each change.
const (
	maxChanges  = 200
	maxRequests = 32 // of a queue pair
)

// change is what the queue pairs of a device are like from a time on.
type change struct {
	time  int64 // as in Live's entries
	host  string
	pairs []world.QPState
}

// queues are those of all devices, by address.
type queues struct {
	now     map[string][]world.QPState
	changes []change
}

// take follows a record. at is its time.
func (q *queues) take(host string, at int64, r *qp.Record) {
	pairs := q.now[host]
	i := slices.IndexFunc(pairs, func(p world.QPState) bool { return p.QPN == r.QPN })
	if i < 0 {
		if r.Kind != qp.RecordState && r.Kind != qp.RecordRequest {
			return
		}
		i, pairs = len(pairs), append(pairs, world.QPState{QPN: r.QPN, SQ: []world.WorkRequest{}})
	}
	p := &pairs[i]
	switch r.Kind {
	case qp.RecordState:
		if p.State = qp.QPState(r.Op).String(); qp.QPState(r.Op) == qp.StateReset {
			p.SQ = []world.WorkRequest{}
		}
	case qp.RecordRequest:
		p.SQ = append(p.SQ[max(0, len(p.SQ)-maxRequests+1):], world.WorkRequest{
			WRID:     r.Value,
			Op:       qp.WROpcode(r.Op).String(),
			Length:   int(r.Length),
			State:    "sent",
			Signaled: true,
		})
	case qp.RecordCompletion:
		if qp.WCOpcode(r.Op) >= qp.WCRecv {
			return
		}
		done := slices.IndexFunc(p.SQ, func(w world.WorkRequest) bool { return w.WRID == r.Value })
		p.SQ = p.SQ[done+1:]
	default:
		return
	}
	q.now[host] = pairs
	c := change{at, host, slices.Clone(pairs)}
	for i := range c.pairs {
		c.pairs[i].SQ = slices.Clone(c.pairs[i].SQ)
	}
	q.changes = append(q.changes[max(0, len(q.changes)-maxChanges+1):], c)
}

// moments are the changes as the page draws them, for hosts in their order.
func (q *queues) moments(hosts []host) (all []world.Moment) {
	changes := slices.Clone(q.changes)
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	now := map[string][]world.QPState{}
	for _, c := range changes {
		now[c.host] = c.pairs
		m := world.Moment{Time: c.time, Hosts: make([]world.HostState, len(hosts))}
		for i, h := range hosts {
			m.Hosts[i] = world.HostState{QPs: slices.Clone(now[h.Name])}
		}
		all = append(all, m)
	}
	return all
}

// Restart says that what runs begins anew: its devices are others.
func (l *Live) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.queues.now)
}

// Did takes what a device has recorded since the last call. The Node of each entry is its address.
func (l *Live) Did(entries []timeline.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b timeline.Entry) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), world.Order(&a.Record)-world.Order(&b.Record))
	})
	var turn arrival
	for i := range entries {
		x := &entries[i]
		l.w.begin(x.Time)
		turn.follow(l, x)
		l.queues.take(x.Node, x.Time-l.w.first, &x.Record)
		switch x.Record.Kind {
		case qp.RecordSent, qp.RecordReceived: // the packets say it
		default:
			l.note(world.Entry{
				Time: x.Time - l.w.first,
				Host: l.w.columns.Of(x.Node),
				Kind: x.Record.Kind.String(),
				QPN:  x.Record.QPN,
				Text: world.RecordWords(&x.Record),
			})
		}
	}
	l.tell()
}

// arrival is the packet that a device's turn began with, as far as it is known. The one who hands
// packets over looks at the clock after the device has: what the packet has led to is not shown
// before it.
type arrival struct {
	node string
	at   int64 // of the turn, by the device's clock
	late int64 // by how much the packet's time is behind that
}

// follow moves a record behind the packet that its turn began with.
func (a *arrival) follow(l *Live, x *timeline.Entry) {
	if x.Record.Kind == qp.RecordReceived {
		*a = arrival{node: x.Node, at: x.Time}
		for i := len(l.w.packets) - 1; i >= 0; i-- {
			p := &l.w.packets[i]
			if p.Sent < x.Time-l.w.first {
				break
			}
			if p.QPN == x.Record.QPN && p.PSN == uint32(x.Record.PSN) && p.Op == wire.Opcode(x.Record.Op).String() {
				a.late = p.Sent - (x.Time - l.w.first) + 1
			}
		}
	}
	if x.Node == a.node && x.Time == a.at {
		x.Time += a.late
	}
}
