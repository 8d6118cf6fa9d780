package roce

// Every operation on every kind of queue pair over every wire, with messages from nothing to many
// packets.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// messageSizes are below, at and above the packet size, unaligned, and long.
var messageSizes = []int{0, 1, 3, 64, 1023, 4096, 4097, 65536, 1<<20 + 1, 16 << 20}

const largest = 16 << 20

func eachSize(t *testing.T, limit int, f func(size int)) {
	for _, size := range messageSizes {
		if size > limit || testing.Short() && size > 1<<20 {
			continue
		}
		f(size)
		if t.Failed() {
			t.Fatalf("at %d bytes", size)
		}
	}
}

func TestSend(t *testing.T) {
	for _, typ := range []QPType{RC, UC} {
		overWires(t, func(t *testing.T, w wire2) {
			a, b := connected(t, w, typ, largest)
			eachSize(t, limitOf(typ, a), func(size int) {
				fill(a.buf[:size], size)
				clear(b.buf)
				b.recv(7, b.mr.SGE(0, size))
				a.post(SendWR{WRID: 8, Opcode: WRSendWithImm, Imm: 0xcafe0000 + uint32(size), SGL: []SGE{a.mr.SGE(0, size)}})
				if wc := a.wait(); wc.WRID != 8 || wc.Opcode != WCSend || wc.QPN != a.qp.QPN() {
					t.Errorf("sender's completion: %+v", wc)
				}
				wc := b.wait()
				if wc.WRID != 7 || wc.Opcode != WCRecv || wc.ByteLen != uint32(size) || wc.Flags&WCWithImm == 0 || wc.Imm != 0xcafe0000+uint32(size) {
					t.Errorf("receiver's completion: %+v", wc)
				}
				same(t, b.buf[:size], a.buf[:size])
			})
		})
	}
}

// limitOf keeps UC messages below what could overflow a socket's buffer: nobody would repeat what
// was lost. The kernel counts more for a packet than its bytes.
func limitOf(typ QPType, e *end) int {
	if typ == UC {
		return min(1<<20+1, max(e.dev.PortInfo().RecvBuffer, 4<<20)/4)
	}
	return largest
}

func TestWrite(t *testing.T) {
	for _, typ := range []QPType{RC, UC} {
		overWires(t, func(t *testing.T, w wire2) {
			a, b := connected(t, w, typ, largest)
			eachSize(t, limitOf(typ, a), func(size int) {
				fill(a.buf[:size], size+1)
				clear(b.buf)
				b.recv(9) // takes the immediate data
				a.post(SendWR{Opcode: WRWriteWithImm, Imm: 5, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				if wc := a.wait(); wc.Opcode != WCRDMAWrite {
					t.Errorf("writer's completion: %+v", wc)
				}
				if wc := b.wait(); wc.WRID != 9 || wc.Opcode != WCRecvRDMAWithImm || wc.Imm != 5 || wc.ByteLen != uint32(size) {
					t.Errorf("receiver's completion: %+v", wc)
				}
				same(t, b.buf[:size], a.buf[:size])
			})
		})
	}
}

// TestWritePlain has no completion at the target: the source's says that the data has arrived (RC).
func TestWritePlain(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 1<<20)
		eachSize(t, 1<<20, func(size int) {
			fill(a.buf[:size], size+2)
			a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.wait()
			same(t, b.buf[:size], a.buf[:size])
		})
	})
}

func TestRead(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, largest)
		// once: a READ that was repeated for nothing may still be answered while the next one
		// begins
		fill(b.buf, 3)
		eachSize(t, largest, func(size int) {
			clear(a.buf)
			a.post(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if wc := a.wait(); wc.Opcode != WCRDMARead || wc.ByteLen != uint32(size) {
				t.Errorf("completion: %+v", wc)
			}
			same(t, a.buf[:size], b.buf[:size])
		})
	})
}

