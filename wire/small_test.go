package wire

import (
	"go/parser"
	"go/token"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		d    int32
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, PSNMask, 1}, {PSNMask, 0, -1}, {5, 0xfffffe, 7},
		{0x7fffff, 0, 1<<23 - 1}, {0x800000, 0, -1 << 23}, {0, 0x800000, -1 << 23}, {0x800001, 0, -(1<<23 - 1)},
	} {
		if got := c.p.Sub(c.q); got != c.d {
			t.Errorf("%d - %d = %d, want %d", c.p, c.q, got, c.d)
		}
		if c.p.Before(c.q) != (c.d < 0) {
			t.Errorf("%d before %d: %v", c.p, c.q, c.p.Before(c.q))
		}
		if got := c.q.Add(uint32(c.d)); got != c.p {
			t.Errorf("%d + %d = %d, want %d", c.q, c.d, got, c.p)
		}
	}
	if PSNMask.Next() != 0 || PSN(0).Prev() != PSNMask || PSNMask.Add(2) != 1 || PSN(3).Add(1<<24) != 3 {
		t.Error("wrap-around")
	}
	for p := PSN(0); p <= PSNMask; p += 4099 { // sub undoes add, from everywhere
		for _, n := range []uint32{0, 1, 127, 1<<23 - 1} {
			if p.Add(n).Sub(p) != int32(n) || p.Sub(p.Add(n)) != -int32(n) {
				t.Fatalf("%d + %d", p, n)
			}
		}
	}
}

