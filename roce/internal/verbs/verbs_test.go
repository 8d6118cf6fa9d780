//go:build verbs

package verbs

// What needs no device: how requests and attributes look to the library, what is refused before it
// sees them, how completions are read, sleeping on a descriptor, and that nothing is allocated.
// That the layout and the numbers are the library's holds when it compiles (glue.h, numbers.go).

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// detached is a queue pair of no device.
func detached(t testing.TB, typ qp.QPType) *QP {
	d := &Device{device: "none", port: 2, maxMessage: 1 << 20, activeMTU: uint8(wire.MTU1024), live: map[unsafe.Pointer]any{},
		rows: []row{{gid: gid(t, "192.0.2.1"), index: 7}, {gid: gid(t, "2001:db8::1"), index: 3}}}
	d.attr.max_qp_rd_atom, d.attr.max_qp_init_rd_atom, d.attr.max_qp_wr, d.attr.max_sge = 16, 8, 100, 4
	pd := &PD{dev: d, queues: map[*QP]struct{}{}, regions: map[uint32]*MR{}, windows: map[uint32]*MW{}}
	q := &QP{pd: pd, typ: typ, qpn: 0x1a, cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 16}}
	q.send.init(&q.cap)
	q.recv.init(q.cap.MaxRecvWR, q.cap.MaxRecvSGE)
	t.Cleanup(q.send.free)
	t.Cleanup(q.recv.free)
	return q
}

func gid(t testing.TB, s string) wire.GID {
	g, err := wire.ParseGID(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// made and one make what a type of C stands for, which has no name in tests.
func made[T any](*T) *T  { return &zeroed[T](1)[0] }
func one[T any]([]T) []T { return zeroed[T](1) }

func readNow(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSendsAsTheLibrarySeesThem(t *testing.T) {
	q := detached(t, qp.RC)
	sgl := []qp.SGE{{Addr: 0x1000, Length: 3, LKey: 9}, {Addr: 0x2000, Length: 5, LKey: 10}}
	must(t, q.writeSend(1, &qp.SendWR{WRID: 1 << 63, Opcode: qp.WRWriteWithImm, Flags: qp.SendSignaled | qp.SendFence, SGL: sgl,
		Imm: 0x01020304, RemoteAddr: 0xabcd, RKey: 77}))
	c := &q.send.wrs[1]
	if uint64(c.wr_id) != 1<<63 || c.opcode != uint32(qp.WRWriteWithImm) || qp.SendFlags(c.send_flags) != qp.SendSignaled|qp.SendFence {
		t.Errorf("%+v", c)
	}
	if c.anon0 != [4]byte{1, 2, 3, 4} {
		t.Errorf("the immediate is %x, not in network order", c.anon0)
	}
	if p := (*rdmaPart)(unsafe.Pointer(&c.wr)); p.remoteAddr != 0xabcd || p.rkey != 77 {
		t.Errorf("%+v", p)
	}
	if c.num_sge != 2 || c.sg_list != &q.send.sges[2] || q.send.sges[3].addr != 0x2000 || q.send.sges[3].length != 5 ||
		q.send.sges[3].lkey != 10 {
		t.Errorf("%+v, elements %+v", c, q.send.sges)
	}
	if q.send.wrs[0].next != c || q.send.wrs[3].next != nil {
		t.Error("the requests are not linked")
	}

	must(t, q.writeSend(0, &qp.SendWR{
		Opcode:     qp.WRAtomicCmpAndSwp,
		SGL:        []qp.SGE{{Length: 8}},
		RemoteAddr: 64,
		RKey:       5,
		CompareAdd: 6,
		Swap:       7,
	}))
	if p := (*atomicPart)(unsafe.Pointer(&q.send.wrs[0].wr)); *p != (atomicPart{64, 6, 7, 5}) {
		t.Errorf("%+v", p)
	}
	must(t, q.writeSend(0, &qp.SendWR{Opcode: qp.WRSendWithInv, InvalidateKey: 0x0a0b0c0d}))
	if got := binary.NativeEndian.Uint32(q.send.wrs[0].anon0[:]); got != 0x0a0b0c0d {
		t.Errorf("invalidates 0x%08x", got)
	}

	text := []byte("of elements ")
	at := mr.AddrOf(text)
	for want, wr := range map[string]qp.SendWR{
		"inline":      {Inline: []byte("inline")},
		"elements of": {SGL: []qp.SGE{{Addr: at + 3, Length: 9}, {Addr: at, Length: 2}}},
	} {
		wr.Opcode, wr.Flags = qp.WRSend, qp.SendInline
		must(t, q.writeSend(2, &wr))
		e := &q.send.sges[4]
		if text := unsafe.String((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&e.addr))), e.length); text != want ||
			q.send.wrs[2].num_sge != 1 {
			t.Errorf("inline data is %q, want %q", text, want)
		}
	}
	runtime.KeepAlive(text)
	must(t, q.writeSend(2, &qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendInline}))
	if q.send.wrs[2].num_sge != 0 {
		t.Error("no bytes inline are an element")
	}
}

