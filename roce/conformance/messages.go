package conformance

// Operations of RC and UC: what one end posts arrives whole at the other, and completes once.

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/roce"
)

// sizes are below, at and above what a packet carries.
var sizes = []int{0, 1, 3, 255, 1024, 4096, 4097, 65537}

const largest = 65537

func messages() []Case {
	cases := []Case{
		{"WRITE of RC", writeAll, writtenAll},
		{"READ", readAll, readFrom},
		{"READ and WRITE of 1 MiB", hugeActs, hugeServes},
		{"atomics", atomicsAct, atomicsServe},
		{"fence", fenceActs, fenceServes},
		{"inline", inlineActs, inlineServes},
		{"scatter and gather", scatterActs, scatterServes},
		{"unsignaled requests", unsignaledActs, batchServes},
		{"a batch in order", batchActs, batchServes},
		{"requests built piece by piece", builtActs, builtServes},
		{"memory that the program forgot", forgottenActs, forgottenServes},
		{"messages that allocate nothing", thriftyActs, thriftyServes},
		{"several queue pairs of a completion queue", severalAct, severalServe},
	}
	for _, typ := range []roce.QPType{roce.RC, roce.UC} {
		cases = append(cases,
			Case{fmt.Sprintf("SEND of %v", typ), func(e *End) { sendAll(e, typ) }, func(e *End) { receiveAll(e, typ) }},
			Case{fmt.Sprintf("WRITE with immediate of %v", typ),
				func(e *End) { writeImm(e, typ) }, func(e *End) { writtenImm(e, typ) }})
	}
	return cases
}

const immediate = 0xcafe0001

func sendAll(e *End, typ roce.QPType) {
	e.Join(typ, largest)
	for i, n := range sizes {
		copy(e.Buf, pattern(n, i))
		e.Sync() // the receive is posted
		e.Send(roce.SendWR{WRID: uint64(i), Opcode: roce.WRSendWithImm, Flags: roce.SendSignaled,
			Imm: immediate + uint32(n), SGL: []roce.SGE{e.MR.SGE(0, n)}})
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == uint64(i) && wc.QPN == e.QP.QPN(), "%+v", wc)
		e.Sync()
	}
}

func receiveAll(e *End, typ roce.QPType) {
	e.Join(typ, largest)
	for i, n := range sizes {
		clear(e.Buf)
		e.Recv(uint64(100+i), 0, n)
		e.Sync()
		wc := e.Good(roce.WCRecv)
		e.Check(wc.WRID == uint64(100+i) && wc.ByteLen == uint32(n) && wc.Flags&roce.WCWithImm != 0 &&
			wc.Imm == immediate+uint32(n), "%d bytes: %+v", n, wc)
		e.Same(e.Buf[:n], i)
		e.Sync()
	}
}

func writeAll(e *End) {
	e.Join(roce.RC, largest)
	for i, n := range sizes {
		copy(e.Buf, pattern(n, i))
		e.Send(e.reach(roce.WRWrite, 0, n))
		e.Good(roce.WCRDMAWrite) // so it has arrived
		e.Sync()
		e.Sync()
	}
}

func writtenAll(e *End) {
	e.Join(roce.RC, largest)
	for i, n := range sizes {
		e.Sync()
		e.Same(e.Buf[:n], i)
		clear(e.Buf)
		e.Sync()
	}
}

func writeImm(e *End, typ roce.QPType) {
	e.Join(typ, largest)
	for i, n := range sizes {
		copy(e.Buf, pattern(n, i))
		e.Sync()
		wr := e.reach(roce.WRWriteWithImm, 0, n)
		wr.Imm = immediate
		e.Send(wr)
		e.Good(roce.WCRDMAWrite)
		e.Sync()
	}
}

