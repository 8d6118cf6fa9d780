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

// TestCMLayout puts each field at its place by hand, from the tables of section 9.2, for what the
// vectors leave 0.
func TestCMLayout(t *testing.T) {
	for _, c := range []struct {
		msg  CMMessage
		want map[int]string // offset in the body → bytes
	}{
		{&CMMra{
			LocalCommID:    0x01020304,
			RemoteCommID:   0x05060708,
			MessageMRAed:   CMWhichOther,
			ServiceTimeout: 24,
			PrivateData:    [222]byte{7, 221: 9},
		},
			map[int]string{0: "0102030405060708", 8: "80", 9: "c0", 10: "07", 231: "09"}},
		{&CMRej{
			LocalCommID:     1,
			RemoteCommID:    2,
			MessageRejected: CMWhichREP,
			ARILen:          8,
			Reason:          CMRejTimeout,
			ARI:             [72]byte{1, 71: 2},
			PrivateData:     [148]byte{3, 147: 4},
		},
			map[int]string{3: "01", 7: "02", 8: "40", 9: "10", 10: "0004", 12: "01", 83: "0203", 231: "04"}},
		{&CMRep{VendorID: 0x112233, LocalQKey: 0x44556677, LocalEECN: 0x8899aa, FailoverAccepted: 2, EndToEndFlowControl: true,
			TargetAckDelay: 1, RNRRetryCount: 5, SRQ: true, PrivateData: [196]byte{195: 6}},
			map[int]string{8: "44556677", 15: "11", 16: "8899aa", 19: "22", 23: "33", 26: "0d", 27: "b0", 231: "06"}},
		{&CMDreq{RemoteQPN: 0x123456, PrivateData: [220]byte{1, 219: 2}}, map[int]string{8: "123456", 12: "01", 231: "02"}},
		{&CMRtu{PrivateData: [224]byte{1, 223: 2}}, map[int]string{8: "01", 231: "02"}},
		{&CMDrep{PrivateData: [224]byte{1, 223: 2}}, map[int]string{8: "01", 231: "02"}},
		{&CMSidrReq{RequestID: 0x01020304, PartitionKey: 0xffff, ServiceID: 0x1122334455667788, PrivateData: [216]byte{1, 215: 2}},
			map[int]string{0: "01020304", 4: "ffff", 8: "1122334455667788", 16: "01", 231: "02"}},
		{&CMSidrRep{RequestID: 1, Status: CMSidrRejected, InfoLen: 5, VendorID: 0x112233, QPN: 0x445566, ServiceID: 7, QKey: 0x01234567,
			Info: [72]byte{8, 71: 9}, PrivateData: [136]byte{10, 135: 11}},
			map[int]string{3: "01", 4: "02", 5: "05", 6: "1122", 8: "445566", 11: "33", 19: "07", 20: "01234567", 24: "08", 95: "090a",
				231: "0b"}},
		{&CMLap{RemoteQPN: 0x010203, RemoteCMResponseTimeout: 20, Alternate: CMPath{LocalLID: 0x1111, RemoteLID: 0x2222,
			LocalGID: GID{3, 15: 4}, RemoteGID: GID{5, 15: 6}, FlowLabel: 0xabcde, TrafficClass: 0x77, HopLimit: 0x88, PacketRate: 0x3f,
			SL: 9, SubnetLocal: true, LocalAckTimeout: 17}, PrivateData: [168]byte{167: 1}},
			map[int]string{12: "010203a0", 20: "11112222", 24: "03", 39: "0405", 55: "06", 56: "abcde077", 60: "88", 61: "3f", 62: "98",
				63: "88", 231: "01"}},
		{&CMApr{LocalCommID: 1, InfoLen: 2, Status: 3, Info: [72]byte{4, 71: 5}, PrivateData: [148]byte{6, 147: 7}},
			map[int]string{3: "01", 8: "0203", 12: "04", 83: "0506", 231: "07"}},
		{&CMReq{VendorID: 0x112233, LocalQKey: 0x44556677, LocalEECN: 0x010203, RemoteEECN: 0x040506, TransportServiceType: 3,
			EndToEndFlowControl: true, RemoteCMResponseTimeout: 31, RDCExists: true, SRQ: true, MaxCMRetries: 15, ExtendedTransportType: 1,
			PathMTU: MTU4096, SAPSupported: true, Primary: CMPath{PacketRate: 0x3f, TrafficClass: 0x12, SL: 5, SubnetLocal: true},
			Alternate: CMPath{LocalLID: 1, RemoteLID: 2, LocalGID: GID{3}, RemoteGID: GID{4}, FlowLabel: 0xfffff, PacketRate: 5,
				TrafficClass: 6, HopLimit: 7, SL: 8, LocalAckTimeout: 9}},
			map[int]string{5: "112233", 28: "44556677", 36: "010203", 40: "040506ff", 50: "58", 51: "f9", 91: "3f12", 94: "58",
				96: "00010002", 100: "03", 116: "04", 132: "fffff0", 135: "050607", 138: "80", 139: "4c"}},
	} {
		var m, want MAD
		want.PutHeader(c.msg.Attribute(), 42)
		for off, hex := range c.want {
			copy(want.body()[off:], unhex(t, hex))
		}
		if PutCM(&m, 42, c.msg); m != want {
			t.Errorf("%v:\n got %x\nwant %x", c.msg.Attribute(), m, want)
		}
	}
}

