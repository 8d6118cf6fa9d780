package hub

// Queue pair 1 as a process has it that is at a hub (rdmacm.QP1): the hub has it for all. Which
// process a message is for is seen by the communication ID, of which each slot has a part, as it
// has of queue pair numbers; a request is for who listens (router.go of package roce/hub).

import (
	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// SlotShift is the lowest bit of a communication ID that says whose it is: the slot's number is in
// the highest byte.
const SlotShift = 24

// QP1 is a client's. It implements rdmacm.QP1.
type QP1 struct{ *Client }

// CommIDOf makes a communication ID one of a slot's.
func CommIDOf(slot int) func(drawn uint32) uint32 {
	return func(drawn uint32) uint32 { return drawn&(1<<SlotShift-1) | uint32(slot)<<SlotShift }
}

// CommID is CommIDOf the process's slot.
func (q QP1) CommID(drawn uint32) uint32 { return CommIDOf(q.has.Slot)(drawn) }

// Ready implements rdmacm.QP1.
func (q QP1) Ready() <-chan struct{} { return q.ready }

// Receive implements rdmacm.QP1.
func (q QP1) Receive(take func(from cm.Path, mad []byte)) (more bool, err error) {
	q.mu.Lock()
	come := q.come
	q.come = nil
	q.mu.Unlock()
	for i := range come {
		take(come[i].Path, come[i].MAD[:])
	}
	return false, nil
}

// Room implements rdmacm.QP1: what finds none is lost, and repeated.
func (q QP1) Room() bool { return true }

// Send implements rdmacm.QP1.
func (q QP1) Send(p cm.Path, mad *wire.MAD) {
	q.mu.Lock()
	conn := q.conn
	q.ledger.Sent(&p, mad)
	q.mu.Unlock()
	if conn == nil || !conn.SayMAD(&p, mad[:]) {
		q.mu.Lock()
		q.lost++
		q.mu.Unlock()
	}
}

// Close implements rdmacm.QP1. The client goes with the device.
func (q QP1) Close() error { return nil }