func writtenImm(e *End, typ roce.QPType) {
	e.Join(typ, largest)
	for i, n := range sizes {
		clear(e.Buf)
		e.Must(e.QP.PostRecv(roce.RecvWR{WRID: 9}))
		e.Sync()
		wc := e.Good(roce.WCRecvRDMAWithImm)
		e.Check(wc.WRID == 9 && wc.Imm == immediate && wc.ByteLen == uint32(n), "%d bytes: %+v", n, wc)
		e.Same(e.Buf[:n], i)
		e.Sync()
	}
}

func readAll(e *End) {
	e.Join(roce.RC, largest)
	e.Sync() // the memory is filled
	for _, n := range sizes {
		clear(e.Buf)
		e.Send(e.reach(roce.WRRead, 0, n))
		e.Good(roce.WCRDMARead)
		e.Same(e.Buf[:n], 5)
	}
}

func readFrom(e *End) {
	e.Join(roce.RC, largest)
	copy(e.Buf, pattern(largest, 5))
	e.Sync()
}

const huge = 1 << 20

func hugeActs(e *End) {
	e.Join(roce.RC, 2*huge)
	copy(e.Buf, pattern(huge, 1))
	e.Send(e.reach(roce.WRWrite, 0, huge), e.reach(roce.WRRead, huge, huge))
	e.Good(roce.WCRDMAWrite)
	e.Good(roce.WCRDMARead)
	e.Same(e.Buf[huge:], 1) // a READ sees what the WRITE before it has written
}

func hugeServes(e *End) { e.Join(roce.RC, 2*huge) }

// atomicSteps are requests with what they find.
var atomicSteps = []struct {
	op        roce.WROpcode
	add, swap uint64
	found     uint64
}{
	{roce.WRAtomicFetchAndAdd, 2, 0, 40},
	{roce.WRAtomicCmpAndSwp, 41, 7, 42}, // does not match
	{roce.WRAtomicCmpAndSwp, 42, 1<<64 - 1, 42},
	{roce.WRAtomicFetchAndAdd, 2, 0, 1<<64 - 1}, // wraps
	{roce.WRAtomicFetchAndAdd, 0, 0, 1},
}

func atomicsAct(e *End) {
	if e.Query().AtomicCap == 0 {
		e.Skip("%s has no atomics", e.Name())
	}
	e.Join(roce.RC, 64)
	e.Sync()
	for i, s := range atomicSteps {
		op := roce.WCFetchAdd
		if s.op == roce.WRAtomicCmpAndSwp {
			op = roce.WCCompSwap
		}
		e.Send(roce.SendWR{Opcode: s.op, Flags: roce.SendSignaled, SGL: []roce.SGE{e.MR.SGE(0, 8)},
			RemoteAddr: e.Peer.Addr + 8, RKey: e.Peer.RKey, CompareAdd: s.add, Swap: s.swap})
		e.Good(op)
		got := binary.NativeEndian.Uint64(e.Buf)
		e.Check(got == s.found, "step %d found %d, want %d", i, got, s.found)
	}
	err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd, SGL: []roce.SGE{e.MR.SGE(0, 8)},
		RemoteAddr: e.Peer.Addr + 4, RKey: e.Peer.RKey})
	e.Refused("an atomic at an address that is not aligned", err, roce.ErrInvalid)
}

func atomicsServe(e *End) {
	if e.Query().AtomicCap == 0 {
		e.Skip("%s has no atomics", e.Name())
	}
	e.Join(roce.RC, 64)
	binary.NativeEndian.PutUint64(e.Buf[8:], 40)
	e.Sync()
}

// fenceActs sends what a READ before it brings.
func fenceActs(e *End) {
	e.Join(roce.RC, 4096)
	e.Sync()
	read := e.reach(roce.WRRead, 0, 4096)
	read.Flags = 0
	e.Send(read,
		roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendFence, SGL: []roce.SGE{e.MR.SGE(0, 4096)}})
	e.Good(roce.WCSend)
}

func fenceServes(e *End) {
	e.Join(roce.RC, 8192)
	copy(e.Buf, pattern(4096, 3))
	e.Recv(1, 4096, 4096)
	e.Sync()
	e.Good(roce.WCRecv)
	e.Same(e.Buf[4096:], 3)
}

