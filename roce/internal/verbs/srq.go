//go:build verbs

package verbs

// The shared receive queue: making one, posting to it, its size and limit, its end.

/*
#cgo noescape goroce_post_srq_recv
#cgo nocallback goroce_post_srq_recv
#include "glue.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/qp"
)

// SRQ is a shared receive queue.
type SRQ struct {
	dev     *Device
	srq     *C.struct_ibv_srq
	context any

	control sync.Mutex // Modify, Query, Close
	closed  bool       // under both locks
	recv    recvQueue
}

// CreateSRQ makes a shared receive queue. Of init only sizes, limit and context count.
func (p *PD) CreateSRQ(init qp.SRQInit) (*SRQ, error) {
	d := p.dev
	switch a := &d.attr; {
	case a.max_srq == 0:
		return nil, unsupported("%s has no shared receive queues", d.device)
	case init.MaxWR < 1 || init.MaxWR > uint32(a.max_srq_wr):
		return nil, invalid("shared receive queue of %d work requests, 1 to %d are allowed", init.MaxWR, a.max_srq_wr)
	case init.MaxSGE > uint32(a.max_srq_sge):
		return nil, invalid("%d elements a request, at most %d", init.MaxSGE, a.max_srq_sge)
	}
	attr := C.struct_ibv_srq_init_attr{}
	attr.attr.max_wr, attr.attr.max_sge = C.uint32_t(init.MaxWR), C.uint32_t(max(init.MaxSGE, 1))
	ibv, errno := C.ibv_create_srq(p.pd, &attr)
	if ibv == nil {
		return nil, Refused("ibv_create_srq", errno)
	}
	s := &SRQ{dev: d, srq: ibv, context: init.Context}
	s.recv.init(uint32(attr.attr.max_wr), uint32(attr.attr.max_sge))
	d.enlist(unsafe.Pointer(ibv), s)
	if init.Limit > 0 { // the verb that makes a queue does not look at it
		if err := s.Modify(qp.SRQAttr{Limit: init.Limit}, qp.SRQLimit); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// PostRecv posts wrs and returns how many were accepted; err is about wrs[n].
func (s *SRQ) PostRecv(wrs []qp.RecvWR) (n int, err error) {
	r := &s.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.closed {
		return 0, closed("SRQ")
	}
	return r.post(wrs, func(n int) (posted int, err error) {
		p := C.goroce_post_srq_recv(s.srq, &r.wrs[0], C.int(n))
		if p.err == 0 {
			return n, nil
		}
		return int(p.n), answeredAs("ibv_post_srq_recv", int(p.err),
			map[syscall.Errno]error{syscall.ENOMEM: qp.ErrFull})
	})
}

// Modify sets the size or the limit. The device takes one of them at a time.
func (s *SRQ) Modify(attr qp.SRQAttr, mask qp.SRQAttrMask) error {
	s.control.Lock()
	defer s.control.Unlock()
	switch {
	case s.closed:
		return closed("SRQ")
	case mask&^(qp.SRQMaxWR|qp.SRQLimit) != 0:
		return invalid("srq_attr_mask 0x%x: IBV_SRQ_MAX_WR (1) and IBV_SRQ_LIMIT (2) exist", uint32(mask))
	case mask&qp.SRQMaxWR != 0 && s.dev.attr.device_cap_flags&C.IBV_DEVICE_SRQ_RESIZE == 0:
		return unsupported("%s does not resize shared receive queues", s.dev.device)
	case mask&qp.SRQMaxWR != 0 && (attr.MaxWR < 1 || attr.MaxWR > uint32(s.dev.attr.max_srq_wr)):
		return invalid("shared receive queue of %d work requests, 1 to %d are allowed",
			attr.MaxWR, s.dev.attr.max_srq_wr)
	}
	if mask&qp.SRQLimit != 0 {
		now, err := s.query()
		if mask&qp.SRQMaxWR != 0 {
			now.MaxWR = attr.MaxWR
		}
		if err == nil && attr.Limit > now.MaxWR {
			err = invalid("srq_limit %d of a queue of %d", attr.Limit, now.MaxWR)
		}
		if err != nil {
			return err
		}
	}
	for _, one := range []qp.SRQAttrMask{qp.SRQMaxWR, qp.SRQLimit} {
		if mask&one == 0 {
			continue
		}
		a := C.struct_ibv_srq_attr{max_wr: C.uint32_t(attr.MaxWR), srq_limit: C.uint32_t(attr.Limit)}
		if err := answered("ibv_modify_srq", int(C.ibv_modify_srq(s.srq, &a, C.int(one)))); err != nil {
			return err
		}
	}
	return nil
}

// query asks the device. The caller has the control lock.
func (s *SRQ) query() (qp.SRQAttr, error) {
	var a C.struct_ibv_srq_attr
	err := answered("ibv_query_srq", int(C.ibv_query_srq(s.srq, &a)))
	return qp.SRQAttr{MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge), Limit: uint32(a.srq_limit)}, err
}

// Number is 0: it is a basic one.
func (s *SRQ) Number() uint32 { return 0 }

// Query returns the present attributes.
func (s *SRQ) Query() (qp.SRQAttr, error) {
	s.control.Lock()
	defer s.control.Unlock()
	if s.closed {
		return qp.SRQAttr{}, closed("SRQ")
	}
	return s.query()
}

// Close destroys the queue, with what is posted to it.
func (s *SRQ) Close() error {
	s.control.Lock()
	defer s.control.Unlock()
	s.recv.mu.Lock()
	defer s.recv.mu.Unlock()
	if s.closed {
		return nil
	}
	s.dev.strike(unsafe.Pointer(s.srq))
	if err := answered("ibv_destroy_srq", int(C.ibv_destroy_srq(s.srq))); err != nil {
		s.dev.enlist(unsafe.Pointer(s.srq), s)
		return fmt.Errorf("shared receive queue: %w", err)
	}
	s.closed = true
	s.recv.free()
	return nil
}
