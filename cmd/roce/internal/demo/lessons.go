package demo

// The lessons: one for each operation of each transport service.

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
)

// lesson is one operation.
type lesson struct {
	name  string
	bytes int
	what  string // what will happen
	right string // what the checks have shown
	run   func(context.Context, *demo) error
}

// long is a message of three packets at an MTU of 4096, the last of them not full; brief is one of
// a single packet.
const (
	long  = 10000
	brief = 1000
)

var lessons = []lesson{
	{"RC SEND / RECV", long,
		"A sends, B has a receive posted: 10,000 bytes travel as First, Middle and Last, B acknowledges.",
		"B has the message where its receive said, both have a completion", message(roce.RC, roce.WRSend, long)},
	{"RC RDMA WRITE", long, "A writes into B's memory by address and key. B's program learns nothing of it.",
		"the bytes are in B's memory, A alone has a completion", write(roce.RC, long)},
	{"RC RDMA WRITE with immediate", brief,
		"As before, and 32 bits more that take a receive of B's: that is how a writer says that it is done.",
		"the bytes are in place, B's completion has the immediate value", message(roce.RC, roce.WRWriteWithImm, brief)},
	{"RC RDMA READ", long, "A asks for B's memory with one packet, B's device answers with three.",
		"A has B's bytes", read},
	{"RC COMPARE AND SWAP", 8, "A asks B's device: if the counter is 41, make it 1000, and tell me what it was.",
		"it was 41 and is 1000", swap},
	{"RC FETCH AND ADD", 8, "A asks B's device: add 7 to the counter and tell me what it was.",
		"it was 1000 and is 1007", add},
	{"UC SEND / RECV", long, "The same message without a guarantee: nobody acknowledges, nothing is repeated.",
		"B has the message, both have a completion", message(roce.UC, roce.WRSend, long)},
	{"UC RDMA WRITE", long,
		"A's completion only says that the packets have left. B's program watches the last bytes of the buffer.",
		"the bytes are in B's memory", write(roce.UC, long)},
	{"UD SEND / RECV", brief, "A datagram: no connection, an address handle and a queue key instead. B's buffer " +
		"starts with the sender's IP header.",
		"B has the message and knows from the header who sent it", datagram},
}

// message is an operation that takes a receive of B's.
func message(t roce.QPType, op roce.WROpcode, n int) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		const imm = 0x600dcafe
		salt := byte(t)<<4 | byte(op)
		d.a.fill(source, n, salt)
		d.b.fill(arrival, n, ^salt)
		if err := d.b.qps[t].PostRecv(roce.RecvWR{SGL: []roce.SGE{d.b.mr.SGE(arrival, n)}}); err != nil {
			return err
		}
		if err := d.post(t, roce.SendWR{Opcode: op, Imm: imm, SGL: []roce.SGE{d.a.mr.SGE(source, n)}}); err != nil {
			return err
		}
		wc, err := d.b.wait(ctx)
		if err != nil {
			return err
		}
		if int(wc.ByteLen) != n {
			return fmt.Errorf("B's completion says %d bytes, want %d", wc.ByteLen, n)
		}
		if op == roce.WRWriteWithImm && (wc.Opcode != roce.WCRecvRDMAWithImm || wc.Imm != imm) {
			return fmt.Errorf("B's completion is %v with immediate 0x%08x, want 0x%08x", wc.Opcode, wc.Imm, imm)
		}
		d.b.expect(arrival, d.a, source, n)
		_, err = d.a.wait(ctx)
		return err
	}
}

// write is an operation that B's program has no part in. Without acknowledgements it has to watch
// its memory.
func write(t roce.QPType, n int) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		salt := byte(t) << 4
		d.a.fill(source, n, salt)
		d.b.fill(arrival, n, ^salt)
		if err := d.post(t, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{d.a.mr.SGE(source, n)}}); err != nil {
			return err
		}
		if _, err := d.a.wait(ctx); err != nil {
			return err
		}
		d.b.expect(arrival, d.a, source, n)
		return d.b.watch(ctx, arrival+n-8)
	}
}