func inlineActs(e *End) {
	e.Join(roce.RC, 64)
	e.Sync()
	data := pattern(48, 2)
	e.Send(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline, Inline: data},
		roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline})
	clear(data) // it was copied
	e.Good(roce.WCSend)
	e.Good(roce.WCSend)
	copy(e.Buf, pattern(48, 4))
	pieces := []roce.SGE{e.MR.SGE(0, 8), {}, e.MR.SGE(8, 39), e.MR.SGE(47, 1)}
	pieces[0].LKey, pieces[2].LKey, pieces[3].LKey = 0, 0, 0 // nobody looks at it
	e.Send(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline, SGL: pieces[:3]},
		roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline, SGL: pieces[3:]})
	clear(e.Buf)
	e.Good(roce.WCSend)
	e.Good(roce.WCSend)
	const unmapped = 4096
	nowhere := []roce.SGE{{Addr: unmapped, Length: 8}}
	err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, SGL: nowhere})
	e.Refused("inline of memory that is not mapped", err, roce.ErrInvalid)
	err = e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: make([]byte, 1<<16)})
	e.Refused("64 KiB inline", err, roce.ErrInvalid)
}

func inlineServes(e *End) {
	e.Join(roce.RC, 4*64)
	for i := range 4 {
		e.Recv(uint64(i), 64*i, 64)
	}
	e.Sync()
	for i, n := range []uint32{48, 0, 47, 1} {
		wc := e.Good(roce.WCRecv)
		e.Check(wc.ByteLen == n, "message %d: %+v", i, wc)
	}
	e.Same(e.Buf[:48], 2)
	copy(e.Buf[128+47:], e.Buf[192:193])
	e.Same(e.Buf[128:][:48], 4)
}

// scattered is the length of a message in pieces.
const scattered = 3001 + 2999 + 1999

// scatterActs gathers three pieces in another order, which the other end spreads over two.
func scatterActs(e *End) {
	e.Join(roce.RC, 10000)
	whole := pattern(scattered, 4)
	copy(e.Buf[5000:], whole[:3001])
	copy(e.Buf, whole[3001:6000])
	copy(e.Buf[8001:], whole[6000:])
	e.Sync()
	e.Send(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled,
		SGL: []roce.SGE{e.MR.SGE(5000, 3001), e.MR.SGE(0, 2999), e.MR.SGE(8001, 1999)}})
	e.Good(roce.WCSend)
	err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: make([]roce.SGE, 300)})
	e.Refused("300 elements", err, roce.ErrInvalid)
}

func scatterServes(e *End) {
	e.Join(roce.RC, 10000)
	e.Must(e.QP.PostRecv(roce.RecvWR{SGL: []roce.SGE{e.MR.SGE(9000, 17), e.MR.SGE(0, scattered)}}))
	e.Sync()
	wc := e.Good(roce.WCRecv)
	e.Check(wc.ByteLen == scattered, "%+v", wc)
	e.Same(append(e.Buf[9000:9017:9017], e.Buf[:scattered-17]...), 4)
}

// batch is how many requests are posted with one call.
const batch = 48

func batchOf(e *End, last roce.SendFlags, each roce.SendFlags) {
	e.Join(roce.RC, 16*batch)
	copy(e.Buf, pattern(len(e.Buf), 6))
	e.Sync()
	wrs := make([]roce.SendWR, batch)
	for i := range wrs {
		wrs[i] = roce.SendWR{WRID: uint64(i), Opcode: roce.WRSend, Flags: each, SGL: []roce.SGE{e.MR.SGE(16*i, 16)}}
	}
	wrs[batch-1].Flags = last
	e.Send(wrs...)
}

func batchActs(e *End) {
	batchOf(e, roce.SendSignaled, roce.SendSignaled)
	for i := range batch {
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == uint64(i), "request %d completed in place %d", wc.WRID, i)
	}
}

