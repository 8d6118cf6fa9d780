package layers_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/goroce/goroce/wire"
	roce "github.com/goroce/goroce/wire/layers"
)

type vector struct {
	Name, Msg string
	FrameHex  string `json:"frame_hex"`
	L3Offset  int    `json:"l3_offset"`
}

// vectors returns both golden files.
func vectors(t *testing.T) (all []vector) {
	t.Helper()
	for _, name := range []string{"icrc_vectors.json", "cm_vectors.json"} {
		b, err := os.ReadFile("../../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors, Messages []vector }
		if err := json.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		for _, m := range file.Messages {
			m.Name, m.L3Offset = "cm "+m.Msg, 14
			file.Vectors = append(file.Vectors, m)
		}
		all = append(all, file.Vectors...)
	}
	return all
}

// names lists a packet's layers.
func names(p gopacket.Packet) string {
	var s []string
	for _, l := range p.Layers() {
		s = append(s, l.LayerType().String())
	}
	return strings.Join(s, " ")
}

// TestPlainProgram is what a program does that has merely imported this package.
func TestPlainProgram(t *testing.T) {
	want := map[string]string{
		"rc_send_only_v4_pad3":    "Ethernet IPv4 UDP BTH Payload ICRC",
		"rc_write_only_imm_v4_id": "Ethernet IPv4 UDP BTH RETH ImmDt Payload ICRC",
		"rc_ack_v4":               "Ethernet IPv4 UDP BTH AETH ICRC",
		"rc_nak_seq_v4":           "Ethernet IPv4 UDP BTH AETH ICRC",
		"rc_read_req_v6":          "Ethernet IPv6 UDP BTH RETH ICRC",
		"rc_read_req_v6_mutated":  "Ethernet IPv6 UDP BTH RETH ICRC",
		"ud_gsi_mad_v4":           "Ethernet IPv4 UDP BTH DETH MAD ICRC",
		"cnp_v4":                  "Ethernet IPv4 UDP BTH CNPReserved ICRC",
		"cnp_v4_hardware":         "Ethernet IPv4 UDP BTH CNPReserved ICRC",
		"rc_fetch_add_v6":         "Ethernet IPv6 UDP BTH AtomicETH ICRC",
		"uc_send_only_v4_vlan":    "Ethernet Dot1Q IPv4 UDP BTH Payload ICRC",
	}
	for _, v := range vectors(t) {
		frame, err := hex.DecodeString(v.FrameHex)
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []gopacket.DecodeOptions{gopacket.Default, gopacket.Lazy, gopacket.NoCopy} {
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, how)
			wish := want[v.Name]
			if v.Msg != "" {
				wish = "Ethernet IPv4 UDP BTH DETH MAD ICRC"
			}
			if got := names(p); got != wish || p.ErrorLayer() != nil {
				t.Errorf("%s: layers %s, want %s (%v)", v.Name, got, wish, p.ErrorLayer())
			}
			if p.String() == "" || p.Dump() == "" {
				t.Errorf("%s: prints nothing", v.Name)
			}
		}
		if ok, err := roce.Verify(frame[v.L3Offset:]); !ok || err != nil {
			t.Errorf("%s: Verify %v %v", v.Name, ok, err)
		}
		reserialize(t, v.Name, frame)
	}
}

