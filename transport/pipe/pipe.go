// Package pipe is an IP network in memory. Ports that open the same NAME are on one segment, each
// with addresses of its own.
//
// Stages of this file: the segments of the process; opening and closing; Send, which copies each
// frame into the queue of its receiver; Recv, which lends what is in the queue; groups.
//
// A queue is a ring of slots whose buffers are used again and again. A slot that Recv has lent is
// free again with the next Recv. When the queue of a receiver is full, Send stops there and
// returns, as on a network with flow control; the receiver wakes those that it kept waiting. Of
// several senders none may have more of the slots than are free, so that each finds one. Frames to
// an address that nobody has are dropped and counted.
package pipe

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/event"
	"github.com/goroce/goroce/transport/internal/gid"
	"github.com/goroce/goroce/transport/internal/park"
	"github.com/goroce/goroce/wire"
)

// pipeMTU is as on lo: every path MTU of RoCE fits.
const netMTU = 65536

// segments are the pipes of this process by name. A segment exists as long as it has a port.
var segments = struct {
	sync.Mutex
	byName map[string]*segment
}{byName: map[string]*segment{}}

type segment struct {
	mu     sync.RWMutex
	ports  map[wire.GID]*Port   // by address: the first lane of the port that has it
	groups map[wire.GID][]*Port // a port is listed once per join
}

// Port is a port of a segment.
type Port struct {
	name    string
	segName string
	seg     *segment
	*station
	qpns     wire.QPNSpace
	lanes    []*Port // of the same addresses, this one among them; nil if it is the only one
	parker   park.Parker
	closed   atomic.Bool
	counters count.Counters

	// mu guards the ring: senders take it for one frame, the receiver for one batch.
	mu     sync.Mutex
	ring   []slot
	head   uint64  // slots before this one are free
	lent   uint64  // slots from head to here are lent to the receiver
	tail   uint64  // slots from lent to here hold frames
	starve []*Port // senders that found no room
	claims []claim
}

// claim is what one sender has of a ring that others send to.
type claim struct {
	from *Port // nil: one that sends to groups, and does not wait
	held int   // slots
	// waits says that it has found no room, and sent nothing since.
	waits bool
}

// station is what the lanes of a port share.
type station struct {
	below *event.Output // what Info says of the link
	table gid.Table     // under seg.mu
	gone  []wire.GID    // what SetAddress has taken away; under seg.mu
}

type slot struct {
	from    *Port // whose claim it counts for
	head    [wire.HeadMax]byte
	headLen int
	body    []byte
	flags   wire.FrameFlags
}

// Open joins the segment of "pipe:NAME" at the lowest address from 10.0.0.1 on that is free, or
// that of "pipe:NAME/ADDRESS,ADDRESS..." at these addresses, with a port for each lane. It is a
// transport.Opener; the ports are *Port.
func Open(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	segName, gids, err := parse(where)
	if err != nil {
		return nil, &transport.OpenError{Name: name, Reason: err.Error()}
	}
	segments.Lock()
	defer segments.Unlock()
	seg := segments.byName[segName]
	if seg == nil {
		seg = &segment{ports: map[wire.GID]*Port{}, groups: map[wire.GID][]*Port{}}
	}
	seg.mu.Lock()
	defer seg.mu.Unlock()
	if len(gids) == 0 {
		gids = []wire.GID{seg.freeAddress()}
	}
	st := &station{}
	if err := seg.free(gids, nil); err != nil {
		return nil, &transport.OpenError{Name: name, Reason: fmt.Sprintf("%v on pipe %q", err, segName)}
	}
	st.below = event.New(event.Facts{Up: true, GIDs: st.table.Set(gids), MTU: netMTU})
	ports := make([]*Port, lanes)
	for i := range ports {
		ports[i] = &Port{
			name:    name,
			segName: segName,
			seg:     seg,
			station: st,
			qpns:    wire.QPNSpace{}.Lane(i, lanes),
			ring:    make([]slot, o.QueueLen),
		}
		ports[i].parker = park.New()
		if lanes > 1 {
			ports[i].lanes = ports
		}
	}
	for _, g := range gids {
		seg.ports[g] = ports[0]
	}
	segments.byName[segName] = seg
	return transport.Ports(ports), nil
}

