package wire

import (
	"net/netip"
	"strconv"
	"testing"
)

func testPath(t testing.TB, v6 bool) *Path {
	t.Helper()
	src, dst := "192.0.2.1", "192.0.2.2"
	if v6 {
		src, dst = "2001:db8::1", "2001:db8::2"
	}
	p, err := NewPath(GIDFrom(netip.MustParseAddr(src)), GIDFrom(netip.MustParseAddr(dst)), 0xc123, 0x02, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// sealed returns a SEND_ONLY of n payload bytes in a batch of one.
func sealed(t testing.TB, v6 bool, n int, id uint16) *Frame {
	t.Helper()
	b := NewBatch(1, BodyLen(RCSendOnly, n))
	p := testPath(t, v6)
	f := b.Reserve(p, BodyLen(RCSendOnly, n))
	p.PutHead(f.Head, len(f.Body), id)
	var pkt Packet
	if !pkt.Lay(f, RCSendOnly, n) {
		t.Fatal("Lay")
	}
	pkt.BTH.Put(RCSendOnly, BTHAckReq, uint8(Pad(n)), DefaultPKey, 0x12, 5)
	for i := range pkt.Payload {
		pkt.Payload[i] = byte(i * 7)
	}
	Seal(f)
	return f
}

var benchSizes = []int{0, 64, 1024, 4096}

func BenchmarkSeal(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := sealed(b, false, n, 0)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Seal(f)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := sealed(b, false, n, 0)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if !Verify(f) {
					b.Fatal("bad")
				}
			}
		})
	}
}

// BenchmarkVerifySolved is Verify of a frame whose Identification was guessed wrong.
func BenchmarkVerifySolved(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := sealed(b, false, n, 0xbeef)
			f.IPv4().SetIdentification(0)
			f.Flags = FrameSynthHead
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if !Verify(f) {
					b.Fatal("bad")
				}
			}
		})
	}
}

func BenchmarkVerify6(b *testing.B) {
	f := sealed(b, true, 64, 0)
	b.ReportAllocs()
	for b.Loop() {
		if !Verify(f) {
			b.Fatal("bad")
		}
	}
}

func BenchmarkHeadCRC(b *testing.B) {
	f := sealed(b, false, 0, 0)
	bth := (*BTH)(f.Body)
	b.ReportAllocs()
	for b.Loop() {
		HeadCRC(f.Head, bth)
	}
}

func BenchmarkParse(b *testing.B) {
	f := sealed(b, false, 64, 0)
	var p Packet
	b.ReportAllocs()
	for b.Loop() {
		if Parse(f, &p) != DropNone {
			b.Fatal("bad")
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	batch := NewBatch(64, 128)
	batch.MaxRun(64)
	p := testPath(b, false)
	b.ReportAllocs()
	for b.Loop() {
		if batch.Reserve(p, 80) == nil {
			batch.Reset()
		}
	}
}

func BenchmarkSplitFrame(b *testing.B) {
	pkt := AppendFrame(nil, sealed(b, false, 64, 0))
	b.ReportAllocs()
	for b.Loop() {
		if _, drop := SplitFrame(pkt); drop != DropNone {
			b.Fatal(drop)
		}
	}
}
