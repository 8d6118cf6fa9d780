package soft

// The shared receive queue: one for all lanes, whose engines claim from it. Stages: making one,
// posting, attributes, its end → XRC: domains, and shared receive queues that requests name by a
// number. Every lane must know of those, as a queue pair of any may be asked for one.

import (
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
)

// SRQ is a shared receive queue. All methods may be called from any goroutine.
type SRQ struct {
	dev    *Device
	s      *qp.SRQ
	cq     *CQ // of XRC: where its requests complete
	closed atomic.Bool
}

// CreateSRQ makes a shared receive queue. Events name it by init.Context. If it is one of XRC, of
// the domain x, its requests complete in c.
func (p *PD) CreateSRQ(init qp.SRQInit, x *XRCD, c *CQ) (*SRQ, error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.srqs == qp.MaxSRQ {
		return nil, fmt.Errorf("%w: %d shared receive queues", qp.ErrLimit, d.srqs)
	}
	init.Memory, init.PD, init.Yield = d.mem, p.handle, d.yield
	if x != nil {
		init.XRCD, init.Number = x.id, d.drawNumber()
	}
	below, err := qp.NewSRQ(init)
	if err != nil {
		return nil, err
	}
	s := &SRQ{dev: d, s: below}
	if x != nil {
		if err := s.enter(c); err != nil {
			return nil, err
		}
	}
	d.srqs++
	return s, nil
}

// PostRecv appends work requests and returns how many were posted; the error is about the one
// behind them. No turn is taken: a peer that found the queue empty asks again.
func (s *SRQ) PostRecv(wrs []qp.RecvWR) (int, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	return s.s.PostRecv(wrs)
}

// Modify sets the size or the limit.
func (s *SRQ) Modify(attr qp.SRQAttr, mask qp.SRQAttrMask) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	low, err := s.s.Modify(attr, mask)
	if low {
		s.dev.tell(Event{Type: qp.EventSRQLimit, SRQ: s.s.Context()})
	}
	return err
}

// Number is what peers name an XRC one by, 0 of others.
func (s *SRQ) Number() uint32 { return s.s.Number() }

// Query returns the present attributes.
func (s *SRQ) Query() (qp.SRQAttr, error) {
	if s.closed.Load() {
		return qp.SRQAttr{}, ErrClosed
	}
	return s.s.Query(), nil
}

// Close destroys the queue, which no queue pair uses any more, with what is posted to it. A second
// Close does nothing.
func (s *SRQ) Close() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.closed.Load() {
		return nil
	}
	if err := s.s.InUse(); err != nil {
		return err
	}
	if s.cq != nil {
		s.leave()
	}
	s.closed.Store(true)
	s.dev.srqs--
	return nil
}

// XRCD is an XRC domain.
type XRCD struct{ id qp.XRCD }

// OpenXRCD makes an XRC domain.
func (d *Device) OpenXRCD() (*XRCD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.xrcds++
	return &XRCD{d.xrcds}, nil
}

// Close ends the domain, of which nothing is left.
func (x *XRCD) Close() error { return nil }

// drawNumber draws the number of a shared receive queue of XRC, which nobody can predict.
func (d *Device) drawNumber() uint32 {
	for {
		n := uint32(random.Uint64() & 0xffffff)
		if n != 0 && d.numbers[n] == nil {
			return n
		}
	}
}

// enter makes the lanes know of a shared receive queue that completes in c.
func (s *SRQ) enter(c *CQ) error {
	for i, l := range s.dev.lanes {
		if err := l.do(func(e *qp.Engine, _ qp.Time) error { return e.AddXRC(s.s, c.rings[i]) }); err != nil {
			s.leave()
			return err
		}
	}
	for _, l := range s.dev.lanes {
		c.count(l, +1)
	}
	s.cq = c
	s.dev.numbers[s.s.Number()] = s
	return nil
}

// leave makes the lanes forget of it.
func (s *SRQ) leave() {
	for _, l := range s.dev.lanes {
		l.do(func(e *qp.Engine, _ qp.Time) error { e.RemoveXRC(s.s); return nil })
		if s.cq != nil {
			s.cq.count(l, -1)
		}
	}
	delete(s.dev.numbers, s.s.Number())
}