func TestBindsAndDatagrams(t *testing.T) {
	q := detached(t, qp.RC)
	w, m := &MW{pd: q.pd, typ: mr.Window2}, &MR{pd: q.pd}
	w.mw, m.mr = made(w.mw), made(m.mr)
	q.pd.windows[windowKey(0x1200)], q.pd.regions[5] = w, m
	bind := &qp.SendWR{Opcode: qp.WRBindMW, Bind: &qp.BindInfo{
		WindowKey: 0x1201,
		NewKey:    0x1202,
		LKey:      5,
		Addr:      1,
		Length:    2,
		Access:    mr.RemoteRead,
	}}
	must(t, q.writeSend(0, bind))
	p := (*bindPart)(unsafe.Pointer(&q.send.wrs[0].anon1))
	if p.mw != w.mw || p.mr != m.mr || p.rkey != 0x1202 || p.addr != 1 || p.length != 2 || p.access != uint32(mr.RemoteRead) ||
		w.mw.rkey != 0x1201 {
		t.Errorf("%+v, present key 0x%x", p, w.mw.rkey)
	}
	q.noteWindow(bind)
	if w.RKey() != 0x1202 || !w.Bound() || w.mw.rkey != 0x1202 {
		t.Errorf("key 0x%x, bound %v", w.RKey(), w.Bound())
	}
	q.noteWindow(&qp.SendWR{Opcode: qp.WRLocalInv, InvalidateKey: 0x1202})
	if w.Bound() {
		t.Error("still bound")
	}

	ud := detached(t, qp.UD)
	handle := qp.ForeignAH(qp.AHAttr{DGID: gid(t, "192.0.2.2")}, &AH{pd: ud.pd})
	must(t, ud.writeSend(0, &qp.SendWR{Opcode: qp.WRSend, AH: handle, RemoteQPN: 4, RemoteQKey: 5}))
	if p := (*datagramPart)(unsafe.Pointer(&ud.send.wrs[0].wr)); p.remoteQPN != 4 || p.remoteQKey != 5 {
		t.Errorf("%+v", p)
	}
	for name, ah := range map[string]*qp.AH{"none": nil, "an engine's": {}, "another PD's": qp.ForeignAH(qp.AHAttr{}, &AH{pd: q.pd})} {
		if err := ud.writeSend(0, &qp.SendWR{Opcode: qp.WRSend, AH: ah}); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("address handle: %s: %v", name, err)
		}
	}
	handle.Foreign().(*AH).dead.Store(true)
	if err := ud.writeSend(0, &qp.SendWR{Opcode: qp.WRSend, AH: handle}); !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("a dead handle: %v", err)
	}
}

func TestSendsThatAreRefused(t *testing.T) {
	q := detached(t, qp.RC)
	three, long := make([]qp.SGE, 3), make([]byte, 17)
	for name, wr := range map[string]qp.SendWR{
		"no operation":        {Opcode: 13},
		"far from one":        {Opcode: 255},
		"elements":            {Opcode: qp.WRSend, SGL: three},
		"too long":            {Opcode: qp.WRSend, SGL: []qp.SGE{{Length: 1 << 20}, {Length: 1}}},
		"inline and elements": {Opcode: qp.WRSend, Flags: qp.SendInline, SGL: three[:1], Inline: []byte{1}},
		"inline, not mapped":  {Opcode: qp.WRSend, Flags: qp.SendInline, SGL: []qp.SGE{{Addr: 4096, Length: 1}}},
		"inline elements":     {Opcode: qp.WRSend, Flags: qp.SendInline, SGL: []qp.SGE{{Addr: mr.AddrOf(long), Length: 17}}},
		"inline not said":     {Opcode: qp.WRSend, Inline: []byte{1}},
		"inline too long":     {Opcode: qp.WRSend, Flags: qp.SendInline, Inline: make([]byte, 17)},
		"READ inline":         {Opcode: qp.WRRead, Flags: qp.SendInline},
		"atomic of 4":         {Opcode: qp.WRAtomicFetchAndAdd, SGL: []qp.SGE{{Length: 4}}},
		"atomic unaligned":    {Opcode: qp.WRAtomicFetchAndAdd, SGL: []qp.SGE{{Length: 8}}, RemoteAddr: 4},
		"bind of nothing":     {Opcode: qp.WRBindMW},
		"bind of no window":   {Opcode: qp.WRBindMW, Bind: &qp.BindInfo{WindowKey: 0x100, NewKey: 0x101}},
		"bind to other key":   {Opcode: qp.WRBindMW, Bind: &qp.BindInfo{WindowKey: 0x100, NewKey: 0x201}},
		"invalidate elements": {Opcode: qp.WRLocalInv, SGL: three[:1]},
	} {
		if err := q.writeSend(0, &wr); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := q.PostSend(make([]qp.SendWR, 1)); !errors.Is(err, qp.ErrState) {
		t.Errorf("in RESET: %v", err)
	}
	if _, err := q.PostRecv(make([]qp.RecvWR, 1)); !errors.Is(err, qp.ErrState) {
		t.Errorf("in RESET: %v", err)
	}
	q.state.Store(uint32(qp.StateRTS))
	if n, err := q.PostSend([]qp.SendWR{{Opcode: 13}, {}}); n != 0 || !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("%d posted, %v", n, err)
	}
	if n, err := q.PostRecv([]qp.RecvWR{{SGL: three}}); n != 0 || !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("%d posted, %v", n, err)
	}
	for _, uc := range []qp.WROpcode{qp.WRRead, qp.WRSendWithInv, qp.WRAtomicCmpAndSwp} {
		if err := detached(t, qp.UC).writeSend(0, &qp.SendWR{Opcode: uc}); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%v on UC: %v", uc, err)
		}
	}
}

