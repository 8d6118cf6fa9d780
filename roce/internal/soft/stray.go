package soft

// Strays: frames that arrive on another lane than that of their queue pair. And foreign frames,
// which are for another slot of the address. Ports steer most frames to the right one, not all
// (package transport says why), and datagrams to a group are for all lanes with a member.
//
// Stages: which lane a frame is for → the lane that received it hands a copy over and wakes → the
// other lane handles what is in its mailbox with its next turn. Other slots are other processes':
// what is for them is counted and shown to whoever wants it, who hands it to the device that has
// it (HandOver).
//
// What was handed over is never looked at again for where it belongs, so nothing can go round in
// circles. Frames of a queue pair that come both ways may overtake each other, as on any network.

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// mailFrames is how many frames wait in a mailbox at most, more than the windows of a few queue
// pairs. Beyond that they are lost, and counted.
const mailFrames = 512

// mailbox is two batches: one that the other lanes fill while the lane handles the other.
type mailbox struct {
	there atomic.Bool // filling holds frames

	mu      sync.Mutex
	filling *wire.Batch
	lent    *wire.Batch // the lane's
}

// put copies a frame; false: there is no room.
func (m *mailbox) put(f *wire.Frame) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filling == nil { // most lanes never see a stray
		m.filling, m.lent = wire.NewBatch(mailFrames, wire.FullBody), wire.NewBatch(mailFrames, wire.FullBody)
	}
	m.there.Store(true)
	return m.filling.Append(f) != nil
}

// take lends what was put, until the next take.
func (m *mailbox) take() []wire.Frame {
	if !m.there.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.there.Store(false)
	m.filling, m.lent = m.lent, m.filling
	m.filling.Reset()
	return m.lent.Frames()
}

// waiting tells whether there is mail; no mailbox has none.
func (m *mailbox) waiting() bool { return m != nil && m.there.Load() }

// What laneOf says of datagrams to a group, and of what is for another slot.
const (
	laneEvery = -1 - iota
	laneForeign
)

// laneOf is which of the lanes a frame is for. QP 0 and 1 are on the first of the first slot,
// whatever their numbers say. What is no packet is for whoever has it.
func laneOf(f *wire.Frame, here, lanes int, owner wire.QPNSpace) int {
	if len(f.Body) < wire.BTHLen {
		return here
	}
	qpn := (*wire.BTH)(f.Body).DestQP()
	switch {
	case qpn == wire.MulticastQPN:
		return laneEvery
	case !owner.Owns(qpn):
		return laneForeign
	case qpn <= wire.GSIQPN:
		return 0
	}
	return wire.LaneOf(qpn, lanes)
}

// keepOwn hands over what is for other lanes and returns the rest, in its order.
func (l *lane) keepOwn(in []wire.Frame) []wire.Frame {
	own, strays := 0, l.count.Strays
	for i := range in {
		f := &in[i]
		switch to := laneOf(f, l.index, len(l.dev.lanes), l.owner); to {
		case l.index:
		case laneEvery:
			if !l.handRound(f) {
				continue
			}
		case laneForeign:
			l.showForeign(f)
			continue
		default:
			l.handOver(f, l.dev.lanes[to])
			continue
		}
		if own != i {
			in[own] = *f
		}
		own++
	}
	if l.count.Strays != strays {
		for _, to := range l.dev.lanes {
			if to != l && to.mail.waiting() {
				to.carryOut(to.drive.Mail())
			}
		}
	}
	return in[:own]
}

// handOver puts a copy into another lane's mailbox.
func (l *lane) handOver(f *wire.Frame, to *lane) {
	l.count.Strays++
	if !to.mail.put(f) {
		l.count.StraysLost++
	}
}

// showForeign deals with what is for another slot.
func (l *lane) showForeign(f *wire.Frame) {
	l.count.Foreign++
	if l.dev.cfg.Foreign != nil {
		l.dev.cfg.Foreign(f)
	}
}

// HandOver takes in a copy of a frame that came to another device of the address, and was foreign
// there (Config.Foreign). False: there is no room, or no queue pair of this device is meant. Any
// goroutine may call it, until Close.
func (d *Device) HandOver(f *wire.Frame) bool {
	to := laneOf(f, laneForeign, len(d.lanes), d.lanes[0].owner)
	if to < 0 || d.lanes[to].mail == nil || !d.lanes[to].mail.put(f) {
		return false
	}
	d.lanes[to].carryOut(d.lanes[to].drive.Mail())
	return true
}

// handRound gives a datagram to a group to all lanes with members of that, and tells whether this
// is one of them. If none is, as where it is for no group at all, it counts what comes of it.
func (l *lane) handRound(f *wire.Frame) (mine bool) {
	lanes, own := l.dev.groups.lanesOf(f.Dst()), uint64(1)<<l.index
	for rest := lanes &^ own; rest != 0; rest &= rest - 1 {
		l.handOver(f, l.dev.lanes[bits.TrailingZeros64(rest)])
	}
	return lanes == 0 || lanes&own != 0
}

// memberships are the lanes with members of each multicast group.
type memberships struct {
	mu sync.RWMutex
	of map[wire.GID]*membership
}

type membership struct {
	attached [transport.MaxLanes]int // queue pairs
	lanes    uint64                  // bit i: lane i has any
}

// count has n queue pairs more of a lane in a group.
func (m *memberships) count(group wire.GID, l *lane, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of[group]
	if of == nil {
		of = new(membership)
		m.of[group] = of
	}
	of.attached[l.index] += n
	of.lanes &^= 1 << l.index
	if of.attached[l.index] > 0 {
		of.lanes |= 1 << l.index
	}
	if of.lanes == 0 {
		delete(m.of, group)
	}
}

// lanesOf are the lanes with members of a group; none if it is no group.
func (m *memberships) lanesOf(group wire.GID) uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if of := m.of[group]; of != nil {
		return of.lanes
	}
	return 0
}

// openMail handles what other lanes have handed over. It comes before what the port has just
// received, which is younger.
func (l *lane) openMail(t qp.Time) (frames int) {
	mail := l.mail.take()
	l.engine.HandleFrames(t, mail)
	return len(mail)
}

// helpLanes takes a turn of every lane that nobody polls.
func (d *Device) helpLanes() {
	if len(d.lanes) == 1 {
		return
	}
	for _, l := range d.lanes {
		if !l.inUse() && l.tryTurn() {
			l.turn(l.clock.read())
			l.release()
		}
	}
}
