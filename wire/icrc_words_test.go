package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// icrcWays are the ways to compute an ICRC: with hash/crc32, with shifts, with the routine of the
// processor.
var icrcWays = []icrcWay{{"portable", false, false}, {"shifts", true, false}, {"words", false, true}}

type icrcWay struct {
	name          string
	shifts, words bool
}

// choose switches to a way; it is not ok if the processor lacks the instructions.
func (w icrcWay) choose() (ok bool) {
	useShifts, useWords = w.shifts, w.words
	return haveWords || !w.words
}

// chooseAgain undoes choose.
func chooseAgain() { useShifts, useWords = haveShifts, haveWords }

// everyWay runs a test with each way that the processor has.
func everyWay(t *testing.T, test func(t *testing.T)) {
	defer chooseAgain()
	for _, way := range icrcWays {
		if !way.choose() {
			t.Logf("%s not tested: the processor lacks the instructions, or the build has the tag purego", way.name)
			continue
		}
		t.Run(way.name, test)
	}
}

// frameAt is noise with its head and its body at offset at in blocks that begin on a cache line.
func frameAt(rnd *rand.Rand, head, bodyLen, at int) Frame {
	lines := func(n int) []byte {
		b := make([]byte, n+128)
		fill(rnd, b)
		start := int(-addrOf(b)&63) + at
		return b[start : start+n : start+n]
	}
	return Frame{Head: lines(head), Body: lines(bodyLen)}
}

func checkICRC(t *testing.T, f *Frame) {
	t.Helper()
	if got, want := icrc(f), plainICRC(f); got != want {
		t.Fatalf("head %d at %d, body %d at %d: icrc %08x, want %08x", len(f.Head), addrOf(f.Head)&63, len(f.Body), addrOf(f.Body)&63,
			got, want)
	}
}

func TestICRCEveryLength(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(11, 12))
		for n := MinBody; n < 4600; n++ {
			for _, head := range []int{Head4Len, Head6Len} {
				f := frameAt(rnd, head, n, rnd.IntN(64))
				checkICRC(t, &f)
			}
		}
		for _, n := range []int{8192 + 16, 32768 + 44, MaxBody - 3, MaxBody - 1, MaxBody} {
			for _, head := range []int{Head4Len, Head6Len} {
				f := frameAt(rnd, head, n, rnd.IntN(64))
				checkICRC(t, &f)
			}
		}
	})
}

func TestICRCEveryAlignment(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(13, 14))
		for _, n := range []int{16, 20, 32, 64, 92, 96, 256 + 32, 508, 512, 516, 576, 1024 + 32, 4096 + 16, 4096 + 32, 4096 + 34} {
			for at := range 64 {
				for _, head := range []int{Head4Len, Head6Len} {
					f := frameAt(rnd, head, n, at)
					checkICRC(t, &f)
				}
			}
		}
	})
}

// TestICRCOfHeadsWithoutALength: other lengths of head than the two have always counted for
// nothing.
func TestICRCOfHeadsWithoutALength(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(15, 16))
		for head := range HeadMax + 10 {
			if head == Head4Len || head == Head6Len {
				continue
			}
			f := frameAt(rnd, head, 400, 0)
			if got, want := icrc(&f), crc32.ChecksumIEEE(f.Body[BTHLen:len(f.Body)-ICRCLen]); got != want {
				t.Fatalf("head of %d bytes: %08x, want %08x", head, got, want)
			}
		}
	})
}