func TestCompletions(t *testing.T) {
	var c CQ
	raw := &one(c.raw)[0]
	raw.wr_id, raw.opcode, raw.byte_len, raw.qp_num, raw.src_qp = 5, uint32(qp.WCRecv), 64, 0x1a, 0x1b
	raw.anon0, raw.wc_flags, raw.vendor_err = [4]byte{1, 2, 3, 4}, 1|2|4, 0x101
	var wc qp.WC
	c.read(&wc, raw)
	want := qp.WC{WRID: 5, Opcode: qp.WCRecv, ByteLen: 64, QPN: 0x1a, SrcQP: 0x1b, Imm: 0x01020304, Flags: qp.WCGRH | qp.WCWithImm,
		VendorErr: 1}
	if wc != want {
		t.Errorf("%+v", wc)
	}
	raw.wc_flags = 8
	binary.NativeEndian.PutUint32(raw.anon0[:], 0xdeadbeef)
	if c.read(&wc, raw); wc.InvalidatedRKey != 0xdeadbeef || wc.Imm != 0 || wc.Flags != qp.WCWithInv {
		t.Errorf("%+v", wc)
	}
	raw.wc_flags = kernelWithInv
	if c.read(&wc, raw); wc.Flags != 0 {
		t.Errorf("%+v", wc)
	}
	c.kernelFlags = true
	if c.read(&wc, raw); wc.InvalidatedRKey != 0xdeadbeef || wc.Flags != qp.WCWithInv {
		t.Errorf("%+v", wc)
	}
	raw.status = uint32(qp.WCWRFlushErr)
	if c.read(&wc, raw); wc.Status != qp.WCWRFlushErr || wc.Flags != 0 || wc.WRID != 5 {
		t.Errorf("%+v", wc)
	}
	if n := testing.AllocsPerRun(100, func() { c.read(&wc, raw) }); n != 0 {
		t.Errorf("%v allocations a completion", n)
	}
}

// TestKept: what was taken from the device for Len or for a queue pair's end is polled first.
func TestKept(t *testing.T) {
	c := &CQ{kept: []qp.WC{{WRID: 1, QPN: 1}, {WRID: 2, QPN: 2}, {WRID: 3, QPN: 1}}}
	wcs := make([]qp.WC, 2)
	if n, err := c.Poll(wcs); n != 2 || err != nil || wcs[1].WRID != 2 {
		t.Errorf("%d, %v, %+v", n, err, wcs)
	}
	if n, err := c.Poll(wcs); n != 1 || err != nil || wcs[0].WRID != 3 {
		t.Errorf("%d, %v, %+v", n, err, wcs)
	}
}

