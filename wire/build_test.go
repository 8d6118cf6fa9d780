package wire

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// built is a packet made from random fields, and the fields.
type built struct {
	frame   Frame
	op      Opcode
	flags   BTHFlags
	pkey    uint16
	destQP  uint32
	psn     PSN
	payload []byte
	ext     [NumHeaders]extFields
}

// extFields holds the values of any extension header, in the order of its Put.
type extFields [4]uint64

// extHeaders says for each extension header how to make, put and get its fields. Setters write over
// noise, so that both they and Put are checked.
var extHeaders = [NumHeaders]struct {
	width [4]int // bits of each field
	put   func(p *Packet, v extFields)
	set   func(p *Packet, v extFields)
	get   func(p *Packet) (extFields, bool)
}{
	HdrRETH: {[4]int{64, 32, 32},
		func(p *Packet, v extFields) { p.RETH().Put(v[0], uint32(v[1]), uint32(v[2])) },
		func(p *Packet, v extFields) {
			p.RETH().SetVA(v[0])
			p.RETH().SetRKey(uint32(v[1]))
			p.RETH().SetDMALen(uint32(v[2]))
		},
		func(p *Packet) (v extFields, ok bool) {
			if h := p.RETH(); h != nil {
				return extFields{h.VA(), uint64(h.RKey()), uint64(h.DMALen())}, true
			}
			return v, false
		}},
	HdrAETH: {[4]int{8, 24},
		func(p *Packet, v extFields) { p.AETH().Put(Syndrome(v[0]), PSN(v[1])) },
		func(p *Packet, v extFields) { p.AETH().SetSyndrome(Syndrome(v[0])); p.AETH().SetMSN(PSN(v[1])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.AETH(); h != nil {
				return extFields{uint64(h.Syndrome()), uint64(h.MSN())}, true
			}
			return v, false
		}},
	HdrAtomicETH: {[4]int{64, 32, 64, 64},
		func(p *Packet, v extFields) { p.AtomicETH().Put(v[0], uint32(v[1]), v[2], v[3]) },
		func(p *Packet, v extFields) {
			p.AtomicETH().SetVA(v[0])
			p.AtomicETH().SetRKey(uint32(v[1]))
			p.AtomicETH().SetSwapAdd(v[2])
			p.AtomicETH().SetCompare(v[3])
		},
		func(p *Packet) (v extFields, ok bool) {
			if h := p.AtomicETH(); h != nil {
				return extFields{h.VA(), uint64(h.RKey()), h.SwapAdd(), h.Compare()}, true
			}
			return v, false
		}},
	HdrAtomicAckETH: {[4]int{64},
		func(p *Packet, v extFields) { p.AtomicAckETH().Put(v[0]) },
		func(p *Packet, v extFields) { p.AtomicAckETH().SetOrig(v[0]) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.AtomicAckETH(); h != nil {
				return extFields{h.Orig()}, true
			}
			return v, false
		}},
	HdrImmDt: {[4]int{32},
		func(p *Packet, v extFields) { p.ImmDt().Put(uint32(v[0])) },
		func(p *Packet, v extFields) { p.ImmDt().SetImm(uint32(v[0])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.ImmDt(); h != nil {
				return extFields{uint64(h.Imm())}, true
			}
			return v, false
		}},
	HdrIETH: {[4]int{32},
		func(p *Packet, v extFields) { p.IETH().Put(uint32(v[0])) },
		func(p *Packet, v extFields) { p.IETH().SetRKey(uint32(v[0])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.IETH(); h != nil {
				return extFields{uint64(h.RKey())}, true
			}
			return v, false
		}},
	HdrDETH: {[4]int{32, 24},
		func(p *Packet, v extFields) { p.DETH().Put(uint32(v[0]), uint32(v[1])) },
		func(p *Packet, v extFields) { p.DETH().SetQKey(uint32(v[0])); p.DETH().SetSrcQP(uint32(v[1])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.DETH(); h != nil {
				return extFields{uint64(h.QKey()), uint64(h.SrcQP())}, true
			}
			return v, false
		}},
	HdrRDETH: {[4]int{24},
		func(p *Packet, v extFields) { p.RDETH().Put(uint32(v[0])) },
		func(p *Packet, v extFields) { p.RDETH().SetEEContext(uint32(v[0])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.RDETH(); h != nil {
				return extFields{uint64(h.EEContext())}, true
			}
			return v, false
		}},
	HdrXRCETH: {[4]int{24},
		func(p *Packet, v extFields) { p.XRCETH().Put(uint32(v[0])) },
		func(p *Packet, v extFields) { p.XRCETH().SetSRQN(uint32(v[0])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.XRCETH(); h != nil {
				return extFields{uint64(h.SRQN())}, true
			}
			return v, false
		}},
	HdrFETH: {[4]int{4, 2},
		func(p *Packet, v extFields) { p.FETH().Put(uint8(v[0]), uint8(v[1])) },
		func(p *Packet, v extFields) { p.FETH().SetPlacement(uint8(v[0])); p.FETH().SetSelectivity(uint8(v[1])) },
		func(p *Packet) (v extFields, ok bool) {
			if h := p.FETH(); h != nil {
				return extFields{uint64(h.Placement()), uint64(h.Selectivity())}, true
			}
			return v, false
		}},
	HdrCNPReserved: {[4]int{},
		func(p *Packet, v extFields) { clear(p.Body[BTHLen : BTHLen+16]) },
		func(p *Packet, v extFields) {},
		func(p *Packet) (v extFields, ok bool) { return v, p.Opcode == CNP }},
}

// build makes a sealed packet of an opcode from random fields. useSet builds with setters over
// noise in place of Put.
func build(t testing.TB, rnd *rand.Rand, op Opcode, path *Path, payload int, useSet bool) built {
	t.Helper()
	b := built{op: op, flags: BTHFlags(rnd.Uint32()) & 0xf1, pkey: uint16(rnd.Uint32()), destQP: rnd.Uint32() & QPNMask,
		psn: PSN(rnd.Uint32()) & PSNMask, payload: make([]byte, payload)}
	fill(rnd, b.payload)
	n := BodyLen(op, payload)
	b.frame = Frame{Head: make([]byte, path.HeadLen()), Body: make([]byte, n)}
	fill(rnd, b.frame.Body)
	path.PutHead(b.frame.Head, n, uint16(rnd.Uint32()))
	var p Packet
	if !p.Lay(&b.frame, op, payload) {
		t.Fatalf("%v: Lay(%d)", op, payload)
	}
	if useSet {
		b.setBTH(p.BTH, uint8(Pad(payload)))
	} else {
		p.BTH.Put(op, b.flags, uint8(Pad(payload)), b.pkey, b.destQP, b.psn)
	}
	for _, h := range p.Op.Headers {
		x := &extHeaders[h]
		for i, w := range x.width {
			b.ext[h][i] = rnd.Uint64() & (1<<w - 1)
		}
		if useSet {
			x.set(&p, b.ext[h])
		} else {
			x.put(&p, b.ext[h])
		}
	}
	copy(p.Payload, b.payload)
	Seal(&b.frame)
	return b
}

func (b *built) setBTH(h *BTH, pad uint8) {
	h.SetOpcode(b.op)
	h.SetSolicited(b.flags&BTHSolicited != 0)
	h.SetMigReq(b.flags&BTHMigReq != 0)
	h.SetFECN(b.flags&BTHFECN != 0)
	h.SetBECN(b.flags&BTHBECN != 0)
	h.SetAckReq(b.flags&BTHAckReq != 0)
	h.SetPadCount(pad)
	h.SetTVer(0)
	h.SetPKey(b.pkey)
	h.SetDestQP(b.destQP)
	h.SetPSN(b.psn)
}

// check parses what was built and compares every field.
func (b *built) check(t testing.TB, f *Frame) {
	t.Helper()
	var p Packet
	if drop := Parse(f, &p); drop != DropNone {
		t.Fatalf("%v: Parse: %v", b.op, drop)
	}
	h := p.BTH
	if p.Opcode != b.op || h.Opcode() != b.op || p.Op != b.op.Info() || h.Flags() != b.flags || h.PKey() != b.pkey ||
		h.DestQP() != b.destQP || h.PSN() != b.psn || int(h.PadCount()) != Pad(len(b.payload)) || h.TVer() != 0 {
		t.Fatalf("%v: BTH % x does not hold %+v", b.op, *h, b)
	}
	if h.Solicited() != (b.flags&BTHSolicited != 0) || h.MigReq() != (b.flags&BTHMigReq != 0) || h.FECN() != (b.flags&BTHFECN != 0) ||
		h.BECN() != (b.flags&BTHBECN != 0) || h.AckReq() != (b.flags&BTHAckReq != 0) {
		t.Fatalf("%v: flags % x", b.op, *h)
	}
	for x := Header(0); x < NumHeaders; x++ {
		got, ok := extHeaders[x].get(&p)
		if ok != p.Op.Has(headerFlag<<x) || got != b.ext[x] {
			t.Fatalf("%v: %v = %x %v, want %x", b.op, x, got, ok, b.ext[x])
		}
	}
	if !bytes.Equal(p.Payload, b.payload) || cap(p.Payload) != len(b.payload) {
		t.Fatalf("%v: payload of %d bytes, capacity %d, want %d", b.op, len(p.Payload), cap(p.Payload), len(b.payload))
	}
	if !Verify(f) || p.ICRC() != icrc(f) || p.Frame != f {
		t.Fatalf("%v: ICRC", b.op)
	}
}

// TestBuildParseIdentity: for every opcode, over IPv4 and IPv6, what is built is what is parsed,
// from the frame and from the bytes of the IP packet with Ethernet padding behind.
func TestBuildParseIdentity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for op := range Opcodes {
		if Opcodes[op].Flags == 0 {
			continue
		}
		for round := range 60 {
			path := randomPath(t, rnd, round&1 == 1)
			b := build(t, rnd, Opcode(op), path, rnd.IntN(70), round&2 == 2)
			b.check(t, &b.frame)
			pkt := append(AppendFrame(nil, &b.frame), make([]byte, rnd.IntN(20))...)
			again, drop := SplitFrame(pkt)
			if drop != DropNone || again.Len() != b.frame.Len() || cap(again.Head) != len(again.Head) ||
				cap(again.Body) != len(again.Body) {
				t.Fatalf("%v: SplitFrame: %v, %d bytes", Opcode(op), drop, again.Len())
			}
			b.check(t, &again)
			checkPath(t, path, &again)
		}
	}
}

func randomPath(t testing.TB, rnd *rand.Rand, v6 bool) *Path {
	t.Helper()
	var src, dst GID
	fill(rnd, src[:])
	fill(rnd, dst[:])
	src[0], dst[0] = 0x20, 0xfd
	if !v6 {
		src, dst = gid4((*[4]byte)(src[:])), gid4((*[4]byte)(dst[:]))
	}
	p, err := NewPath(src, dst, uint16(rnd.Uint32()), uint8(rnd.Uint32()), uint8(rnd.Uint32()), rnd.Uint32()&0xfffff)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// checkPath compares a frame's head with the path it was made by.
func checkPath(t testing.TB, p *Path, f *Frame) {
	t.Helper()
	u := f.UDP()
	if f.Src() != p.Src || f.Dst() != p.Dst || f.TOS() != p.TrafficClass || f.ECN() != p.TrafficClass&3 || f.TTL() != p.HopLimit ||
		f.SrcPort() != p.SrcPort || u.DstPort() != UDPPort || int(u.Length()) != 8+len(f.Body) || u.Checksum() != 0 {
		t.Fatalf("head % x does not hold %+v", f.Head, p)
	}
	if h := f.IPv4(); h != nil {
		if int(h.TotalLength()) != f.Len() || h.Fragment() != DontFragment || h.Protocol() != 17 || h.IHL() != 5 || h.Version() != 4 ||
			!h.checksumOK() {
			t.Fatalf("IPv4 header % x", *h)
		}
		sum := h.Checksum()
		if h.UpdateChecksum(); h.Checksum() != sum {
			t.Fatalf("PutHead's checksum %04x, UpdateChecksum's %04x", sum, h.Checksum())
		}
	}
	if h := f.IPv6(); h != nil {
		if int(h.PayloadLength()) != 8+len(f.Body) || h.FlowLabel() != p.FlowLabel || h.NextHeader() != 17 || h.Version() != 6 {
			t.Fatalf("IPv6 header % x", *h)
		}
	}
}

// TestWithTrafficClass: the same as a path that was made with that class.
func TestWithTrafficClass(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for i := range 200 {
		p := randomPath(t, rnd, i%2 == 0)
		tclass := uint8(rnd.Uint32())
		want, err := NewPath(p.Src, p.Dst, p.SrcPort, tclass, p.HopLimit, p.FlowLabel)
		if got := p.WithTrafficClass(tclass); err != nil || got != want {
			t.Fatalf("%v, %+v; want %+v", err, got, want)
		}
	}
}

func TestNewPathRefuses(t *testing.T) {
	a4, a6 := GIDFrom(netip.MustParseAddr("192.0.2.1")), GIDFrom(netip.MustParseAddr("2001:db8::1"))
	for _, c := range []struct {
		src, dst GID
		flow     uint32
	}{{a4, a6, 0}, {a6, a4, 0}, {GID{}, a6, 0}, {a4, GID{}, 0}, {a6, a6, 1 << 20}} {
		if _, err := NewPath(c.src, c.dst, 0, 0, 64, c.flow); err == nil {
			t.Errorf("%v > %v flow %x accepted", c.src, c.dst, c.flow)
		}
	}
	if n := new(Path).PutHead(nil, 100, 0); n != 0 || new(Path).HeadLen() != 0 {
		t.Error("a Path that was not made writes a head")
	}
}

// TestSetIPFields: the setters of the IP and UDP views change one field each.
func TestSetIPFields(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 200 {
		from, to := randomPath(t, rnd, false), randomPath(t, rnd, false)
		to.Src, to.Dst, to.FlowLabel = from.Src, from.Dst, 0
		f := Frame{Head: make([]byte, Head4Len), Body: make([]byte, 40)}
		from.PutHead(f.Head, 7, 9)
		h := f.IPv4()
		h.SetTOS(to.TrafficClass)
		h.SetTTL(to.HopLimit)
		h.SetTotalLength(uint16(f.Len()))
		h.SetFragment(DontFragment)
		h.UpdateChecksum()
		setUDP(f.UDP(), to.SrcPort, len(f.Body))
		checkPath(t, to, &f)

		from, to = randomPath(t, rnd, true), randomPath(t, rnd, true)
		to.Src, to.Dst = from.Src, from.Dst
		f = Frame{Head: make([]byte, Head6Len), Body: make([]byte, 40)}
		from.PutHead(f.Head, 7, 9)
		h6 := f.IPv6()
		h6.SetTrafficClass(to.TrafficClass)
		h6.SetFlowLabel(to.FlowLabel)
		h6.SetHopLimit(to.HopLimit)
		h6.SetPayloadLength(uint16(8 + len(f.Body)))
		setUDP(f.UDP(), to.SrcPort, len(f.Body))
		checkPath(t, to, &f)
	}
}

func setUDP(u *UDP, sport uint16, body int) {
	u.SetSrcPort(sport)
	u.SetDstPort(UDPPort)
	u.SetLength(uint16(8 + body))
	u.SetChecksum(0)
}

func TestParseRefuses(t *testing.T) {
	good := func() *Frame { return sealed(t, false, 5, 0) }
	for name, c := range map[string]struct {
		spoil func(f *Frame)
		want  DropReason
	}{
		"as it is":         {func(f *Frame) {}, DropNone},
		"empty":            {func(f *Frame) { f.Body = nil }, DropShort},
		"BTH and 3 bytes":  {func(f *Frame) { f.Body = f.Body[:15] }, DropShort},
		"unknown opcode":   {func(f *Frame) { f.Body[0] = 0x1f }, DropOpcode},
		"IB's CNP":         {func(f *Frame) { f.Body[0] = 0x80 }, DropOpcode},
		"version 1":        {func(f *Frame) { f.Body[1] |= 1 }, DropTVer},
		"no room for RETH": {func(f *Frame) { f.Body[0] = byte(RCWriteOnly) }, DropShort},
		"pad 3 of 0":       {func(f *Frame) { f.Body = f.Body[:16]; f.Body[1] = 0x30 }, DropPad},
		"pad 3 of 2":       {func(f *Frame) { f.Body = f.Body[:18]; f.Body[1] = 0x30 }, DropPad},
	} {
		f := good()
		c.spoil(f)
		var p Packet
		if got := Parse(f, &p); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		v6    bool
		spoil func(pkt []byte) []byte
		want  DropReason
	}{
		"as it is":         {false, func(p []byte) []byte { return p }, DropNone},
		"as it is, IPv6":   {true, func(p []byte) []byte { return p }, DropNone},
		"empty":            {false, func(p []byte) []byte { return nil }, DropShort},
		"27 bytes":         {false, func(p []byte) []byte { return p[:27] }, DropShort},
		"47 bytes":         {true, func(p []byte) []byte { return p[:47] }, DropShort},
		"version 5":        {false, func(p []byte) []byte { p[0] = 0x55; return p }, DropIPVersion},
		"options":          {false, func(p []byte) []byte { p[0] = 0x46; return p }, DropIPHeader},
		"more fragments":   {false, func(p []byte) []byte { p[6] |= 0x20; (*IPv4)(p).UpdateChecksum(); return p }, DropIPHeader},
		"fragment offset":  {false, func(p []byte) []byte { p[7] = 1; (*IPv4)(p).UpdateChecksum(); return p }, DropIPHeader},
		"checksum":         {false, func(p []byte) []byte { p[10]++; return p }, DropIPHeader},
		"TCP":              {false, func(p []byte) []byte { p[9] = 6; (*IPv4)(p).UpdateChecksum(); return p }, DropNotUDP},
		"extension header": {true, func(p []byte) []byte { p[6] = 0; return p }, DropNotUDP},
		"cut":              {false, func(p []byte) []byte { return p[:len(p)-1] }, DropLength},
		"cut, IPv6":        {true, func(p []byte) []byte { return p[:len(p)-1] }, DropLength},
		"total length 27": {false, func(p []byte) []byte {
			(*IPv4)(p).SetTotalLength(27)
			(*IPv4)(p).UpdateChecksum()
			return p
		}, DropLength},
		"payload length 7":      {true, func(p []byte) []byte { (*IPv6)(p).SetPayloadLength(7); return p }, DropLength},
		"UDP longer than IP":    {false, func(p []byte) []byte { p[25]++; return p }, DropLength},
		"UDP shorter than UDP":  {false, func(p []byte) []byte { p[24], p[25] = 0, 7; return p }, DropLength},
		"port":                  {false, func(p []byte) []byte { p[23]++; return p }, DropPort},
		"port, IPv6":            {true, func(p []byte) []byte { p[43]++; return p }, DropPort},
		"Ethernet padding":      {false, func(p []byte) []byte { return append(p, make([]byte, 6)...) }, DropNone},
		"UDP shorter than IP":   {false, func(p []byte) []byte { p[25]--; return p }, DropNone},
		"wrong UDP checksum":    {false, func(p []byte) []byte { p[26] = 7; return p }, DropNone},
		"reserved fragment bit": {false, func(p []byte) []byte { p[6] |= 0x80; (*IPv4)(p).UpdateChecksum(); return p }, DropNone},
	} {
		f := sealed(t, c.v6, 5, 0)
		pkt := c.spoil(AppendFrame(nil, f))
		got, drop := SplitFrame(pkt)
		if drop != c.want {
			t.Errorf("%s: %v, want %v", name, drop, c.want)
		}
		if drop != DropNone && (got.Head != nil || got.Body != nil) {
			t.Errorf("%s: refused, but a frame came back", name)
		}
	}
}

// From and To are comparisons with Src and Dst, in every byte.
func TestFrameFromTo(t *testing.T) {
	for _, a := range []string{"10.1.2.3 10.4.5.6", "fd00::1:2 fd00::3:4", "::1 ::2"} {
		var src, dst GID
		text := strings.Fields(a)
		src, _ = ParseGID(text[0])
		dst, _ = ParseGID(text[1])
		p, err := NewPath(src, dst, 0xc000, 0, 64, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := NewBatch(1, 64).Reserve(&p, 64)
		if !f.From(&src) || !f.To(&dst) || f.From(&dst) || f.To(&src) {
			t.Errorf("%s: from and to are wrong", a)
		}
		for i := range src {
			s, d := src, dst
			s[i] ^= 0x10
			d[i] ^= 0x10
			if f.From(&s) || f.To(&d) {
				t.Errorf("%s: byte %d does not matter", a, i)
			}
		}
	}
	f := Frame{Body: make([]byte, 16)}
	if f.From(new(GID)) || f.To(new(GID)) {
		t.Error("a frame without a head has addresses")
	}
}

func TestFrameWithoutHead(t *testing.T) {
	f := Frame{Body: make([]byte, 16)}
	if !f.Src().IsZero() || !f.Dst().IsZero() || f.TOS() != 0 || f.TTL() != 0 || f.SrcPort() != 0 || f.UDP() != nil || f.Len() != 16 {
		t.Error("a frame without a head has fields")
	}
}

// TestIPv4Checksum holds the header's checksum against RFC 1071 word by word, for headers of which
// some have many words of all ones.
func TestIPv4Checksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1071, 4))
	for range 10_000 {
		var h IPv4
		for i := range h {
			if h[i] = byte(rng.Uint32()); rng.IntN(2) == 0 {
				h[i] = 0xff
			}
		}
		h.UpdateChecksum()
		sum := uint32(0)
		for i := 0; i < len(h); i += 2 {
			sum += uint32(h[i])<<8 + uint32(h[i+1])
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		if sum != 0xffff || !h.checksumOK() {
			t.Fatalf("% x adds up to %04x, checksumOK: %v", h[:], sum, h.checksumOK())
		}
	}
}