// free is an error if a port other than except has one of the addresses.
func (s *segment) free(gids []wire.GID, except *Port) error {
	for _, g := range gids {
		if p := s.ports[g]; p != nil && p != except {
			return fmt.Errorf("another port of this process has the address %v", g.Addr())
		}
	}
	return nil
}

// laneOf is which port of p's address a frame is for.
func (p *Port) laneOf(f *wire.Frame) *Port {
	if p.lanes == nil {
		return p
	}
	return p.lanes[transport.LaneOf(f, len(p.lanes))]
}

// parse reads NAME or NAME/ADDRESS,ADDRESS...; a NAME with a slash in it needs an ADDRESS.
func parse(where string) (segName string, gids []wire.GID, err error) {
	segName = where
	if i := strings.LastIndexByte(where, '/'); i >= 0 {
		for text := range strings.SplitSeq(where[i+1:], ",") {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return "", nil, fmt.Errorf("%q is not an IP address; want pipe:NAME/ADDRESS,ADDRESS", text)
			}
			g := wire.GIDFrom(addr)
			if g.IsMulticast() || addr.IsUnspecified() {
				return "", nil, fmt.Errorf("%v can not be the address of a port", addr)
			}
			gids = append(gids, g)
		}
		segName = where[:i]
	}
	if segName == "" {
		return "", nil, errors.New("the pipe has no name; want pipe:NAME or pipe:NAME/ADDRESS")
	}
	return segName, gids, nil
}

// freeAddress is the lowest 10.0.x.y, from 10.0.0.1 on, that no port has.
func (s *segment) freeAddress() wire.GID {
	for n := 1; ; n++ {
		gid := wire.GIDFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
		if s.ports[gid] == nil {
			return gid
		}
	}
}

// Close takes the port off its segment, and with the first of several lanes the addresses. What is
// queued for it is lost; whoever waits for room in it goes on.
func (p *Port) Close() error {
	if p.closed.Swap(true) {
		return transport.ErrClosed
	}
	segments.Lock()
	p.seg.mu.Lock()
	for g, of := range p.seg.ports {
		if of == p { // the first of several lanes stands for all
			delete(p.seg.ports, g)
		}
	}
	for g, members := range p.seg.groups {
		p.seg.groups[g] = slices.DeleteFunc(members, func(m *Port) bool { return m == p })
	}
	if len(p.seg.ports) == 0 && segments.byName[p.segName] == p.seg {
		delete(segments.byName, p.segName)
	}
	p.seg.mu.Unlock()
	segments.Unlock()
	if p.first() {
		p.below.Close()
	}

	p.mu.Lock()
	p.releaseStarved()
	p.mu.Unlock()
	p.Wake()
	return nil
}

// Send puts each frame into the queue of the port that it is addressed to.
func (p *Port) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
	}
	bytes, dropped := 0, 0
	p.seg.mu.RLock()
	defer p.seg.mu.RUnlock()
	frames := b.Frames()
	var dst wire.GID // of the frame before: a batch has few
	var to *Port
	for i := range frames {
		f := &frames[i]
		if d := f.Dst(); d != dst {
			dst, to = d, p.seg.ports[d]
		}
		switch {
		case len(p.gone) > 0 && slices.Contains(p.gone, f.Src()):
			dropped++
		case dst.IsMulticast():
			p.seg.multicast(dst, f)
		case to == nil:
			dropped++
		case !to.laneOf(f).enqueue(f, p):
			p.counters.SendBlocked.Add(1)
			p.countSent(i, bytes, dropped)
			return i, nil
		}
		bytes += len(f.Body)
	}
	p.countSent(len(frames), bytes, dropped)
	return len(frames), nil
}