func TestAttributes(t *testing.T) {
	q := detached(t, qp.RC)
	av := qp.AHAttr{DGID: gid(t, "192.0.2.9"), TrafficClass: 3, FlowLabel: 4, SL: 5}
	attr := qp.QPAttr{State: qp.StateRTR, PathMTU: wire.MTU1024, RQPSN: 0x123456, DestQPN: 99, AccessFlags: mr.RemoteRead, Port: 1,
		MaxDestRdAtomic: 16, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 6, QKey: 8, AV: av}
	c, err := q.write(&attr, qp.AttrState|qp.AttrAV)
	must(t, err)
	if c.qp_state != uint32(qp.StateRTR) || c.path_mtu != uint32(wire.MTU1024) || c.rq_psn != 0x123456 || c.dest_qp_num != 99 ||
		c.qp_access_flags != 4 || c.port_num != 2 || c.max_dest_rd_atomic != 16 || c.min_rnr_timer != 12 || c.timeout != 14 ||
		c.retry_cnt != 7 || c.rnr_retry != 6 || c.qkey != 8 {
		t.Errorf("%+v", c)
	}
	a := &c.ah_attr
	if a.is_global != 1 || a.port_num != 2 || a.grh.sgid_index != 7 || a.grh.hop_limit != 64 || wire.GID(a.grh.dgid) != av.DGID {
		t.Errorf("%+v", a)
	}
	av.HopLimit = 64
	if back := q.pd.dev.readAV(a); back != av {
		t.Errorf("%+v", back)
	}
	for _, bad := range []qp.AHAttr{{}, {DGID: av.DGID, SGIDIndex: 2}, {DGID: av.DGID, SGIDIndex: 1}, {DGID: av.DGID, FlowLabel: 1 << 20}} {
		if _, err := q.write(&qp.QPAttr{AV: bad}, qp.AttrAV); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	must(t, q.checkValues(&attr, qp.AttrState|qp.AttrAV|qp.AttrPathMTU|qp.AttrMaxDestRdAtomic|qp.AttrPort|qp.AttrTimeout))
	for bit, bad := range map[qp.AttrMask]qp.QPAttr{qp.AttrMaxRdAtomic: {MaxRdAtomic: 9}, qp.AttrMaxDestRdAtomic: {MaxDestRdAtomic: 17},
		qp.AttrPathMTU: {PathMTU: wire.MTU2048}, qp.AttrPort: {Port: 2}, qp.AttrAltPath: {}, qp.AttrDestQPN: {DestQPN: 1 << 24},
		qp.AttrAccessFlags: {AccessFlags: mr.MWBind}, qp.AttrAV: {AV: qp.AHAttr{DGID: gid(t, "224.0.0.1")}}} {
		if err := q.checkValues(&bad, bit); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%v: %v", bit, err)
		}
	}
	for _, bad := range []QPInit{{Type: 11}, {Type: qp.RC, Cap: qp.Cap{MaxSendWR: 101}}, {Type: qp.RC, Cap: qp.Cap{MaxRecvSGE: 5}}} {
		if err := q.pd.dev.checkInit(&bad); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, typ := range []qp.QPType{qp.GSI, qp.XRCSend, qp.XRCRecv} {
		if err := q.pd.dev.checkInit(&QPInit{Type: typ}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestNamesAndAddresses(t *testing.T) {
	for name, want := range map[string]struct {
		device string
		port   uint8
		ok     bool
	}{
		"verbs:rxe0":     {"rxe0", 1, true},
		"verbs:mlx4_0/2": {"mlx4_0", 2, true},
		"verbs:mlx4_0/0": {},
		"verbs:mlx4_0/x": {},
		"verbs:":         {"", 1, true},
	} {
		if device, port, err := split(name); device != want.device || port != want.port || (err == nil) != want.ok {
			t.Errorf("%s: %q, port %d, %v", name, device, port, err)
		}
	}
	gids := []wire.GID{gid(t, "fe80::1"), gid(t, "2001:db8::1"), gid(t, "192.0.2.1")}
	slices.SortStableFunc(gids, func(a, b wire.GID) int { return rank(a) - rank(b) })
	if !gids[0].Is4() || gids[2] != gid(t, "fe80::1") {
		t.Errorf("%v", gids)
	}
	if s := speed(2, 32); s != 100000 {
		t.Errorf("4 lanes of EDR are %d Mbit/s", s)
	}
}

func TestDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	var b [1]byte
	fd := int(r.Fd())
	taken := make(chan byte, 8)
	take := func() bool { n, err := readNow(fd, b[:]); return n == 1 && err == nil }
	d, err := Watch(fd, "pipe", take, func() { taken <- b[0] })
	must(t, err)
	for i := range 5 {
		w.Write([]byte{byte(i)})
		if got := <-taken; got != byte(i) {
			t.Errorf("%d, want %d", got, i)
		}
	}
	d.Close()
}

func TestPostsAllocateNothing(t *testing.T) {
	q := detached(t, qp.RC)
	inline := []byte{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() {
		must(t, q.writeSend(0, &qp.SendWR{Opcode: qp.WRWrite, SGL: []qp.SGE{{Addr: 1, Length: 8, LKey: 3}}, RemoteAddr: 8, RKey: 9}))
		must(t, q.writeSend(1, &qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendInline, Inline: inline}))
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}
