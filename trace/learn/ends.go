package learn

// The hosts of most lessons: each has a region "buf" that its peer may do everything with, a
// completion queue and a queue pair.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

// all are the rights that "buf" gives.
const all = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

// end is a host with what a connection needs.
type end struct {
	*world.Host
	Buf *world.Region // 8 KiB
	CQ  *world.CQ     // 16 completions
	QP  *world.QP     // 16 work requests each way
}

const remoteAtomic = mr.RemoteAtomic

// newEnd makes a host.
func newEnd(w *world.World, name string, t qp.QPType) *end {
	h := w.AddHost(name)
	e := &end{Host: h, Buf: h.RegMR("buf", 8192, all), CQ: h.CreateCQ(16)}
	e.QP = h.CreateQP(e.CQ, world.QPInit{Type: t})
	return e
}

// two makes hosts A and B with queue pairs that are not connected. A's buffer has a pattern.
func two(w *world.World, t qp.QPType) (a, b *end) {
	a, b = newEnd(w, "A", t), newEnd(w, "B", t)
	a.fill()
	return a, b
}

// connected makes two and connects them. What their programs do begins a microsecond later, so that
// there is a moment before it.
func connected(w *world.World, t qp.QPType) (a, b *end) {
	a, b = two(w, t)
	w.Connect(a.QP, b.QP)
	w.RunFor(world.Microsecond)
	return a, b
}

// fill puts a pattern into the buffer, without a zero.
func (e *end) fill() {
	for i := range e.Buf.Bytes {
		e.Buf.Bytes[i] = byte(i%251 + 1)
	}
}

// recv posts a receive for n bytes at a place of the buffer.
func (e *end) recv(wrid uint64, off, n int) error {
	return e.QP.PostRecv(qp.RecvWR{WRID: wrid, SGL: []qp.SGE{e.Buf.SGE(off, n)}})
}

// send is a signaled SEND of the first n bytes of the buffer.
func (e *end) send(wrid uint64, n int) qp.SendWR {
	return qp.SendWR{WRID: wrid, Opcode: qp.WRSend, Flags: qp.SendSignaled, SGL: []qp.SGE{e.Buf.SGE(0, n)}}
}

// write is a signaled WRITE of the first n bytes of the buffer to a place of the peer's.
func (e *end) write(wrid uint64, n int, peer *end, at int) qp.SendWR {
	return qp.SendWR{
		WRID:       wrid,
		Opcode:     qp.WRWrite,
		Flags:      qp.SendSignaled,
		SGL:        []qp.SGE{e.Buf.SGE(0, n)},
		RemoteAddr: peer.Buf.Addr(at),
		RKey:       peer.Buf.RKey(),
	}
}

// read is a signaled READ of n bytes of the peer's buffer to a place of the own.
func (e *end) read(wrid uint64, off, n int, peer *end, at int) qp.SendWR {
	return qp.SendWR{
		WRID:       wrid,
		Opcode:     qp.WRRead,
		Flags:      qp.SendSignaled,
		SGL:        []qp.SGE{e.Buf.SGE(off, n)},
		RemoteAddr: peer.Buf.Addr(at),
		RKey:       peer.Buf.RKey(),
	}
}

// add is a signaled fetch-and-add to a counter in the peer's buffer; the old value comes to off.
func (e *end) add(wrid uint64, off int, peer *end, at int, n uint64) qp.SendWR {
	return qp.SendWR{WRID: wrid, Opcode: qp.WRAtomicFetchAndAdd, Flags: qp.SendSignaled,
		SGL: []qp.SGE{e.Buf.SGE(off, 8)}, RemoteAddr: peer.Buf.Addr(at), RKey: peer.Buf.RKey(), CompareAdd: n}
}

// finish lets the world come to rest, and has the programs look into their completion queues a
// microsecond later.
func finish(w *world.World, ends ...*end) {
	w.Run()
	w.RunFor(world.Microsecond)
	for _, e := range ends {
		e.CQ.Poll()
	}
}