func (p *Port) countSent(frames, bytes, dropped int) {
	p.counters.Sent(frames-dropped, bytes)
	if dropped > 0 {
		p.counters.SendUnreachable.Add(uint64(dropped))
		p.counters.LastSendError.Store(&errNobody)
	}
}

var errNobody = errors.New("no port of the pipe has the address, or this one no longer has its own")

// multicast copies a frame to every member of a group, the sender's own port included. There is no
// flow control to a group: a member whose queue is full misses the frame.
func (s *segment) multicast(group wire.GID, f *wire.Frame) {
	members := s.groups[group]
	for i, m := range members {
		if slices.Index(members, m) == i && !m.enqueue(f, nil) {
			m.counters.RecvOverflow.Add(1)
		}
	}
}

// enqueue copies a frame into p's queue. If there is no room it returns false and notes that from
// waits for it.
func (p *Port) enqueue(f *wire.Frame, from *Port) bool {
	p.mu.Lock()
	if !p.admit(from) {
		if from != nil && !slices.Contains(p.starve, from) {
			p.starve = append(p.starve, from)
		}
		p.mu.Unlock()
		return false
	}
	s := &p.ring[p.tail%uint64(len(p.ring))]
	s.from = from
	s.headLen = copy(s.head[:], f.Head)
	if cap(s.body) < len(f.Body) {
		// There are few sizes, so that growing ends soon.
		s.body = make([]byte, max(256, 1<<bits.Len(uint(len(f.Body)))))
	}
	s.body = s.body[:copy(s.body[:cap(s.body)], f.Body)]
	s.flags = f.Flags
	first := p.tail == p.lent
	p.tail++
	p.mu.Unlock()
	// Otherwise a wake-up is under way already, or the receiver has not come back for the rest yet.
	if first {
		p.Wake()
	}
	return true
}

// admit says whether a sender gets a slot, and counts it. One that is alone may have all of them;
// of several, each as many as it leaves free. The caller holds p.mu.
func (p *Port) admit(from *Port) bool {
	c, free := p.claimOf(from), len(p.ring)-int(p.tail-p.head)
	if free == 0 || len(p.claims) > 1 && c.held >= free {
		c.waits = from != nil
		return false
	}
	c.held++
	c.waits = false
	return true
}

// claimOf is a sender's claim, which there is from then on. The caller holds p.mu.
func (p *Port) claimOf(from *Port) *claim {
	for i := range p.claims {
		if p.claims[i].from == from {
			return &p.claims[i]
		}
	}
	p.claims = append(p.claims, claim{from: from})
	return &p.claims[len(p.claims)-1]
}

// takeBack frees the slots that were lent, and forgets the claims that have come to an end. The
// caller holds p.mu.
func (p *Port) takeBack() {
	for ; p.head != p.lent; p.head++ {
		s := &p.ring[p.head%uint64(len(p.ring))]
		p.claimOf(s.from).held--
		s.from = nil
	}
	p.claims = slices.DeleteFunc(p.claims, func(c claim) bool {
		return c.held == 0 && (!c.waits || c.from.closed.Load())
	})
}

// Recv lends what is in the queue and takes back what it lent before.
func (p *Port) Recv(frames []wire.Frame) (n int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
	}
	p.mu.Lock()
	if p.head != p.lent {
		p.takeBack()
		p.releaseStarved()
	}
	for ; n < len(frames) && p.lent != p.tail; n++ {
		s := &p.ring[p.lent%uint64(len(p.ring))]
		frames[n] = wire.Frame{
			Head:  s.head[:s.headLen:s.headLen],
			Body:  s.body[:len(s.body):len(s.body)],
			Flags: s.flags,
		}
		p.lent++
	}
	p.mu.Unlock()
	p.counters.Received(frames[:n])
	return n, nil
}