func TestAtomics(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		target, result := b.buf[8:16], a.buf[:8]
		binary.NativeEndian.PutUint64(target, 40)
		wr := SendWR{SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()}
		for i, step := range []struct {
			op                   WROpcode
			arg, swap, old, want uint64
		}{
			{WRAtomicFetchAndAdd, 2, 0, 40, 42},
			{WRAtomicCmpAndSwp, 42, 7, 42, 7},
			{WRAtomicCmpAndSwp, 42, 9, 7, 7},
			{WRAtomicFetchAndAdd, ^uint64(0), 0, 7, 6},
		} {
			wr.Opcode, wr.CompareAdd, wr.Swap = step.op, step.arg, step.swap
			a.post(wr)
			a.wait()
			if old, is := binary.NativeEndian.Uint64(result), binary.NativeEndian.Uint64(target); old != step.old || is != step.want {
				t.Errorf("step %d: old %d, now %d; want %d, %d", i, old, is, step.old, step.want)
			}
		}
	})
}

func TestInlineAndScatterGather(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 4096)
		fill(a.buf, 1)
		b.recv(1, b.mr.SGE(3000, 5), b.mr.SGE(1000, 0), b.mr.SGE(10, 95))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(100, 1), a.mr.SGE(0, 90), a.mr.SGE(7, 0), a.mr.SGE(2000, 9)}})
		b.wait()
		a.wait()
		sent := append(append(bytes.Clone(a.buf[100:101]), a.buf[:90]...), a.buf[2000:2009]...)
		same(t, append(bytes.Clone(b.buf[3000:3005]), b.buf[10:105]...), sent)

		data := []byte("read while posting, free at once")
		want := bytes.Clone(data)
		b.recv(2, b.mr.SGE(0, 100))
		a.post(SendWR{Opcode: WRSend, Flags: SendInline, Inline: data})
		clear(data)
		b.wait()
		same(t, b.buf[:len(want)], want)
	})
}

func TestDatagrams(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, UD, 8192), newEnd(t, db, UD, 8192)
		const qkey = 0x1234
		must(t, a.qp.Activate(qkey))
		must(t, b.qp.Activate(qkey))
		ah, err := a.pd.CreateAH(bg, AHAttr{DGID: b.qp.Endpoint().GID})
		must(t, err)
		defer func() { must(t, a.pd.DestroyAH(ah)) }()
		for i, size := range []int{0, 1, 1000, 4096} {
			fill(a.buf[:size], i)
			b.recv(uint64(i), b.mr.SGE(0, GRHSize+4096))
			a.post(SendWR{Opcode: WRSendWithImm, Imm: 77, SGL: []SGE{a.mr.SGE(0, size)}, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
			a.wait()
			wc := b.wait()
			if wc.SrcQP != a.qp.QPN() || wc.Flags != WCGRH|WCWithImm || wc.Imm != 77 || wc.ByteLen != uint32(GRHSize+size) {
				t.Errorf("%d bytes: %+v", size, wc)
			}
			same(t, b.buf[GRHSize:GRHSize+size], a.buf[:size])
		}
	})
}

// TestMulticast: a datagram to a group reaches every queue pair that is attached, and none that is
// not any more.
func TestMulticast(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b, c := newEnd(t, da, UD, 4096), newEnd(t, db, UD, 4096), newEnd(t, db, UD, 4096)
		group, err := ParseGID("239.7.7.7")
		must(t, err)
		for _, e := range []*end{a, b, c} {
			must(t, e.qp.Activate(9))
			e.recv(1, e.mr.SGE(0, 100))
			e.recv(2, e.mr.SGE(0, 100))
		}
		for _, e := range []*end{b, c} {
			must(t, e.qp.AttachMcast(group))
			must(t, e.qp.AttachMcast(group)) // once is enough
		}
		ah, err := a.pd.CreateAH(bg, AHAttr{DGID: group})
		must(t, err)
		defer func() { must(t, a.pd.DestroyAH(ah)) }()
		send := func() {
			a.post(SendWR{Opcode: WRSend, Flags: SendInline, Inline: []byte("all"), AH: ah, RemoteQPN: 0xffffff, RemoteQKey: 9})
			a.wait()
		}
		send()
		for _, e := range []*end{b, c} {
			if wc := e.wait(); wc.WRID != 1 || wc.ByteLen != GRHSize+3 || string(e.buf[GRHSize:GRHSize+3]) != "all" {
				t.Errorf("%+v", wc)
			}
		}
		other, err := ParseGID("239.7.7.70")
		must(t, err)
		must(t, b.qp.AttachMcast(other))
		must(t, b.qp.DetachMcast(other)) // and not the first one
		must(t, c.qp.DetachMcast(group))
		refused(t, c.qp.DetachMcast(group), ErrInvalid)
		send()
		b.wait()
		if n, _ := c.cq.Poll(make([]WC, 1)); n != 0 {
			t.Error("a queue pair that was detached received")
		}
	})
	e := newEnd(t, openDevice(t, "pipe:mc", nil), RC, 64)
	refused(t, e.qp.AttachMcast(GID{0: 0xff}), ErrInvalid, "UD")
}