// reserialize turns a frame's layers into bytes again, computing nothing: they are the bytes the
// frame had.
func reserialize(t *testing.T, name string, frame []byte) {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	var all []gopacket.SerializableLayer
	for _, l := range p.Layers() {
		s, ok := l.(gopacket.SerializableLayer)
		if !ok {
			t.Fatalf("%s: %v cannot be serialized", name, l.LayerType())
		}
		all = append(all, s)
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, all...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !bytes.Equal(buf.Bytes(), frame) {
		t.Errorf("%s: serialized\n%x, want\n%x", name, buf.Bytes(), frame)
	}
}

func TestFields(t *testing.T) {
	for _, v := range vectors(t) {
		frame, _ := hex.DecodeString(v.FrameHex)
		p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		bth := p.Layer(roce.LayerTypeBTH).(*roce.BTH)
		switch v.Name {
		case "rc_send_only_v4_pad3":
			if bth.Opcode != wire.RCSendOnly || !bth.Solicited || !bth.AckReq || bth.PadCount != 3 || bth.DestQP != 0x11 ||
				bth.PSN != 0x123456 || string(p.ApplicationLayer().Payload()) != "Hello, RoCEv2" {
				t.Errorf("%s: %+v %q", v.Name, bth, p.ApplicationLayer())
			}
		case "rc_write_only_imm_v4_id":
			reth, imm := p.Layer(roce.LayerTypeRETH).(*roce.RETH), p.Layer(roce.LayerTypeImmDt).(*roce.ImmDt)
			if !bth.MigReq || reth.VA != 0x7f1234567000 || reth.RKey != 0x12345 || reth.DMALen != 8 || imm.Imm != 0xdeadbeef {
				t.Errorf("%s: %+v %+v %+v", v.Name, bth, reth, imm)
			}
		case "cm REQ":
			mad := p.Layer(roce.LayerTypeMAD).(*roce.MAD)
			if req, ok := mad.Message.(*wire.CMReq); !ok || req.LocalQPN != 0x123 || mad.TransactionID != 0x100000011 {
				t.Errorf("%s: %+v", v.Name, mad)
			}
		}
	}
}

// fresh holds an empty layer for each extension header.
var fresh = map[wire.Header]func() gopacket.SerializableLayer{
	wire.HdrRETH: func() gopacket.SerializableLayer {
		return &roce.RETH{VA: 0x1122334455667788, RKey: 0x99aabbcc, DMALen: 0xddeeff}
	},
	wire.HdrAETH:         func() gopacket.SerializableLayer { return &roce.AETH{Syndrome: wire.SynNAKOp, MSN: 0x123456} },
	wire.HdrAtomicETH:    func() gopacket.SerializableLayer { return &roce.AtomicETH{VA: 8, RKey: 1, SwapAdd: 2, Compare: 3} },
	wire.HdrAtomicAckETH: func() gopacket.SerializableLayer { return &roce.AtomicAckETH{Orig: 0xfedcba9876543210} },
	wire.HdrImmDt:        func() gopacket.SerializableLayer { return &roce.ImmDt{Imm: 0xcafe} },
	wire.HdrIETH:         func() gopacket.SerializableLayer { return &roce.IETH{RKey: 0xbeef} },
	wire.HdrDETH:         func() gopacket.SerializableLayer { return &roce.DETH{QKey: 7, SrcQP: 0xabcdef} },
	wire.HdrRDETH:        func() gopacket.SerializableLayer { return &roce.RDETH{EEContext: 0x1234} },
	wire.HdrXRCETH:       func() gopacket.SerializableLayer { return &roce.XRCETH{SRQN: 0x4321} },
	wire.HdrFETH:         func() gopacket.SerializableLayer { return &roce.FETH{Placement: 3, Selectivity: 1} },
	wire.HdrCNPReserved:  func() gopacket.SerializableLayer { return &roce.CNPReserved{} },
}

// TestBuildEveryOpcode serializes each opcode with lengths, checksums and pad computed, seals it,
// and reads it back, both by gopacket and by package wire.
func TestBuildEveryOpcode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	src, dst := netip.MustParseAddr("192.0.2.1").AsSlice(), netip.MustParseAddr("192.0.2.2").AsSlice()
	for op := range 256 {
		info := wire.Opcode(op).Info()
		if info.Flags == 0 {
			continue
		}
		ip := &layers.IPv4{
			Version:  4,
			TTL:      64,
			Protocol: layers.IPProtocolUDP,
			Flags:    layers.IPv4DontFragment,
			Id:       uint16(op),
			SrcIP:    src,
			DstIP:    dst,
		}
		udp := &layers.UDP{SrcPort: 49152, DstPort: wire.UDPPort}
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		bth := &roce.BTH{Opcode: wire.Opcode(op), PKey: wire.DefaultPKey, DestQP: 0x123456, PSN: 0x654321, AckReq: op&1 == 1,
			Solicited: op&2 == 2, MigReq: op&4 == 4, FECN: op&8 == 8, BECN: op&16 == 16}
		all := []gopacket.SerializableLayer{ip, udp, bth}
		for _, h := range info.Headers {
			all = append(all, fresh[h]())
		}
		payload := make([]byte, 0)
		if info.Has(wire.OpPayload) {
			payload = make([]byte, 1+rnd.IntN(20))
			payload[0] = byte(op)
			all = append(all, gopacket.Payload(payload))
		}
		all = append(all, &roce.ICRC{})
		buf := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
			t.Fatalf("%v: %v", wire.Opcode(op), err)
		}
		if ok, err := roce.Verify(buf.Bytes()); ok || err != nil {
			t.Errorf("%v: verified before Seal, or %v", wire.Opcode(op), err)
		}
		if err := roce.Seal(buf.Bytes()); err != nil {
			t.Fatalf("%v: %v", wire.Opcode(op), err)
		}
		if ok, err := roce.Verify(buf.Bytes()); !ok || err != nil {
			t.Errorf("%v: Verify %v %v", wire.Opcode(op), ok, err)
		}
		checkBuilt(t, buf.Bytes(), all, bth, payload)
	}
}

