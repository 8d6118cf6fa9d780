package qp

import (
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// AH is an address handle: where a datagram goes. It is immutable. Any goroutine may use it until
// it is destroyed.
type AH struct {
	mem *mr.Table // of the device that it was made on
	pd  mr.PD
	// row is the place in the engine's table, and in the upper bits a serial number that never
	// comes again: so a slot that names a destroyed handle finds none.
	row  uint64
	attr AHAttr
	path wire.Path
	dead atomic.Bool
	of   *AH // what was adopted; nil if it was made here

	foreign any // the handle of another kind of device; nil if an engine made it
}

// ForeignAH makes an address handle that stands for one of another kind of device than this stack.
// It has no engine: queue pairs of this package refuse it as one of another device. Whoever made it
// gets handle back by [AH.Foreign] and says when it is dead.
func ForeignAH(attr AHAttr, handle any) *AH { return &AH{attr: attr, foreign: handle} }

// Foreign returns what ForeignAH was given; nil if an engine made the handle.
func (a *AH) Foreign() any { return a.foreign }

// Attr returns what the handle was made from.
func (a *AH) Attr() AHAttr { return a.attr }

// CreateAH makes an address handle of a protection domain. ErrInvalid names the attribute that is
// wrong.
func (e *Engine) CreateAH(pd mr.PD, attr AHAttr) (*AH, error) {
	path, err := e.path(&attr, e.ahPort(&attr))
	if err != nil {
		return nil, err
	}
	i := e.ahsUsed
	for i < len(e.ahs) && e.ahs[i] != nil {
		i++
	}
	if e.ahsUsed = i; i == MaxAH {
		return nil, fmt.Errorf("%w: %d address handles", ErrLimit, MaxAH)
	}
	if i == len(e.ahs) {
		e.ahs = append(e.ahs, nil)
	}
	e.ahSerial++
	e.ahs[i] = &AH{mem: e.cfg.Memory, pd: pd, row: e.ahSerial<<ahRowBits | uint64(i), attr: attr, path: path}
	return e.ahs[i], nil
}

// AdoptAH makes a handle that another engine has made usable here, under the row that posted
// requests name it by. The engines of a device's lanes all have the handles that the first lane has
// made, with its source address, whatever has become of the row of the GID table since; but they
// may send from different UDP ports.
func (e *Engine) AdoptAH(a *AH) error {
	path, err := pathFrom(a.path.Src, &a.attr, e.ahPort(&a.attr))
	if err != nil {
		return err
	}
	i := int(a.row & (MaxAH - 1))
	for len(e.ahs) <= i {
		e.ahs = append(e.ahs, nil)
	}
	e.ahs[i] = &AH{mem: a.mem, pd: a.pd, row: a.row, attr: a.attr, path: path, of: a}
	return nil
}

// ahPort is the UDP source port of datagrams. It follows from the flow label, or it is 0xc000,
// because no queue pair is known here (section 1.2).
func (e *Engine) ahPort(attr *AHAttr) uint16 {
	if e.cfg.SrcPort != 0 {
		return e.cfg.SrcPort
	}
	return wire.SrcPortFor(0, 0, attr.FlowLabel)
}

// DestroyAH ends a handle that CreateAH or AdoptAH has made here. A request that was posted with it
// and has not been sent yet fails with WCLocQPOpErr.
func (e *Engine) DestroyAH(a *AH) error {
	if have := e.ah(a.row); have == nil || have != a && have.of != a {
		return fmt.Errorf("address handle: %w", ErrUnknown)
	}
	a.dead.Store(true)
	i := int(a.row & (MaxAH - 1))
	e.ahs[i], e.ahsUsed = nil, min(e.ahsUsed, i)
	return nil
}

// ah finds the handle that a send slot names; nil if it was destroyed.
func (e *Engine) ah(row uint64) *AH {
	i := int(row & (MaxAH - 1))
	if i >= len(e.ahs) || e.ahs[i] == nil || e.ahs[i].row != row {
		return nil
	}
	return e.ahs[i]
}

// SetGIDs replaces the GID table, which the caller does not modify from now on. Queue pairs and
// address handles keep the source address that they have, also if its row is another's now or
// empty: until the address is back what they send goes nowhere, and what comes to it is dropped.
func (e *Engine) SetGIDs(gids []wire.GID) {
	e.cfg.GIDs = gids
	e.qps.each(func(q *QP) { q.away = !e.isLocal(q.path.Src) })
}

// isLocal says whether g is one of the device's addresses.
func (e *Engine) isLocal(g wire.GID) bool {
	for i := range e.cfg.GIDs {
		if e.cfg.GIDs[i] == g {
			return true
		}
	}
	return false
}

// path checks an address vector and makes its packet header.
func (e *Engine) path(a *AHAttr, srcPort uint16) (wire.Path, error) {
	switch {
	case int(a.SGIDIndex) >= len(e.cfg.GIDs):
		return wire.Path{}, invalid("sgid_index %d, the device has %d GIDs", a.SGIDIndex, len(e.cfg.GIDs))
	case e.cfg.GIDs[a.SGIDIndex].IsZero():
		return wire.Path{}, invalid("sgid_index %d: the row of the GID table is empty", a.SGIDIndex)
	case a.FlowLabel >= 1<<20:
		return wire.Path{}, invalid("flow label 0x%x is wider than 20 bits", a.FlowLabel)
	case a.DGID == wire.GID{}:
		return wire.Path{}, invalid("no destination GID: RoCE needs the peer's address (a GRH)")
	}
	src := e.cfg.GIDs[a.SGIDIndex]
	if src.Is4() != a.DGID.Is4() {
		return wire.Path{}, invalid("destination %v and source GID[%d] %v are of different IP versions",
			a.DGID, a.SGIDIndex, src)
	}
	return pathFrom(src, a, srcPort)
}

// pathFrom makes the packet header of an address vector that was checked.
func pathFrom(src wire.GID, a *AHAttr, srcPort uint16) (wire.Path, error) {
	hop := a.HopLimit
	if hop == 0 {
		hop = defaultHopLimit
	}
	return wire.NewPath(src, a.DGID, srcPort, a.TrafficClass, hop, a.FlowLabel)
}
