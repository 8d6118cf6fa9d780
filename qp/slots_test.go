package qp

// What is copied field by field, on purpose (see writeSend): no field may be forgotten.

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestSetCopiesAll: a completion in a queue is the one that was staged, whatever was there before.
func TestSetCopiesAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var from, to WC
		scribble(rnd, unsafe.Slice((*byte)(unsafe.Pointer(&from)), unsafe.Sizeof(from)))
		scribble(rnd, unsafe.Slice((*byte)(unsafe.Pointer(&to)), unsafe.Sizeof(to)))
		if to.set(&from); to != from {
			t.Fatalf("%+v became %+v", from, to)
		}
	}
}

// TestWriteSendFillsItsSlot: what a slot held before is gone, with every kind of request.
func TestWriteSendFillsItsSlot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []QPType{RC, XRCSend} {
		for op := range WROpcode(len(wrTable)) {
			q := &QP{typ: typ, traits: services[typ].traits}
			q.sq.init(2, 1, 16)
			q.maxMessage.Store(MaxMessage)
			wr := SendWR{WRID: 1, Opcode: op, RemoteAddr: 8, RKey: 2, Imm: 3, InvalidateKey: 4, CompareAdd: 5, Swap: 6, RemoteSRQN: 7,
				Flush: FlushInfo{Placement: PlacementGlobal}, Bind: &BindInfo{}}
			if rule := &wrTable[op]; rule.atomic {
				wr.SGL = []SGE{{Length: 8}}
			} else if op == WRWrite || op == WRSend {
				wr.SGL = []SGE{{Addr: 1, Length: 2, LKey: 3}}
			}
			if wrTable[op].types&(1<<typ) == 0 {
				continue
			}
			if err := q.writeSend(0, &wr); err != nil {
				t.Fatalf("%v of %v: %v", op, typ, err)
			}
			scribble(rnd, unsafe.Slice((*byte)(unsafe.Pointer(&q.sq.slots[1])), unsafe.Sizeof(q.sq.slots[1])))
			scribble(rnd, unsafe.Slice((*byte)(unsafe.Pointer(&q.sq.sges[1])), unsafe.Sizeof(q.sq.sges[1])))
			if err := q.writeSend(1, &wr); err != nil {
				t.Fatal(err)
			}
			if q.sq.slots[0] != q.sq.slots[1] || len(wr.SGL) > 0 && q.sq.sges[0] != q.sq.sges[1] {
				t.Errorf("%v of %v: %+v, want %+v", op, typ, q.sq.slots[1], q.sq.slots[0])
			}
		}
	}
}

func scribble(rnd *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
}