func checkBuilt(t *testing.T, pkt []byte, all []gopacket.SerializableLayer, bth *roce.BTH, payload []byte) {
	t.Helper()
	f, drop := wire.SplitFrame(pkt)
	var p wire.Packet
	if drop != wire.DropNone || wire.Parse(&f, &p) != wire.DropNone || !bytes.Equal(p.Payload, payload) || p.Opcode != bth.Opcode {
		t.Fatalf("%v: wire reads %s", bth.Opcode, wire.AppendPacket(nil, &f))
	}
	decoded := gopacket.NewPacket(pkt, layers.LayerTypeIPv4, gopacket.Default).Layers()
	if decoded[1].(*layers.UDP).Checksum != 0 {
		t.Errorf("%v: Seal left a UDP checksum", bth.Opcode)
	}
	if len(decoded) != len(all) {
		t.Fatalf("%v: %d layers, want %d", bth.Opcode, len(decoded), len(all))
	}
	for i, l := range decoded[2:] {
		if l.LayerType() != all[i+2].LayerType() {
			t.Errorf("%v: layer %v, want %v", bth.Opcode, l.LayerType(), all[i+2].LayerType())
		}
		got, want := reflect.Indirect(reflect.ValueOf(l)), reflect.Indirect(reflect.ValueOf(all[i+2]))
		if got.Kind() != reflect.Struct || l.LayerType() == roce.LayerTypeICRC {
			continue
		}
		for k := 1; k < got.NumField(); k++ { // field 0 is BaseLayer
			if !reflect.DeepEqual(got.Field(k).Interface(), want.Field(k).Interface()) {
				t.Errorf("%v: %v.%s = %v, want %v", bth.Opcode, l.LayerType(), got.Type().Field(k).Name, got.Field(k), want.Field(k))
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	for _, v := range vectors(t) {
		frame, _ := hex.DecodeString(v.FrameHex)
		body := frame[v.L3Offset+28:]
		if v.Name == "rc_read_req_v6" || v.Name == "rc_read_req_v6_mutated" || v.Name == "rc_fetch_add_v6" {
			body = frame[v.L3Offset+48:]
		}
		whole := gopacket.NewPacket(body, roce.LayerTypeBTH, gopacket.Default)
		if whole.ErrorLayer() != nil {
			t.Errorf("%s: %v", v.Name, whole.ErrorLayer().Error())
		}
		for n := range wire.MinBody {
			p := gopacket.NewPacket(body[:n], roce.LayerTypeBTH, gopacket.Default)
			if p.ErrorLayer() == nil || !p.Metadata().Truncated {
				t.Errorf("%s: %d bytes decoded without an error", v.Name, n)
			}
		}
	}
}

func TestUnknownOpcode(t *testing.T) {
	p := gopacket.NewPacket(append([]byte{0x1f}, make([]byte, 30)...), roce.LayerTypeBTH, gopacket.Default)
	if names(p) != "BTH Payload" || p.ErrorLayer() != nil {
		t.Errorf("layers %s, %v", names(p), p.ErrorLayer())
	}
}

// TestDecodingLayerParser: the fast way of gopacket sees the BTH, and the rest as payload.
func TestDecodingLayerParser(t *testing.T) {
	var eth layers.Ethernet
	var ip layers.IPv4
	var udp layers.UDP
	var bth roce.BTH
	var payload gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &bth, &payload)
	for _, v := range vectors(t) {
		if v.Name != "rc_ack_v4" {
			continue
		}
		frame, _ := hex.DecodeString(v.FrameHex)
		var found []gopacket.LayerType
		if err := parser.DecodeLayers(frame, &found); err != nil || len(found) != 5 || bth.Opcode != wire.RCAcknowledge ||
			len(payload) != 8 {
			t.Errorf("%v %v %v %d", err, found, bth.Opcode, len(payload))
		}
	}
}

func TestSealRefuses(t *testing.T) {
	for _, bad := range [][]byte{nil, {0x45}, make([]byte, 60)} {
		if roce.Seal(bad) == nil {
			t.Errorf("sealed %d bytes that are no RoCEv2 packet", len(bad))
		}
		if ok, err := roce.Verify(bad); ok || err == nil {
			t.Errorf("verified %d bytes that are no RoCEv2 packet", len(bad))
		}
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, &roce.BTH{}, &roce.ICRC{Pad: 4}); err == nil {
		t.Error("a pad of 4")
	}
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, &roce.MAD{}); err == nil {
		t.Error("a MAD without a message")
	}
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, &roce.BTH{}, gopacket.Payload("x")); err == nil {
		t.Error("no ICRC")
	}
}