func TestCMRefuses(t *testing.T) {
	var m MAD
	PutCM(&m, 1, &CMRtu{})
	if err := GetCM(&m, &CMReq{}); err == nil || err.Error() != "wire: a RTU is no REQ" {
		t.Error(err)
	}
	for _, i := range []int{0, 1, 2, 3, 16, 17} {
		bad := m
		bad[i] ^= 0x40
		if _, err := ParseCM(&bad); err == nil {
			t.Errorf("byte %d of the header changed: still parsed", i)
		}
		if i < 4 && GetCM(&bad, &CMRtu{}) == nil {
			t.Errorf("byte %d of the header changed: GetCM", i)
		}
	}
}

func TestCMIPHeader(t *testing.T) {
	for _, v := range loadCMVectors(t) {
		if v.Msg != "REQ" {
			continue
		}
		_, m := v.frame(t)
		var req CMReq
		if err := GetCM(m, &req); err != nil {
			t.Fatal(err)
		}
		var h CMIPHeader
		err := h.Get(req.PrivateData[:])
		if err != nil || h.SrcPort != 40001 || h.Src.String() != "::ffff:192.0.2.1" || h.Dst.String() != "::ffff:192.0.2.2" {
			t.Errorf("%+v %v", h, err)
		}
		if ps, port, ok := CMServicePort(req.ServiceID); !ok || ps != CMPortSpaceTCP || port != 7471 ||
			CMServiceID(ps, port) != req.ServiceID {
			t.Errorf("service %x: %x %d %v", req.ServiceID, ps, port, ok)
		}
		if CMFlowLabel(h.SrcPort, 7471) != req.Primary.FlowLabel {
			t.Errorf("flow label %x, want %x", CMFlowLabel(h.SrcPort, 7471), req.Primary.FlowLabel)
		}
		again := req.PrivateData
		if h.Put(again[:]); again != req.PrivateData {
			t.Errorf("put %x, want %x", again[:36], req.PrivateData[:36])
		}
	}
	h, back := CMIPHeader{SrcPort: 7, Src: GID{0xfe, 0x80, 15: 1}, Dst: GID{0xfe, 0x80, 15: 2}}, CMIPHeader{}
	private := make([]byte, CMIPHeaderLen)
	if h.Put(private); back.Get(private) != nil || back != h {
		t.Errorf("IPv6: %+v", back)
	}
	for _, bad := range [][]byte{private[:35], append([]byte{1}, private[1:]...), append([]byte{0, 0x50}, private[2:]...)} {
		if back.Get(bad) == nil {
			t.Errorf("accepted % x", bad[:4])
		}
	}
	if _, _, ok := CMServicePort(0x1000000001061d2f); ok {
		t.Error("a service ID that is no IP port")
	}
}

func TestCMNames(t *testing.T) {
	for got, want := range map[string]string{
		CMRejInvalidService.String(): "invalid service ID", CMRejConsumer.String(): "consumer defined",
		CMRejReason(33).String(): "invalid alternate flow label", CMRejReason(34).String(): "34",
		CMRejReason(35).String(): "vendor option not supported", CMRejReason(0).String(): "0",
		CMSidrVersion.String(): "unsupported version", CMAprStatus(13).String(): "invalid SL", CMAprStatus(14).String(): "14",
		CMAttrAPR.String(): "APR", CMAttrSIDRREQ.String(): "SIDR_REQ", CMAttribute(0x99).String(): "attribute 0x99",
		CMWhich(3).String(): "3", CMRejDuplicateCommID.String(): "duplicate local communication ID",
		CMRejInvalidMTU.String(): "invalid path MTU", CMRejStale.String(): "stale connection",
	} {
		if got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
	}
}