func unsignaledActs(e *End) {
	batchOf(e, roce.SendSignaled, 0)
	wc := e.Good(roce.WCSend)
	e.Check(wc.WRID == batch-1, "request %d was not signaled and has completed", wc.WRID)
	var wcs [1]roce.WC
	n, err := e.CQ.Poll(wcs[:])
	e.Must(err)
	e.Check(n == 0, "another completion: %+v", wcs[0])
}

func batchServes(e *End) {
	e.Join(roce.RC, 16*batch)
	for i := range batch {
		e.Recv(uint64(i), 16*i, 16)
	}
	e.Sync()
	for i := range batch {
		wc := e.Good(roce.WCRecv)
		e.Check(wc.WRID == uint64(i), "receive %d completed in place %d", wc.WRID, i)
	}
	e.Same(e.Buf, 6)
}

// forgottenActs writes to memory that the other end's program has no reference to any more. The
// device has, so it is not collected before its region is closed.
func forgottenActs(e *End) {
	e.Join(roce.RC, 4096)
	copy(e.Buf, pattern(4096, 8))
	e.Hear(&e.Peer)
	e.Send(e.reach(roce.WRWrite, 0, 4096))
	e.Good(roce.WCRDMAWrite)
	e.Sync()
}

func forgottenServes(e *End) {
	e.Join(roce.RC, 8)
	const tries = 8
	m := e.Region(make([]byte, 4096), roce.LocalWrite|roce.RemoteWrite)
	e.Tell(Card{Addr: m.Addr(), RKey: m.RKey()})
	var others [tries][]byte
	for i := range others {
		runtime.GC()
		others[i] = make([]byte, 4096)
	}
	e.Sync()
	e.Same(m.Bytes(), 8)
	for i := range others {
		e.Check(atomic.LoadUint32((*uint32)(unsafe.Pointer(&others[i][0]))) == 0, "new memory was written")
	}
}

