package soft

// The shared receive queue: one for all lanes, whose engines claim from it.

import (
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
)

// SRQ is a shared receive queue. All methods may be called from any goroutine.
type SRQ struct {
	dev    *Device
	s      *qp.SRQ
	closed atomic.Bool
}

// CreateSRQ makes a shared receive queue. Events name it by init.Context.
func (p *PD) CreateSRQ(init qp.SRQInit) (*SRQ, error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.srqs == qp.MaxSRQ {
		return nil, fmt.Errorf("%w: %d shared receive queues", qp.ErrLimit, d.srqs)
	}
	init.Memory, init.PD = d.mem, p.handle
	if len(d.lanes) > 1 {
		init.Yield = func() { yield() }
	}
	s, err := qp.NewSRQ(init)
	if err != nil {
		return nil, err
	}
	d.srqs++
	return &SRQ{dev: d, s: s}, nil
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
	s.closed.Store(true)
	s.dev.srqs--
	return nil
}
