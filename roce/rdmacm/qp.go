package rdmacm

// The queue pair of an ID, and what it must know of its connection (section 9.9).

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/roce"
)

// CreateQP makes the ID's queue pair (rdma_create_qp): an RC, UC or XRC queue pair is in INIT
// afterwards and becomes ready by itself when the ID is connected, one of UD (PSUDP) is ready. Who
// connects with XRCSend is accepted by XRCRecv. The ID must have a device, and pd must be of it.
// attr.Type 0 is RC, or UD in PSUDP. ErrState if it has one, or if Connect or Accept has told the
// peer another one; the other errors are those of PD.CreateQP.
func (id *ID) CreateQP(pd *roce.PD, attr roce.QPInitAttr) (*roce.QP, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if attr.Type == 0 && id.datagrams() {
		attr.Type = roce.UD
	}
	if err := id.mayCreateQP(pd, attr.Type); err != nil {
		return nil, fail("CreateQP", err)
	}
	q, err := pd.CreateQP(attr)
	if err != nil {
		return nil, err
	}
	if q.Type() == roce.UD {
		err = q.Activate(UDPQKey)
	} else {
		attr, mask := id.initAttr()
		err = q.Modify(context.Background(), &attr, mask)
	}
	if err != nil {
		q.Close()
		return nil, err
	}
	id.qp = q
	return q, nil
}

// said are the states in which the peer of a connection knows our queue pair, or is about to.
var said = []state{connecting, responded, accepting, accepted, established, disconnecting, peerGone}

// types are those of the queue pairs that IDs have; 0 is RC.
var types = []roce.QPType{0, roce.RC, roce.UC, roce.UD, roce.XRCSend, roce.XRCRecv}

func (id *ID) mayCreateQP(pd *roce.PD, t roce.QPType) error {
	a := id.agent()
	switch {
	case id.state == closed:
		return ErrClosed
	case id.qp != nil:
		return fmt.Errorf("%w: the ID has a queue pair", ErrState)
	case id.own.QPN != 0 && slices.Contains(said, id.state):
		return fmt.Errorf("%w: the peer was told the queue pair 0x%06x (ConnParam.QPN)", ErrState, id.own.QPN)
	case a == nil || id.state == listening || id.state == addrQuery:
		return fmt.Errorf("%w: the ID is in the state %v and has no device: resolve an address first",
			ErrState, id.state)
	case pd == nil || pd.Device() != a.dev:
		return fmt.Errorf("%w: the protection domain is not of the ID's device %s", ErrInvalid, a.dev.Name())
	case t == roce.UD != id.datagrams() && (id.space != PSIB || id.sidr) || !slices.Contains(types, t):
		return fmt.Errorf("%w: a queue pair of type %v in %v", ErrInvalid, t, id.space)
	}
	return nil
}

// QP is the queue pair that CreateQP made; nil if there is none.
func (id *ID) QP() *roce.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// DestroyQP closes the ID's queue pair (rdma_destroy_qp). Without one it does nothing.
func (id *ID) DestroyQP() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	return fail("DestroyQP", id.destroyQP())
}

func (id *ID) destroyQP() error {
	if id.qp == nil {
		return nil
	}
	err := id.qp.Close()
	id.qp = nil
	for g := range id.groups { // it was in them, and the next one is not
		id.groups[g] = false
	}
	return err
}

// InitQPAttr returns what the queue pair of an ID that has none of its own needs to get into a
// state (rdma_init_qp_attr): StateInit at any time, StateRTR and StateRTS when the peer's part is
// known, which is from EventConnectRequest or EventConnectResponse on. ErrState before, ErrInvalid
// of another state.
func (id *ID) InitQPAttr(to roce.QPState) (attr roce.QPAttr, mask roce.AttrMask, err error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == closed:
		return attr, mask, fail("InitQPAttr", ErrClosed)
	case to == roce.StateInit:
		attr, mask = id.initAttr()
		return attr, mask, nil
	case to != roce.StateRTR && to != roce.StateRTS:
		return attr, mask, fail("InitQPAttr", fmt.Errorf("%w: state %v, want INIT, RTR or RTS", ErrInvalid, to))
	case id.datagrams():
		if to == roce.StateRTR {
			return roce.QPAttr{State: to}, roce.AttrState, nil
		}
		return roce.QPAttr{State: to}, roce.AttrState | roce.AttrSQPSN, nil
	}
	attr, mask, err = id.attr(to, roce.RC)
	attr.SelectiveRepeat, attr.LongWindow = false, false // only a queue pair of the ID's has them
	return attr, mask &^ (roce.AttrSelectiveRepeat | roce.AttrLongWindow), fail("InitQPAttr", err)
}

// initAttr is what INIT needs. The caller has the lock.
func (id *ID) initAttr() (roce.QPAttr, roce.AttrMask) {
	attr := roce.QPAttr{State: roce.StateInit, Port: 1, AccessFlags: id.rights(), QKey: UDPQKey}
	mask := roce.AttrState | roce.AttrPKeyIndex | roce.AttrPort
	if c := id.one(); c != nil && !c.raises() { // INIT is the last that the ID has a say in
		attr.AccessFlags = roce.RemoteWrite | roce.RemoteRead
	}
	if id.datagrams() {
		return attr, mask | roce.AttrQKey
	}
	return attr, mask | roce.AttrAccessFlags
}

// rights are what the peer may do: WRITE, and if it may do one at a time or more, what is answered
// (section 9.9).
func (id *ID) rights() roce.Access {
	if id.own.ResponderResources == 0 {
		return roce.RemoteWrite
	}
	return roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic | roce.FlushGlobal | roce.FlushPersistent
}

// attr is what a queue pair of a type needs to get to RTR or RTS. The caller has the lock.
func (id *ID) attr(to roce.QPState, t roce.QPType) (attr roce.QPAttr, mask roce.AttrMask, err error) {
	c := id.one()
	if c == nil {
		return attr, mask, id.notYet()
	}
	attr, mask, err = c.attr(to, t)
	if id.options.tos != 0 && mask&roce.AttrAV != 0 {
		attr.AV.TrafficClass = id.options.tos
	}
	if id.options.ackTimeout != 0 && mask&roce.AttrTimeout != 0 {
		attr.Timeout = id.options.ackTimeout
	}
	return attr, mask, err
}

// notYet is the error of a call that asks before the peer has answered. The caller has the lock.
func (id *ID) notYet() error {
	return fmt.Errorf("%w: the ID is in the state %v, and what the peer says is not known", ErrState, id.state)
}

// raise brings the ID's queue pair, if it has one, to RTS. It may wait for a neighbour, and is
// called without the lock.
func (id *ID) raise(ctx context.Context) error {
	id.mu.Lock()
	q, c := id.qp, id.one()
	if q == nil || c == nil || !c.raises() {
		id.mu.Unlock()
		return nil
	}
	rtr, toRTR, err := id.attr(roce.StateRTR, q.Type())
	rts, toRTS, err2 := id.attr(roce.StateRTS, q.Type())
	id.mu.Unlock()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := q.Modify(ctx, &rtr, toRTR); err != nil {
		return err
	}
	return q.Modify(ctx, &rts, toRTS)
}

// lower ends the queue pair: what is outstanding is flushed. One that the application has closed
// has ended. The caller has the lock.
func (id *ID) lower() error {
	if id.qp == nil || id.qp.Type() == roce.UD {
		return nil
	}
	err := id.qp.Modify(context.Background(), &roce.QPAttr{State: roce.StateErr}, roce.AttrState)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}