// thriftyActs posts and polls many messages. Others in the process may allocate meanwhile, so the
// least of several times counts. In the first, what is used again and again is made, such as the
// places of a pipe.
func thriftyActs(e *End) {
	e.Join(roce.RC, 64)
	const times, many = 8, 1000
	var wcs [4]roce.WC
	var before, after runtime.MemStats
	least := uint64(math.MaxUint64)
	for i := 0; i < times && least >= many/4; i++ {
		runtime.ReadMemStats(&before)
		for range many {
			err := e.QP.PostSend(e.reach(roce.WRWrite, 0, 8))
			for n := 0; n == 0 && err == nil; {
				if n, err = e.CQ.Poll(wcs[:]); n == 0 && err == nil {
					err = e.ctx.Err()
				}
			}
			e.Must(err)
			if wcs[0].Status != roce.WCSuccess { // Check would allocate
				e.Fail("%+v", wcs[0])
			}
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	if !raced { // the race detector allocates
		e.Check(least < many/4, "%d messages made %d allocations", many, least)
	}
}

func thriftyServes(e *End) { e.Join(roce.RC, 64) }

const queues = 8

func severalQueues(e *End) (all []*roce.QP, peers []roce.Endpoint) {
	e.Furnish(64 * queues)
	var cards []roce.Endpoint
	for range queues {
		q := e.Queue(roce.RC)
		all, cards = append(all, q), append(cards, q.Endpoint())
	}
	e.Tell(cards)
	e.Hear(&peers)
	o := options()
	o.MTU = roce.MTU1024
	for i, q := range all {
		e.Must(q.Connect(e.ctx, peers[i], &o))
	}
	e.Sync()
	return all, peers
}

func severalAct(e *End) {
	all, _ := severalQueues(e)
	e.Sync()
	for i, q := range all {
		e.Buf[64*i] = byte(i)
		e.Must(q.PostSend(roce.SendWR{WRID: uint64(i), Opcode: roce.WRSend, Flags: roce.SendSignaled,
			SGL: []roce.SGE{e.MR.SGE(64*i, 64)}}))
	}
	for range all {
		wc := e.Good(roce.WCSend)
		e.Check(wc.QPN == all[wc.WRID].QPN(), "request %d of QP 0x%x", wc.WRID, wc.QPN)
	}
}

func severalServe(e *End) {
	all, _ := severalQueues(e)
	for i, q := range all {
		e.Must(q.PostRecv(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{e.MR.SGE(64*i, 64)}}))
	}
	e.Sync()
	for range all {
		wc := e.Good(roce.WCRecv)
		e.Check(wc.QPN == all[wc.WRID].QPN() && e.Buf[64*wc.WRID] == byte(wc.WRID), "%+v", wc)
	}
}

// builtActs posts lists that it builds piece by piece: one that is refused as a whole, one of all
// that an RC queue pair does.
func builtActs(e *End) {
	e.Join(roce.RC, 1024)
	x := e.QP.Ex()
	copy(e.Buf, pattern(100, 5))
	e.Sync()
	x.WRStart()
	x.WRID, x.WRFlags = 99, roce.SendSignaled
	x.WRSend()
	x.WRSetSGE(e.MR.SGE(0, 8))
	x.WRAtomicFetchAdd(e.Peer.RKey, e.Peer.Addr, 1)
	x.WRSetSGE(e.MR.SGE(0, 4))
	e.Refused("an atomic of 4 bytes", x.WRComplete(), roce.ErrInvalid)

	rkey, addr := e.Peer.RKey, e.Peer.Addr
	builds := []struct {
		wc    roce.WCOpcode
		build func()
	}{
		{roce.WCSend, func() { x.WRSendImm(immediate); x.WRSetInlineData(e.Buf[:20]) }},
		{roce.WCRDMAWrite, func() {
			x.WRRDMAWrite(rkey, addr+200)
			x.WRSetSGEList([]roce.SGE{e.MR.SGE(0, 60), e.MR.SGE(60, 40)})
		}},
		{roce.WCRDMARead, func() { x.WRRDMARead(rkey, addr+200); x.WRSetSGE(e.MR.SGE(200, 100)) }},
		{roce.WCFetchAdd, func() { x.WRAtomicFetchAdd(rkey, addr+504, 7); x.WRSetSGE(e.MR.SGE(504, 8)) }},
		{roce.WCCompSwap, func() { x.WRAtomicCmpSwp(rkey, addr+504, 7, 9); x.WRSetSGE(e.MR.SGE(512, 8)) }},
		{roce.WCRDMAWrite, func() {
			x.WRRDMAWriteImm(rkey, addr, immediate)
			x.WRSetInlineDataList([][]byte{{1, 2}, {3}})
		}},
	}
	x.WRStart()
	for i, b := range builds {
		x.WRID = uint64(i)
		b.build()
	}
	e.Must(x.WRComplete())
	for i, b := range builds {
		wc := e.Good(b.wc)
		e.Check(wc.WRID == uint64(i), "request %d in place %d", wc.WRID, i)
	}
	e.Same(e.Buf[200:300], 5)
	found := binary.NativeEndian.Uint64(e.Buf[512:])
	e.Check(found == 7, "the swap found %d, want 7", found)
	e.Sync()
}

func builtServes(e *End) {
	e.Join(roce.RC, 1024)
	e.Recv(1, 600, 100)
	e.Recv(2, 700, 100)
	e.Sync()
	wc := e.Good(roce.WCRecv)
	e.Check(wc.WRID == 1 && wc.ByteLen == 20 && wc.Imm == immediate, "%+v", wc)
	e.Same(e.Buf[600:620], 5)
	wc = e.Good(roce.WCRecvRDMAWithImm)
	e.Check(wc.WRID == 2 && wc.ByteLen == 3 && wc.Imm == immediate, "%+v", wc)
	e.Sync()
	e.Check(e.Buf[0] == 1 && e.Buf[2] == 3, "written %d", e.Buf[:3])
	e.Same(e.Buf[200:300], 5)
	e.Check(binary.NativeEndian.Uint64(e.Buf[504:]) == 9, "%d, want 9", binary.NativeEndian.Uint64(e.Buf[504:]))
}
