package wire

import "testing"

// cmVector is one message of testdata/cm_vectors.json: a complete exchange, decoded with tshark.
type cmVector struct {
	Msg      string `json:"msg"`
	FrameHex string `json:"frame_hex"`
	MADHex   string `json:"mad_hex"`
}

func loadCMVectors(t testing.TB) []cmVector {
	t.Helper()
	var file struct{ Messages []cmVector }
	readJSON(t, "../testdata/cm_vectors.json", &file)
	if len(file.Messages) < 6 {
		t.Fatalf("%d messages, want 6", len(file.Messages))
	}
	return file.Messages
}

// cmFrame returns the frame and the MAD of a vector.
func (v *cmVector) frame(t testing.TB) (Frame, *MAD) {
	t.Helper()
	f, drop := SplitFrame(unhex(t, v.FrameHex)[14:])
	if drop != DropNone {
		t.Fatalf("%s: %v", v.Msg, drop)
	}
	var p Packet
	if drop := Parse(&f, &p); drop != DropNone {
		t.Fatalf("%s: %v", v.Msg, drop)
	}
	m := MADOf(&p)
	if m == nil {
		t.Fatalf("%s: MADOf found none", v.Msg)
	}
	return f, m
}

func TestCMVectorsRebuild(t *testing.T) {
	for _, v := range loadCMVectors(t) {
		f, m := v.frame(t)
		if !Verify(&f) {
			t.Errorf("%s: ICRC", v.Msg)
		}
		if got := *m; got != MAD(unhex(t, v.MADHex)) {
			t.Errorf("%s: MAD differs from mad_hex", v.Msg)
		}
		if m.Attribute().String() != v.Msg || !m.IsCM() {
			t.Errorf("%s: attribute %v, IsCM %v", v.Msg, m.Attribute(), m.IsCM())
		}
		msg, err := ParseCM(m)
		if err != nil {
			t.Errorf("%s: %v", v.Msg, err)
			continue
		}
		var again MAD
		PutCM(&again, m.TransactionID(), msg)
		if again != *m {
			t.Errorf("%s: rebuilt MAD differs\n got %x\nwant %x", v.Msg, again, *m)
		}
		t.Logf("%s", AppendPacket(nil, &f))
	}
}