func TestGID(t *testing.T) {
	for _, c := range []struct {
		in, out   string
		is4, mult bool
	}{
		{"192.0.2.1", "::ffff:192.0.2.1", true, false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1", true, false},
		{"0000:0000:0000:0000:0000:ffff:c000:0201", "::ffff:192.0.2.1", true, false},
		{"224.0.0.9", "::ffff:224.0.0.9", true, true},
		{"239.255.1.2", "::ffff:239.255.1.2", true, true},
		{"fe80::1", "fe80::1", false, false},
		{"ff0e::1", "ff0e::1", false, true},
		{" 2001:db8::1 ", "2001:db8::1", false, false},
	} {
		g, err := ParseGID(c.in)
		if err != nil || g.String() != c.out || g.Is4() != c.is4 || g.IsMulticast() != c.mult {
			t.Errorf("%q: %v %v is4 %v multicast %v", c.in, g, err, g.Is4(), g.IsMulticast())
		}
		if again, _ := ParseGID(g.String()); again != g {
			t.Errorf("%q does not read back", g.String())
		}
		if GIDFrom(g.Addr()) != g || g.Addr().Is4() != c.is4 {
			t.Errorf("%v: Addr %v", g, g.Addr())
		}
	}
	for _, bad := range []string{"", "x", "192.0.2", "fe80::1%eth0", "1.2.3.4.5"} {
		if g, err := ParseGID(bad); err == nil || !g.IsZero() || !strings.Contains(err.Error(), strconv.Quote(bad)) {
			t.Errorf("%q: %v %v", bad, g, err)
		}
	}
	if !GIDFrom(netip.Addr{}).IsZero() {
		t.Error("GID of no address")
	}
}

func TestMTU(t *testing.T) {
	for m, n := range map[MTU]int{MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096} {
		if m.Bytes() != n || m.String() != strconv.Itoa(n) {
			t.Errorf("%d: %d %s", m, m.Bytes(), m)
		}
		if got, err := MTUFromBytes(n); got != m || err != nil {
			t.Errorf("MTUFromBytes(%d) = %v %v", n, got, err)
		}
		if got, err := MTUFromEnum(uint8(m)); got != m || err != nil {
			t.Errorf("MTUFromEnum(%d) = %v %v", m, got, err)
		}
		if MTUForNet(n+84) != m || MTUForNet(n+83) != m-1 {
			t.Errorf("interface of %d bytes", n+84)
		}
	}
	for _, bad := range []uint8{0, 6, 255} {
		if _, err := MTUFromEnum(bad); err == nil || MTU(bad).Bytes() != 0 {
			t.Errorf("MTU %d accepted", bad)
		}
	}
	if _, err := MTUFromBytes(1500); err == nil {
		t.Error("1500 accepted")
	}
	if MTUForNet(1500) != MTU1024 || MTUForNet(9000) != MTU4096 || MTUForNet(65536) != MTU4096 {
		t.Error("usual interfaces")
	}
}

func TestSyndromes(t *testing.T) {
	for s, want := range map[Syndrome]string{
		SynACK: "ACK", AckSyndrome(0): "ACK credits 0", AckSyndrome(8): "ACK credits 16", AckSyndrome(30): "ACK credits 32768",
		RNRSyndrome(12): "RNR NAK 0.64 ms", RNRSyndrome(0): "RNR NAK 655.36 ms", SynNAKSeq: "NAK PSN sequence error",
		SynNAKInvReq: "NAK invalid request", SynNAKAccess: "NAK remote access error", SynNAKOp: "NAK remote operational error",
		SynNAKInvRD: "NAK invalid RD request", 0x65: "NAK reserved code 5", 0x40: "reserved syndrome 0x40", 0x9f: "reserved syndrome 0x9f",
	} {
		if s.String() != want {
			t.Errorf("0x%02x prints %q, want %q", uint8(s), s.String(), want)
		}
	}
	for i := range 256 {
		want := KindReserved
		switch {
		case i < 0x20:
			want = KindACK
		case i < 0x40:
			want = KindRNR
		case i >= 0x60 && i < 0x80:
			want = KindNAK
		}
		if s := Syndrome(i); s.Kind() != want || int(s.Code()) != i&31 {
			t.Errorf("0x%02x: kind %d code %d", i, s.Kind(), s.Code())
		}
	}
}

// TestTimers walks the table of section 1.6 as the reference prints it, in milliseconds.
func TestTimers(t *testing.T) {
	ms := []float64{655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84,
		5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52}
	for code, want := range ms {
		got := RNRTimeout(uint8(code))
		if got != int64(want*1e6+0.5) {
			t.Errorf("code %d: %d ns, want %v ms", code, got, want)
		}
		if RNRCode(got) != uint8(code) {
			t.Errorf("RNRCode(%d) = %d, want %d", got, RNRCode(got), code)
		}
		if code > 1 && RNRCode(RNRTimeout(uint8(code-1))+1) != uint8(code) {
			t.Errorf("just above code %d", code-1)
		}
	}
	if RNRCode(0) != 1 || RNRCode(1e12) != 0 {
		t.Error("RNRCode out of range")
	}
	for n, want := range map[uint8]int64{0: 0, 1: 8192, 4: 65536, 14: 67108864, 17: 536870912, 31: 4096 << 31, 32: 0} {
		if AckTimeout(n) != want {
			t.Errorf("AckTimeout(%d) = %d, want %d", n, AckTimeout(n), want)
		}
	}
}

func TestCredits(t *testing.T) {
	want := []uint32{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
		6144, 8192, 12288, 16384, 24576, 32768}
	for code, n := range want {
		if got, limited := Credits(uint8(code)); got != n || !limited {
			t.Errorf("code %d: %d %v", code, got, limited)
		}
	}
	if _, limited := Credits(31); limited {
		t.Error("ends of the credit table")
	}
}

func TestDropReasons(t *testing.T) {
	seen := map[string]DropReason{}
	for r := DropNone; r < NumDropReasons; r++ {
		if r.String() == "" || r.Explain() == "" {
			t.Errorf("reason %d has no name or text", r)
		}
		if other, twice := seen[r.String()]; twice {
			t.Errorf("reasons %d and %d are both %q", other, r, r)
		}
		seen[r.String()] = r
	}
	if NumDropReasons.String() == "" || DropReason(200).Explain() == "" {
		t.Error("out of range")
	}
}

func TestSrcPortFor(t *testing.T) {
	for _, c := range []struct {
		l, r, flow uint32
		port       uint16
	}{
		{1, 2, 0x00001, 0xc001},
		{1, 2, 0xfffff, 0xffff ^ 0x3f}, // 0x3fff ^ 0x3f
		{1, 2, 0x04000, 0xc001},
		{0x12, 0x34, 0, 0xc000 | 0x12*0x34},
		{0, 0, 0, 0xc000},
		{0xffffff, 0xffffff, 0, 0xff21},
	} {
		got := SrcPortFor(c.l, c.r, c.flow)
		if got != c.port || got < 0xc000 {
			t.Errorf("SrcPortFor(%x, %x, %x) = %x, want %x", c.l, c.r, c.flow, got, c.port)
		}
	}
}

// TestPure holds the promise of doc.go: no I/O, no clock, nothing of this project.
func TestPure(t *testing.T) {
	allowed := map[string]bool{"encoding/binary": true, "errors": true, "hash/crc32": true, "net/netip": true, "strconv": true,
		"strings": true, "golang.org/x/sys/cpu": true}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		src, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range src.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !allowed[path] {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
}
