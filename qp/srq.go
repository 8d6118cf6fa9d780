package qp

// The shared receive queue: receive requests that belong to no queue pair until the first packet of
// a message claims one. Queue pairs of any type and of any lane of a device may share one.
//
// Stages: the object and its sizes → the application posts (PostRecv) → a responder claims the
// oldest request (claim, from receives.go) and gives its slot back when the message has ended
// (release), in whatever order messages end, or the request itself if the message came to nothing
// (putBack) → the application resizes the queue and arms its limit (Modify).
//
// A slot is in one of three places: spare, posted, or with the message that has claimed it. The
// first two are lists, so that nothing has to move when the queue is resized. Lanes are threads of
// their own, so both lists are under a lock: it is held for some ten instructions, once for a claim
// and once for a release.
//
// A message that has begun owns its request until it ends, and a peer may let none of them end. So
// messages that are half there have no more of the queue than leaves the other sources their share
// (mayHold, section 14). A message of one packet holds nothing.

import (
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// SRQInit is what NewSRQ needs (ibv_srq_init_attr).
type SRQInit struct {
	Memory *mr.Table // of the device
	PD     mr.PD     // whose memory the requests name; queue pairs may be of others
	MaxWR  uint32    // work requests, 1..MaxSRQWR
	MaxSGE uint32    // elements a request, 0..MaxSGE
	Limit  uint32    // see SRQAttr; 0..MaxWR
	// Yield lets others run while another lane, or who posts, has the queue for a moment; nil if
	// nothing runs beside the caller
	Yield   func()
	Context any // the owner's own value, for events

	// XRCD makes it one of XRC (IBV_SRQT_XRC), which requests name by its Number, 24 bits
	XRCD   XRCD
	Number uint32
}

// SRQAttr holds the attributes of a shared receive queue (ibv_srq_attr).
type SRQAttr struct {
	MaxWR  uint32 // work requests that may be outstanding: posted, or in use by a message
	MaxSGE uint32 // elements a request; fixed when the queue is made
	// Limit arms EventSRQLimit: it is raised once when fewer than that many requests are left that
	// no message has claimed, and is disarmed then. 0: it is not armed.
	Limit uint32
}

// SRQAttrMask says which fields of an SRQAttr a Modify sets (ibv_srq_attr_mask).
type SRQAttrMask uint32

// Attribute mask bits.
const (
	SRQMaxWR SRQAttrMask = 1 << 0
	SRQLimit SRQAttrMask = 1 << 1
)

// SRQ is a shared receive queue (ibv_srq). All methods may be called from any goroutine, while the
// engines of the device use the queue; calls of Modify must not overlap.
type SRQ struct {
	context any
	xrcd    XRCD
	number  uint32
	mem     *mr.Table
	pd      mr.PD
	maxSGE  uint32
	users   atomic.Int32 // queue pairs

	_        [cacheLine]byte
	spinLock // of what follows
	// posted, oldest first
	first, last *sharedSlot
	posted      uint32
	spare       *sharedSlot
	spares      uint32
	maxWR       uint32 // slots there are
	limit       uint32
	sharers     map[wire.GID]*sharer
	held        uint32 // by all of them
}

// sharer is a source, a peer's address, that queue pairs which share the queue are connected to.
type sharer struct {
	pairs uint32 // those queue pairs, of any lane
	held  uint32 // requests that messages of theirs have that are half there
}

// sharedSlot is the place of a receive work request.
type sharedSlot struct {
	recvSlot
	sges   []SGE // room for maxSGE
	next   *sharedSlot
	holder *sharer // of the message that has it, if that is half there
}

// NewSRQ makes a shared receive queue (ibv_create_srq). ErrInvalid says which value is wrong.
func NewSRQ(init SRQInit) (*SRQ, error) {
	s := &SRQ{context: init.Context, mem: init.Memory, pd: init.PD, maxSGE: init.MaxSGE,
		spinLock: spinLock{yield: init.Yield}, xrcd: init.XRCD, number: init.Number, sharers: map[wire.GID]*sharer{}}
	switch {
	case init.PD == 0:
		return nil, invalid("no protection domain")
	case init.XRCD != 0 && (init.Number == 0 || init.Number > wire.QPNMask):
		return nil, invalid("SRQ number 0x%x: 24 bits, not 0", init.Number)
	case init.MaxSGE > MaxSGE:
		return nil, invalid("%d elements a request, at most %d", init.MaxSGE, MaxSGE)
	}
	attr := SRQAttr{MaxWR: init.MaxWR, Limit: init.Limit}
	if err := s.check(&attr, SRQMaxWR|SRQLimit); err != nil {
		return nil, err
	}
	s.addSlots(init.MaxWR)
	s.limit = init.Limit
	return s, nil
}

// Number is what requests of XRC name the queue by; 0 if it is none of XRC.
func (s *SRQ) Number() uint32 { return s.number }

// Context returns SRQInit.Context.
func (s *SRQ) Context() any { return s.context }

// check holds new attributes against their ranges.
func (s *SRQ) check(a *SRQAttr, mask SRQAttrMask) error {
	max := s.maxWR
	if mask&SRQMaxWR != 0 {
		max = a.MaxWR
	}
	switch {
	case mask&^(SRQMaxWR|SRQLimit) != 0:
		return invalid("srq_attr_mask 0x%x: IBV_SRQ_MAX_WR (1) and IBV_SRQ_LIMIT (2) exist", uint32(mask))
	case max < 1 || max > MaxSRQWR:
		return invalid("shared receive queue of %d work requests, 1 to %d are allowed", max, MaxSRQWR)
	case mask&SRQLimit != 0 && a.Limit > max:
		return invalid("srq_limit %d of a queue of %d", a.Limit, max)
	}
	return nil
}

// spinLock is a lock for what lanes share. Who has it gives it back after a few instructions; only
// a goroutine or thread that was stopped in the middle of them makes others wait longer.
type spinLock struct {
	busy  atomic.Bool
	yield func() // lets others run while one waits; nil if nothing runs beside the caller
}

func (l *spinLock) lock() {
	for n := 1; !l.busy.CompareAndSwap(false, true); n++ {
		if n%64 == 0 && l.yield != nil {
			l.yield()
		}
	}
}

func (l *spinLock) unlock() { l.busy.Store(false) }

// addSlots makes room for n more requests. The slots lie beside each other.
func (s *SRQ) addSlots(n uint32) {
	slots, sges := make([]sharedSlot, n), make([]SGE, uint64(n)*uint64(s.maxSGE))
	for i := range slots {
		at := uint64(i) * uint64(s.maxSGE)
		slots[i].sges = sges[at : at+uint64(s.maxSGE) : at+uint64(s.maxSGE)]
		if i > 0 {
			slots[i-1].next = &slots[i]
		}
	}
	s.lock()
	if n > 0 {
		slots[n-1].next, s.spare = s.spare, &slots[0]
	}
	s.spares += n
	s.maxWR += n
	s.unlock()
}

// PostRecv appends wrs to the queue (ibv_post_srq_recv) and returns how many were accepted; err is
// about wrs[n]: ErrFull when as many requests as the queue takes are posted or in use, ErrInvalid
// names the value and the rule.
func (s *SRQ) PostRecv(wrs []RecvWR) (n int, err error) {
	for i := range wrs {
		length, err := sglLength(wrs[i].SGL, s.maxSGE)
		if err != nil {
			return i, err
		}
		if !s.post(&wrs[i], length) {
			return i, fmt.Errorf("%w: all %d receive work requests of the shared receive queue are outstanding",
				ErrFull, s.Query().MaxWR)
		}
	}
	return len(wrs), nil
}

// post appends one request; false: there is no spare slot.
func (s *SRQ) post(wr *RecvWR, length uint32) bool {
	s.lock()
	slot := s.spare
	if slot == nil {
		s.unlock()
		return false
	}
	s.spare, slot.next = slot.next, nil
	s.spares--
	slot.fill(wr, length)
	copySGL(slot.sges[:slot.numSGE], wr.SGL)
	if s.last == nil {
		s.first = slot
	} else {
		s.last.next = slot
	}
	s.last = slot
	s.posted++
	s.unlock()
	return true
}

// join counts a queue pair that shares the queue and is connected to an address.
func (s *SRQ) join(gid wire.GID) *sharer {
	s.lock()
	by := s.sharers[gid]
	if by == nil {
		by = &sharer{}
		s.sharers[gid] = by
	}
	by.pairs++
	s.unlock()
	return by
}

// sharerOf returns an address that has joined.
func (s *SRQ) sharerOf(gid wire.GID) *sharer {
	s.lock()
	defer s.unlock()
	return s.sharers[gid]
}

// leave undoes join. A request that a message holds stays with it.
func (s *SRQ) leave(gid wire.GID) {
	s.lock()
	by := s.sharers[gid]
	if by.pairs--; by.pairs == 0 {
		delete(s.sharers, gid)
	}
	s.unlock()
}

// mayHold says whether a message that is half there may have a request for by. It may if by has
// less than its share, or if what is left then is the share of all the others and of one that is
// still to come.
func (s *SRQ) mayHold(by *sharer) bool {
	n := uint32(len(s.sharers)) + 1
	share := (s.posted + s.held) / (2 * n)
	return by.held < share || s.posted > (n-1)*share
}

// claim takes the oldest request, nil if there is none, for a whole message or, if by is not nil,
// for one that is half there. low says that this has taken the queue below its limit, over that
// there is a request, but not for by.
func (s *SRQ) claim(by *sharer) (slot *sharedSlot, low, over bool) {
	s.lock()
	if over = by != nil && s.first != nil && !s.mayHold(by); !over {
		slot = s.first
	}
	if slot != nil {
		if s.first = slot.next; s.first == nil {
			s.last = nil
		}
		slot.next = nil
		s.posted--
		low = s.isLow()
		if slot.holder = by; by != nil {
			by.held++
			s.held++
		}
	}
	s.unlock()
	return slot, low, over
}

// letGo ends what claim has counted.
func (s *SRQ) letGo(slot *sharedSlot) {
	if slot.holder != nil {
		slot.holder.held--
		s.held--
		slot.holder = nil
	}
}

// isLow says whether fewer requests are left than the limit, and disarms it then.
func (s *SRQ) isLow() bool {
	low := s.posted < s.limit
	if low {
		s.limit = 0
	}
	return low
}

// putBack makes a request that was claimed the oldest again.
func (s *SRQ) putBack(slot *sharedSlot) {
	s.lock()
	s.letGo(slot)
	if slot.next = s.first; s.first == nil {
		s.last = slot
	}
	s.first = slot
	s.posted++
	s.unlock()
}

// release makes the slot of a request that has completed spare.
func (s *SRQ) release(slot *sharedSlot) {
	s.lock()
	s.letGo(slot)
	slot.next, s.spare = s.spare, slot
	s.spares++
	s.unlock()
}

// Modify sets the attributes that mask names (ibv_modify_srq): the size, while messages are in
// progress or not, and the limit. low says that there are fewer requests than the new limit
// already: then the caller is to raise EventSRQLimit, and nothing is armed. ErrInvalid names the
// value: a size below what is outstanding, a limit above the size. Then nothing has changed.
func (s *SRQ) Modify(a SRQAttr, mask SRQAttrMask) (low bool, err error) {
	if err := s.check(&a, mask); err != nil {
		return false, err
	}
	if mask&SRQMaxWR != 0 {
		if a.MaxWR > s.maxWR {
			s.addSlots(a.MaxWR - s.maxWR)
		} else if err := s.shrink(a.MaxWR); err != nil {
			return false, err
		}
	}
	if mask&SRQLimit != 0 {
		s.lock()
		s.limit = a.Limit
		low = s.isLow()
		s.unlock()
	}
	return low, nil
}

// shrink takes spare slots away until there are n. A limit that is above that stays: it is reached
// at the next claim.
func (s *SRQ) shrink(n uint32) error {
	s.lock()
	outstanding := s.maxWR - s.spares
	for outstanding <= n && s.maxWR > n {
		slot := s.spare
		s.spare, slot.next = slot.next, nil
		s.spares--
		s.maxWR--
	}
	s.unlock()
	if outstanding > n {
		return invalid("a size of %d, but %d work requests are outstanding", n, outstanding)
	}
	return nil
}

// Query returns the present attributes (ibv_query_srq).
func (s *SRQ) Query() SRQAttr {
	s.lock()
	defer s.unlock()
	return SRQAttr{MaxWR: s.maxWR, MaxSGE: s.maxSGE, Limit: s.limit}
}

// InUse is ErrBusy while queue pairs take their requests from the queue. What is posted when the
// queue goes is forgotten.
func (s *SRQ) InUse() error {
	if n := s.users.Load(); n > 0 {
		return fmt.Errorf("shared receive queue: %w by %d queue pairs", ErrBusy, n)
	}
	return nil
}
