package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// plainICRC is section 3.1 word for word: copy, overwrite what is masked with FF, and let
// hash/crc32 do it.
func plainICRC(f *Frame) uint32 {
	return crc32.ChecksumIEEE(plainInput(f))
}

func plainInput(f *Frame) []byte {
	in := bytes.Repeat([]byte{0xff}, 8)
	in = append(append(in, f.Head...), f.Body[:len(f.Body)-4]...)
	ip := in[8:]
	udp := ip[len(f.Head)-8:]
	if len(f.Head) == 28 {
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff
	} else {
		ip[0] |= 0x0f
		ip[1], ip[2], ip[3], ip[7] = 0xff, 0xff, 0xff, 0xff
	}
	udp[6], udp[7] = 0xff, 0xff
	udp[8+4] = 0xff
	return in
}

func TestICRCAgainstDefinition(t *testing.T) { everyWay(t, testICRCAgainstDefinition) }

func testICRCAgainstDefinition(t *testing.T) {
	for _, v := range loadVectors(t) {
		f := v.frame(t)
		if !bytes.Equal(plainInput(&f), unhex(t, v.CRCInput)) {
			t.Errorf("%s: the test's own masking differs from crc_input_hex", v.Name)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		f := randomFrame(rnd, MinBody+rnd.IntN(300))
		if got, want := icrc(&f), plainICRC(&f); got != want {
			t.Fatalf("head %d, body %d: icrc %08x, want %08x", len(f.Head), len(f.Body), got, want)
		}
	}
}

// randomFrame is noise in the shape of a frame.
func randomFrame(rnd *rand.Rand, bodyLen int) Frame {
	head := Head4Len
	if rnd.IntN(2) == 1 {
		head = Head6Len
	}
	f := Frame{Head: make([]byte, head), Body: make([]byte, bodyLen)}
	fill(rnd, f.Head)
	fill(rnd, f.Body)
	return f
}

func fill(rnd *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
}

func TestCRCUpdateEveryLength(t *testing.T) { everyWay(t, testCRCUpdateEveryLength) }

func testCRCUpdateEveryLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	buf := make([]byte, 1<<16)
	fill(rnd, buf)
	check := func(at, n int) {
		t.Helper()
		crc, p := rnd.Uint32(), buf[at:at+n]
		if got, want := crcUpdate(crc, p), crc32.Update(crc, crc32.IEEETable, p); got != want {
			t.Fatalf("%d bytes at %d after %08x: %08x, want %08x", n, at, crc, got, want)
		}
	}
	for n := range 5 * shortCRC {
		for at := range 16 {
			check(at, n)
		}
	}
	for range 2000 {
		n := rnd.IntN(len(buf) >> rnd.IntN(9))
		check(rnd.IntN(len(buf)-n+1), n)
	}
	if crc32.Update(0, crc32.IEEETable, bytes.Repeat([]byte{0xff}, 8)) != ^uint32(afterFF) {
		t.Error("afterFF is not the register after eight FF")
	}
}

// TestShiftDelays: a bit is worth what the four are that crcShifts replaces it by.
func TestShiftDelays(t *testing.T) {
	register := func(bits ...int) uint32 {
		b := make([]byte, 64)
		for _, i := range bits {
			b[i/8] |= 1 << (i % 8)
		}
		return ^crc32.Update(^uint32(0), crc32.IEEETable, b)
	}
	for i := range 64 {
		if got, want := register(i+145, i+183, i+211, i+300), register(i); got != want {
			t.Errorf("bit %d: moved %08x, itself %08x", i, got, want)
		}
	}
}

// TestICRCCoversWhatItShould flips every bit of every vector: Verify notices unless the bit is
// masked.
func TestICRCCoversWhatItShould(t *testing.T) { everyWay(t, testICRCCoversWhatItShould) }