// releaseStarved lets senders try again. The caller holds p.mu.
func (p *Port) releaseStarved() {
	for i, s := range p.starve {
		s.Wake()
		p.starve[i] = nil
	}
	p.starve = p.starve[:0]
}

// Wait returns at once if something is queued, or if senders wait for the slots that the next Recv
// will take back.
func (p *Port) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return transport.ErrClosed
	}
	p.mu.Lock()
	ready := p.lent != p.tail || len(p.starve) > 0
	p.mu.Unlock()
	if !ready {
		p.parker.Park(timeout)
	}
	return nil
}

// Wake ends a Wait.
func (p *Port) Wake() { p.parker.Unpark() }

// Info describes the port; there is no interface below it.
func (p *Port) Info() transport.Info {
	f := p.below.Facts()
	return transport.Info{
		Name:   p.name,
		Kind:   "pipe",
		GIDs:   f.GIDs,
		QPNs:   p.qpns,
		Up:     f.Up,
		NetMTU: f.MTU,
		MaxRun: 1,
		ICRC:   transport.ICRCFull,
	}
}

// Events implements transport.Notifier. Nothing happens below a pipe but by SetLink, SetMTU and
// SetAddress.
func (p *Port) Events() <-chan transport.Event {
	if !p.first() {
		return nil
	}
	return p.below.Events()
}

// first tells whether the port is the first of its lanes.
func (p *Port) first() bool { return p.lanes == nil || p.lanes[0] == p }

// SetLink has Info and Events tell that the link is up, or down. For tests of those who listen:
// packets pass as before. It may be called from any goroutine, like SetMTU and SetAddress, but the
// three not at once.
func (p *Port) SetLink(up bool) {
	f := p.below.Facts()
	f.Up = up
	p.below.Note(f)
}

// SetMTU has Info and Events tell another MTU, in bytes of an IP packet.
func (p *Port) SetMTU(mtu int) {
	f := p.below.Facts()
	f.MTU = mtu
	p.below.Note(f)
}

// SetAddress gives the port an address, or takes it away: what is sent from it or to it then is
// lost. The error is that another port has it.
func (p *Port) SetAddress(addr netip.Addr, there bool) error {
	p.seg.mu.Lock()
	defer p.seg.mu.Unlock()
	g, first := wire.GIDFrom(addr), p
	if p.lanes != nil {
		first = p.lanes[0]
	}
	if err := p.seg.free([]wire.GID{g}, first); err != nil {
		return err
	}
	is := func(other wire.GID) bool { return other == g || other.IsZero() }
	now := slices.DeleteFunc(p.table.GIDs(), is)
	p.gone = slices.DeleteFunc(p.gone, is)
	if there {
		now, p.seg.ports[g] = append(now, g), first
	} else {
		p.gone = append(p.gone, g)
		delete(p.seg.ports, g)
	}
	f := p.below.Facts()
	f.GIDs = p.table.Set(now)
	p.below.Note(f)
	return nil
}

// Stats returns the counters.
func (p *Port) Stats() transport.Stats { return p.counters.Stats() }

// JoinGroup implements Multicaster.
func (p *Port) JoinGroup(group wire.GID) error {
	if !group.IsMulticast() {
		return fmt.Errorf("transport: join %v: %w", group, transport.ErrNotMulticast)
	}
	p.seg.mu.Lock()
	defer p.seg.mu.Unlock()
	p.seg.groups[group] = append(p.seg.groups[group], p)
	return nil
}

// LeaveGroup implements Multicaster.
func (p *Port) LeaveGroup(group wire.GID) error {
	p.seg.mu.Lock()
	defer p.seg.mu.Unlock()
	i := slices.Index(p.seg.groups[group], p)
	if i < 0 {
		return fmt.Errorf("transport: leave %v: %w", group, transport.ErrNotJoined)
	}
	p.seg.groups[group] = slices.Delete(p.seg.groups[group], i, i+1)
	return nil
}