// TestSealPayload: as copy and Seal, nothing beside the frame written, headers and pad left alone.
func TestSealPayload(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(19, 20))
		for n := range 4200 {
			at, pad := BTHLen+rnd.IntN(70), rnd.IntN(4)
			if n%2 == 0 {
				at, pad = BTHLen+4*rnd.IntN(18), Pad(n)
			}
			head := []int{Head4Len, Head6Len}[rnd.IntN(2)]
			block := make([]byte, 64+at+n+pad+ICRCLen+64)
			fill(rnd, block)
			payload := make([]byte, n)
			fill(rnd, payload)
			got := Frame{Head: frameAt(rnd, head, 0, 0).Head, Body: block[64 : len(block)-64 : len(block)-64]}
			want := append([]byte(nil), block...)
			copy(want[64+at:], payload)
			copied := Frame{Head: got.Head, Body: want[64 : len(want)-64]}
			le.PutUint32(copied.Body[len(copied.Body)-ICRCLen:], plainICRC(&copied))
			if SealPayload(&got, at, payload); !bytes.Equal(block, want) {
				t.Fatalf("%d bytes at %d, pad %d: differs from copy and Seal", n, at, pad)
			}
		}
	})
}

func TestSealPayloadThatDoesNotFit(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f := sealed(t, false, 2048, 0)
		SealPayload(f, BTHLen, make([]byte, 2048+1))
	})
}

// TestICRCWordsTakesPaddedBodies: the fast way is taken by everything that a pad makes, or it would
// be fast for nothing.
func TestICRCWordsTakesPaddedBodies(t *testing.T) {
	for n := range 200 {
		f := Frame{Head: make([]byte, Head4Len), Body: make([]byte, n)}
		if _, ok := icrcWords(&f); ok != (haveWords && n >= MinBody && n%4 == 0) {
			t.Errorf("body of %d bytes: ok %v", n, ok)
		}
	}
}

// FuzzICRC compares the ways with the definition.
func FuzzICRC(f *testing.F) {
	f.Add(make([]byte, MinBody), make([]byte, Head6Len), uint8(0))
	f.Add(bytes.Repeat([]byte{0xa5}, 1111), make([]byte, Head6Len), uint8(3))
	f.Add(bytes.Repeat([]byte{0x5a}, 4096+16), make([]byte, Head6Len), uint8(60))
	f.Fuzz(func(t *testing.T, body, head []byte, at uint8) {
		if len(body) < MinBody || len(head) < Head4Len {
			return
		}
		body = append(make([]byte, at, int(at)+len(body)), body...)[at:]
		n := Head4Len
		if len(head) >= Head6Len {
			n = Head6Len
		}
		frame := Frame{Head: head[:n], Body: body}
		defer chooseAgain()
		for _, way := range icrcWays {
			if way.choose() {
				checkICRC(t, &frame)
			}
		}
	})
}

// BenchmarkICRC compares the ways, one next to the other.
func BenchmarkICRC(b *testing.B) {
	defer chooseAgain()
	for _, n := range []int{0, 8, 64, 256, 1024, 2048, 4096} {
		for _, way := range icrcWays {
			if !way.choose() {
				continue
			}
			b.Run(strconv.Itoa(n)+"/"+way.name, func(b *testing.B) {
				f := sealed(b, false, n, 0)
				b.SetBytes(int64(n))
				for b.Loop() {
					icrc(f)
				}
			})
		}
	}
}

// BenchmarkSealPayload compares copy and Seal with SealPayload, payloads and bodies one after the
// other in 64 KiB each.
func BenchmarkSealPayload(b *testing.B) {
	const total = 64 << 10
	for _, n := range []int{256, 512, 1024, 2048, 4096} {
		src, arena, g := make([]byte, total), make([]byte, total/n*(n+MinBody)), sealed(b, false, n, 0)
		for _, fused := range []bool{false, true} {
			b.Run(strconv.Itoa(n)+map[bool]string{false: "/copy,Seal", true: "/SealPayload"}[fused], func(b *testing.B) {
				b.SetBytes(int64(n))
				i := 0
				for b.Loop() {
					f := Frame{Head: g.Head, Body: arena[i*(n+MinBody) : (i+1)*(n+MinBody)]}
					if p := src[i*n : (i+1)*n]; fused {
						SealPayload(&f, BTHLen, p)
					} else {
						copy(f.Body[BTHLen:], p)
						Seal(&f)
					}
					i = (i + 1) % (total / n)
				}
			})
		}
	}
}