func testICRCCoversWhatItShould(t *testing.T) {
	for _, v := range loadVectors(t) {
		f := v.frame(t)
		masked := maskOf(&f)
		for i := range f.Len() {
			for bit := range 8 {
				b := byteOf(&f, i)
				*b ^= 1 << bit
				if want := masked(i, bit); Verify(&f) != want {
					t.Errorf("%s: byte %d bit %d flipped: Verify %v", v.Name, i, bit, !want)
				}
				*b ^= 1 << bit
			}
		}
	}
}

func byteOf(f *Frame, i int) *byte {
	if i < len(f.Head) {
		return &f.Head[i]
	}
	return &f.Body[i-len(f.Head)]
}

// maskOf says of a frame's bits which of them routers may change.
func maskOf(f *Frame) func(i, bit int) bool {
	n := len(f.Head)
	return func(i, bit int) bool {
		switch {
		case i == n-2 || i == n-1 || i == n+4:
			return true
		case n == Head4Len:
			return i == 1 || i == 8 || i == 10 || i == 11
		default:
			return i == 0 && bit < 4 || i == 1 || i == 2 || i == 3 || i == 7
		}
	}
}

func TestVerifyShort(t *testing.T) {
	for n := range MinBody {
		if Verify(&Frame{Head: make([]byte, Head4Len), Body: make([]byte, n), Flags: FrameSynthHead}) {
			t.Errorf("body of %d bytes verified", n)
		}
	}
	if Verify(&Frame{Body: make([]byte, 64)}) {
		t.Error("frame without a head verified")
	}
}

func TestMulmod(t *testing.T) {
	slow := func(a, b uint32) (p uint32) {
		for i := 31; i >= 0; i-- { // bit 31 is x^0
			if a>>i&1 != 0 {
				p ^= b
			}
			b = b>>1 ^ 0xedb88320*(b&1)
		}
		return p
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		a, b := rnd.Uint32(), rnd.Uint32()
		if got, want := mulmod(a, b), slow(a, b); got != want {
			t.Fatalf("mulmod(%08x, %08x) = %08x, want %08x", a, b, got, want)
		}
	}
	for _, ones := range [][2]uint32{{^uint32(0), ^uint32(0)}, {0, 7}, {1 << 31, 0x12345678}} {
		if got, want := mulmod(ones[0], ones[1]), slow(ones[0], ones[1]); got != want {
			t.Errorf("mulmod(%08x, %08x) = %08x, want %08x", ones[0], ones[1], got, want)
		}
	}
	for n := range 70000 >> 4 { // inverse powers undo zero bytes
		r := uint32(0x9e3779b9) + uint32(n)
		adv := r
		for range n {
			adv = adv>>8 ^ slices[0][adv&0xff]
		}
		if back := mulmod(adv, mulmod(xInverse[0][n&0xff], xInverse[1][n>>8])); back != r {
			t.Fatalf("%d bytes back: %08x, want %08x", n, back, r)
		}
	}
}

// TestSolveEveryIdentification hides each Identification in turn.
func TestSolveEveryIdentification(t *testing.T) {
	f := sealed(t, false, 64, 0)
	for id := range 1 << 16 {
		f.IPv4().SetIdentification(uint16(id))
		Seal(f)
		f.IPv4().SetIdentification(0)
		if f.Flags = FrameSynthHead; !Verify(f) {
			t.Fatalf("identification %04x: not verified", id)
		}
		if f.Flags = 0; Verify(f) != (id == 0) {
			t.Fatalf("identification %04x: verified with a real head that says 0", id)
		}
	}
}

func TestSolveEveryLength(t *testing.T) { everyWay(t, testSolveEveryLength) }