// TestErrorsOfThePeer: what a connection ends with when a request breaks a rule at the other side.
func TestErrorsOfThePeer(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		for _, c := range []struct {
			name string
			wr   func(a, b *end) SendWR
			want WCStatus
		}{
			{"write with a wrong key", func(a, b *end) SendWR {
				return SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}
			}, WCRemAccessErr},
			{"read beyond the end", func(a, b *end) SendWR {
				return SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 60, RKey: b.mr.RKey()}
			}, WCRemAccessErr},
			{"atomic without the right", func(a, b *end) SendWR {
				plain, err := b.pd.RegMR(b.buf, RemoteRead)
				must(t, err)
				t.Cleanup(func() { must(t, plain.Close()) })
				return SendWR{Opcode: WRAtomicFetchAndAdd, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: plain.Addr(), RKey: plain.RKey()}
			}, WCRemAccessErr},
			{"send from outside the region", func(a, b *end) SendWR {
				return SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(60, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
			}, WCLocProtErr},
			{"send with a key of another PD", func(a, b *end) SendWR {
				other := newEnd(t, a.dev, RC, 64)
				return SendWR{Opcode: WRWrite, SGL: []SGE{other.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
			}, WCLocProtErr},
		} {
			a, b := connected(t, w, RC, 64)
			a.post(c.wr(a, b))
			a.post(SendWR{WRID: 2, Opcode: WRSend})
			if wc := a.waitAny(); wc.Status != c.want {
				t.Errorf("%s: %v, want %v", c.name, wc.Status, c.want)
			}
			if wc := a.waitAny(); wc.WRID != 2 || wc.Status != WCWRFlushErr {
				t.Errorf("%s: the request behind it: %v, want %v", c.name, wc.Status, WCWRFlushErr)
			}
			if s := a.qp.State(); s != StateErr {
				t.Errorf("%s: state %v", c.name, s)
			}
		}
	})
}

// TestWindow binds a memory window, uses it, and has the peer take it back.
func TestWindow(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 4096)
		region, err := b.pd.RegMR(b.buf, LocalWrite|MWBind)
		must(t, err)
		window, err := b.pd.AllocMW(MWType2)
		must(t, err)
		defer func() {
			must(t, window.Close())
			must(t, region.Close())
		}()
		key := IncRKey(window.RKey())
		b.post(SendWR{Opcode: WRBindMW, Bind: &BindInfo{WindowKey: window.RKey(), NewKey: key, LKey: region.LKey(),
			Addr: region.Addr() + 100, Length: 50, Access: RemoteWrite}})
		b.wait()
		fill(a.buf, 4)
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 50)}, RemoteAddr: region.Addr() + 100, RKey: key})
		a.wait()
		b.recv(1)
		a.post(SendWR{Opcode: WRSendWithInv, InvalidateKey: key})
		a.wait()
		if wc := b.wait(); wc.Flags&WCWithInv == 0 || wc.InvalidatedRKey != key {
			t.Errorf("completion of the invalidation: %+v", wc)
		}
		same(t, b.buf[100:150], a.buf[:50])
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 50)}, RemoteAddr: region.Addr() + 100, RKey: key})
		if wc := a.waitAny(); wc.Status != WCRemAccessErr {
			t.Errorf("write through an invalidated window: %v", wc.Status)
		}
	})
}

func same(t testing.TB, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("%d bytes differ from %d wanted, first at %d: %s", len(got), len(want), i, excerpt(got, want, i))
	}
}

func excerpt(got, want []byte, i int) string {
	cut := func(b []byte) []byte { return b[min(i, len(b)):min(i+8, len(b))] }
	return fmt.Sprintf("% x instead of % x", cut(got), cut(want))
}
