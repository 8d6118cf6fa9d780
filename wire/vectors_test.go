package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// vector is one packet of testdata/icrc_vectors.json. The file was computed with zlib, recomputed
// with scapy and decoded with tshark.
type vector struct {
	Name       string
	FrameHex   string `json:"frame_hex"`
	L3Offset   int    `json:"l3_offset"`
	UDPPayload string `json:"udp_payload_hex"`
	CRCInput   string `json:"crc_input_hex"`
	ICRCWire   string `json:"icrc_wire_hex"`
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	var file struct{ Vectors []vector }
	readJSON(t, "../testdata/icrc_vectors.json", &file)
	if len(file.Vectors) < 11 {
		t.Fatalf("%d vectors, want 11", len(file.Vectors))
	}
	return file.Vectors
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(name, err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frame cuts the vector's IP packet in a copy of its own.
func (v *vector) frame(t testing.TB) Frame {
	t.Helper()
	f, drop := SplitFrame(unhex(t, v.FrameHex)[v.L3Offset:])
	if drop != DropNone {
		t.Fatalf("%s: SplitFrame: %v", v.Name, drop)
	}
	return f
}

func TestVectorsVerifyAndSeal(t *testing.T) { everyWay(t, testVectorsVerifyAndSeal) }

func testVectorsVerifyAndSeal(t *testing.T) {
	for _, v := range loadVectors(t) {
		f := v.frame(t)
		var p Packet
		if drop := Parse(&f, &p); drop != DropNone {
			t.Errorf("%s: Parse: %v", v.Name, drop)
			continue
		}
		if !bytes.Equal(f.Body, unhex(t, v.UDPPayload)) {
			t.Errorf("%s: body differs from the vector's UDP payload", v.Name)
		}
		if !Verify(&f) {
			t.Errorf("%s: Verify says no", v.Name)
		}
		want := unhex(t, v.ICRCWire)
		tail := f.Body[len(f.Body)-ICRCLen:]
		clear(tail)
		if Seal(&f); !bytes.Equal(tail, want) {
			t.Errorf("%s: Seal wrote %x, want %x", v.Name, tail, want)
		}
	}
}