func testSolveEveryLength(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	lengths := []int{MaxBody, MaxBody - 1, 65000}
	for n := MinBody; n < 1200; n++ {
		lengths = append(lengths, n)
	}
	p := testPath(t, false)
	for _, n := range lengths {
		f := Frame{Head: make([]byte, Head4Len), Body: make([]byte, n), Flags: FrameSynthHead}
		id := uint16(rnd.Uint32())
		p.PutHead(f.Head, n, id)
		fill(rnd, f.Body)
		Seal(&f)
		p.PutHead(f.Head, n, uint16(rnd.Uint32())) // any guess will do
		got, df, ok := SolveIdentification(&f)
		if !Verify(&f) || got != id || !df || !ok {
			t.Fatalf("body of %d bytes: id %04x df %v ok %v, want %04x", n, got, df, ok, id)
		}
	}
}

// TestSolveDontFragment: a packet sent without DF is refused by Verify, and explained by
// SolveIdentification.
func TestSolveDontFragment(t *testing.T) {
	for _, v := range loadVectors(t) {
		f := v.frame(t)
		h := f.IPv4()
		if h == nil {
			continue
		}
		id, df := h.Identification(), h.Fragment() == DontFragment
		h.SetIdentification(0)
		h.SetFragment(DontFragment)
		f.Flags = FrameSynthHead
		if Verify(&f) != df {
			t.Errorf("%s: DF %v: Verify %v", v.Name, df, !df)
		}
		if gotID, gotDF, ok := SolveIdentification(&f); !ok || gotID != id || gotDF != df {
			t.Errorf("%s: solved %04x DF %v ok %v, want %04x DF %v", v.Name, gotID, gotDF, ok, id, df)
		}
	}
}

// TestSolveStillProtects damages two bytes of a packet at a time: of 2^16 damaged ones about one
// may pass.
func TestSolveStillProtects(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	f := sealed(t, false, 256, 0)
	f.Flags = FrameSynthHead
	const tries = 1 << 18
	passed := 0
	for range tries {
		i, j := rnd.IntN(len(f.Body)), rnd.IntN(len(f.Body))
		x, y := byte(1+rnd.IntN(255)), byte(1+rnd.IntN(255))
		if i == j || i == 4 || j == 4 { // BTH byte 4 is masked
			continue
		}
		f.Body[i] ^= x
		f.Body[j] ^= y
		if Verify(f) {
			passed++
		}
		f.Body[i] ^= x
		f.Body[j] ^= y
	}
	if passed > 16 { // 4 expected
		t.Errorf("%d of %d damaged packets passed", passed, tries)
	}
	t.Logf("%d of %d damaged packets passed, %d expected", passed, tries, tries>>16)
}

// TestFlushOfRxe: what rxe covers twice is recognized, also behind a port that does not show the
// Identification, and nothing else is.
func TestFlushOfRxe(t *testing.T) { everyWay(t, testFlushOfRxe) }

func testFlushOfRxe(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f := sealed(t, v6, 20, 7)
		Seal(f)
		body := f.Body[:len(f.Body)-ICRCLen]
		want := crc32.ChecksumIEEE(append(plainInput(f), body...))
		if crcUndo(want, body) != plainICRC(f) {
			t.Error("crcUndo does not undo crcUpdate")
		}
		if !Verify(f) || VerifyFlush(f) {
			t.Error("a standard one is taken for rxe's")
		}
		SealFlush(f)
		if got := le.Uint32(f.Body[len(body):]); got != want {
			t.Errorf("%08x, want %08x", got, want)
		}
		if Verify(f) || !VerifyFlush(f) {
			t.Error("rxe's is not taken for its own")
		}
		for i := range f.Body {
			f.Body[i] ^= 4
			if VerifyFlush(f) {
				t.Errorf("byte %d may change", i)
			}
			f.Body[i] ^= 4
		}
		if !v6 {
			(*IPv4)(f.Head).SetIdentification(0)
			f.Flags |= FrameSynthHead
			if !VerifyFlush(f) {
				t.Error("not recognized without the Identification")
			}
		}
	}
	if VerifyFlush(&Frame{Body: make([]byte, 3)}) {
		t.Error("3 bytes are taken for a packet")
	}
}