// watch waits until 8 bytes of memory are as the model says. A message's last aligned word is
// written last, and in one go.
func (h *host) watch(ctx context.Context, off int) error {
	word := (*uint64)(unsafe.Pointer(&h.mem[off]))
	want := binary.NativeEndian.Uint64(h.model[off:])
	if err := h.cq.PollUntil(ctx, func() bool { return atomic.LoadUint64(word) == want }); err != nil {
		return fmt.Errorf("%s watches its memory: %w", h.name, cmp.Or(context.Cause(ctx), err))
	}
	if n := h.cq.Len(); n > 0 {
		return fmt.Errorf("%s has %d completions it should not have", h.name, n)
	}
	return nil
}

func read(ctx context.Context, d *demo) error {
	d.b.fill(source, long, 0x5a)
	d.a.fill(arrival, long, 0xa5)
	err := d.post(roce.RC, roce.SendWR{
		Opcode:     roce.WRRead,
		SGL:        []roce.SGE{d.a.mr.SGE(arrival, long)},
		RemoteAddr: d.b.mr.Addr() + source,
	})
	if err != nil {
		return err
	}
	d.a.expect(arrival, d.b, source, long)
	_, err = d.a.wait(ctx)
	return err
}

func swap(ctx context.Context, d *demo) error {
	d.b.set(counter, 41)
	return d.atomically(ctx, roce.SendWR{Opcode: roce.WRAtomicCmpAndSwp, CompareAdd: 41, Swap: 1000}, 41, 1000)
}

func add(ctx context.Context, d *demo) error {
	return d.atomically(ctx, roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd, CompareAdd: 7}, 1000, 1007)
}

// set puts a number into memory and model.
func (h *host) set(off int, v uint64) {
	binary.NativeEndian.PutUint64(h.mem[off:], v)
	binary.NativeEndian.PutUint64(h.model[off:], v)
}

// atomically posts an atomic on B's counter and says what A and B have then.
func (d *demo) atomically(ctx context.Context, wr roce.SendWR, was, is uint64) error {
	wr.SGL = []roce.SGE{d.a.mr.SGE(oldValue, 8)}
	wr.RemoteAddr = d.b.mr.Addr() + counter
	if err := d.post(roce.RC, wr); err != nil {
		return err
	}
	if _, err := d.a.wait(ctx); err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(d.a.model[oldValue:], was)
	binary.NativeEndian.PutUint64(d.b.model[counter:], is)
	return nil
}

func datagram(ctx context.Context, d *demo) error {
	d.a.fill(source, brief, 0x77)
	if err := d.b.qps[roce.UD].PostRecv(roce.RecvWR{SGL: []roce.SGE{d.b.mr.SGE(arrival,
		roce.GRHSize+brief)}}); err != nil {
		return err
	}
	err := d.post(roce.UD, roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{d.a.mr.SGE(source, brief)},
		AH: d.a.toUD, RemoteQPN: d.b.qps[roce.UD].QPN(), RemoteQKey: session.QKey})
	if err != nil {
		return err
	}
	wc, err := d.b.wait(ctx)
	if err != nil {
		return err
	}
	if wc.ByteLen != roce.GRHSize+brief || wc.Flags&roce.WCGRH == 0 || wc.SrcQP != d.a.qps[roce.UD].QPN() {
		return fmt.Errorf("B's completion says %d bytes from QP 0x%06x, flags %d", wc.ByteLen, wc.SrcQP, wc.Flags)
	}
	grh := d.b.mem[arrival:][:roce.GRHSize]
	ip := grh[20:] // an IPv4 header fills the second half of the 40 bytes
	if from, _ := netip.AddrFromSlice(ip[12:16]); ip[0] != 0x45 || from != d.a.s.GID.Addr() {
		return fmt.Errorf("the header in front of the datagram is % x, want one from %v", ip, d.a.s.GID.Addr())
	}
	copy(d.b.model[arrival:], grh)
	d.b.expect(arrival+roce.GRHSize, d.a, source, brief)
	_, err = d.a.wait(ctx)
	return err
}

// post posts a request of A's, with B's memory as its target unless it names another.
func (d *demo) post(t roce.QPType, wr roce.SendWR) error {
	wr.Flags = roce.SendSignaled
	wr.RKey = d.b.mr.RKey()
	if wr.RemoteAddr == 0 {
		wr.RemoteAddr = d.b.mr.Addr() + arrival
	}
	return d.a.qps[t].PostSend(wr)
}
