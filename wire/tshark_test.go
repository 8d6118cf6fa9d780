package wire

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tshark returns the path of the program, or skips the test with the reason. GOROCE_REQUIRE_TOOLS=1
// makes that a failure.
func tshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("GOROCE_REQUIRE_TOOLS") == "1" {
			t.Fatal("tshark is not installed, and GOROCE_REQUIRE_TOOLS=1")
		}
		t.Skip("tshark is not installed (Debian package tshark)")
	}
	return path
}

// writePcapng writes IP packets as a capture file: a section header, one interface of raw IP
// packets, a block per packet.
func writePcapng(t *testing.T, name string, packets [][]byte) {
	t.Helper()
	const rawIP = 101
	var out []byte
	block := func(kind uint32, body []byte) {
		body = append(body, make([]byte, Pad(len(body)))...)
		n := uint32(12 + len(body))
		out = le.AppendUint32(le.AppendUint32(out, kind), n)
		out = le.AppendUint32(append(out, body...), n)
	}
	section := le.AppendUint32(nil, 0x1a2b3c4d)
	section = le.AppendUint32(section, 1) // version 1.0
	section = le.AppendUint64(section, ^uint64(0))
	block(0x0a0d0d0a, section)
	block(1, le.AppendUint32(le.AppendUint32(nil, rawIP), 0))
	for i, p := range packets {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0), 0), uint32(i))
		b = le.AppendUint32(le.AppendUint32(b, uint32(len(p))), uint32(len(p)))
		block(6, append(b, p...))
	}
	if err := os.WriteFile(name, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// dissect returns tshark's value of each field in each packet.
func dissect(t *testing.T, packets [][]byte, fields []string) (rows [][]string) {
	t.Helper()
	program := tshark(t)
	name := filepath.Join(t.TempDir(), "opcodes.pcapng")
	writePcapng(t, name, packets)
	args := []string{"-r", name, "-T", "fields", "-E", "separator=|"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, stderr.String())
	}
	for l := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(l, "\n"), "|"))
	}
	if len(rows) != len(packets) {
		t.Fatalf("tshark shows %d packets of %d\n%s", len(rows), len(packets), stderr.String())
	}
	return rows
}

// tsharkGap says of which opcodes tshark 4.0.17 does not know the extension headers; their BTH is
// checked all the same. Of RD it shows the layout of another transport that uses the same opcodes.
func tsharkGap(op Opcode) bool {
	return op == RCFlush || op == RCAtomicWrite || op == CNP || op.Service() == ServiceXRC || op.Service() == ServiceRD
}

// shownField is a field that tshark shows: its name, the header it belongs to (NumHeaders: BTH),
// and what we say it is.
type shownField struct {
	name   string
	header Header
	value  func(p *Packet) uint64
}

var shownFields = []shownField{
	{"infiniband.bth.opcode", NumHeaders, func(p *Packet) uint64 { return uint64(p.Opcode) }},
	{"infiniband.bth.se", NumHeaders, func(p *Packet) uint64 { return bit(p.BTH.Solicited()) }},
	{"infiniband.bth.m", NumHeaders, func(p *Packet) uint64 { return bit(p.BTH.MigReq()) }},
	{"infiniband.bth.a", NumHeaders, func(p *Packet) uint64 { return bit(p.BTH.AckReq()) }},
	{"infiniband.bth.padcnt", NumHeaders, func(p *Packet) uint64 { return uint64(p.BTH.PadCount()) }},
	{"infiniband.bth.tver", NumHeaders, func(p *Packet) uint64 { return uint64(p.BTH.TVer()) }},
	{"infiniband.bth.p_key", NumHeaders, func(p *Packet) uint64 { return uint64(p.BTH.PKey()) }},
	{"infiniband.bth.destqp", NumHeaders, func(p *Packet) uint64 { return uint64(p.BTH.DestQP()) }},
	{"infiniband.bth.psn", NumHeaders, func(p *Packet) uint64 { return uint64(p.BTH.PSN()) }},
	{"infiniband.reth.va", HdrRETH, func(p *Packet) uint64 { return p.RETH().VA() }},
	{"infiniband.reth.r_key", HdrRETH, func(p *Packet) uint64 { return uint64(p.RETH().RKey()) }},
	{"infiniband.reth.dmalen", HdrRETH, func(p *Packet) uint64 { return uint64(p.RETH().DMALen()) }},
	{"infiniband.aeth.syndrome", HdrAETH, func(p *Packet) uint64 { return uint64(p.AETH().Syndrome()) }},
	{"infiniband.aeth.msn", HdrAETH, func(p *Packet) uint64 { return uint64(p.AETH().MSN()) }},
	{"infiniband.atomiceth.swapdt", HdrAtomicETH, func(p *Packet) uint64 { return p.AtomicETH().SwapAdd() }},
	{"infiniband.atomiceth.cmpdt", HdrAtomicETH, func(p *Packet) uint64 { return p.AtomicETH().Compare() }},
	{"infiniband.reth.va", HdrAtomicETH, func(p *Packet) uint64 { return p.AtomicETH().VA() }},
	{"infiniband.reth.r_key", HdrAtomicETH, func(p *Packet) uint64 { return uint64(p.AtomicETH().RKey()) }},
	{"infiniband.atomicacketh.origremdt", HdrAtomicAckETH, func(p *Packet) uint64 { return p.AtomicAckETH().Orig() }},
	{"infiniband.deth.q_key", HdrDETH, func(p *Packet) uint64 { return uint64(p.DETH().QKey()) }},
	{"infiniband.deth.srcqp", HdrDETH, func(p *Packet) uint64 { return uint64(p.DETH().SrcQP()) }},
	{"infiniband.rdeth.eecnxt", HdrRDETH, func(p *Packet) uint64 { return uint64(p.RDETH().EEContext()) }},
	{"infiniband.immdt", HdrImmDt, func(p *Packet) uint64 { return uint64(p.ImmDt().Imm()) }},
	{"infiniband.ieth", HdrIETH, func(p *Packet) uint64 { return uint64(p.IETH().RKey()) }},
	{"infiniband.invariant.crc", NumHeaders, func(p *Packet) uint64 { return uint64(be.Uint32(p.Body[len(p.Body)-4:])) }},
}

func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// TestTshark builds a packet of every opcode over both IP versions and compares what tshark shows.
func TestTshark(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 20))
	var packets [][]byte
	var frames []Frame
	for op := range Opcodes {
		if Opcodes[op].Flags == 0 {
			continue
		}
		n := 0
		if Opcodes[op].Flags&OpPayload != 0 {
			n = 13
		}
		for _, v6 := range []bool{false, true} {
			b := build(t, rnd, Opcode(op), testPath(t, v6), n, false)
			packets = append(packets, AppendFrame(nil, &b.frame))
			frames = append(frames, b.frame)
		}
	}
	var names []string
	column := map[string]int{}
	for _, s := range shownFields {
		if _, twice := column[s.name]; !twice {
			column[s.name] = len(names)
			names = append(names, s.name)
		}
	}
	for i, row := range dissect(t, packets, names) {
		var p Packet
		if drop := Parse(&frames[i], &p); drop != DropNone {
			t.Fatal(drop)
		}
		for _, s := range shownFields {
			text := row[column[s.name]]
			if s.header != NumHeaders && !p.Op.Has(headerFlag<<s.header) || tsharkGap(p.Opcode) && !strings.HasPrefix(s.name, "infiniband.bth") {
				continue
			}
			if got, want := shown(text), s.value(&p); got != want {
				t.Errorf("%v: tshark shows %s = %q (%x), we %x\n%s", p.Opcode, s.name, text, got, want, AppendPacket(nil, &frames[i]))
			}
		}
	}
	t.Logf("%d packets agree", len(packets))
}

// shown reads one of tshark's values: decimal, 0x hexadecimal, a word, or a string of bytes.
func shown(s string) uint64 {
	switch s {
	case "True":
		return 1
	case "False":
		return 0
	}
	if v, err := strconv.ParseUint(s, 0, 64); err == nil && (len(s) < 8 || strings.HasPrefix(s, "0x") || s[0] != '0') {
		return v
	}
	b, _ := hex.DecodeString(s)
	var v uint64
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}

// TestTsharkCM compares what tshark shows of a connection request.
func TestTsharkCM(t *testing.T) {
	req := CMReq{LocalCommID: 0x01020304, ServiceID: CMServiceID(CMPortSpaceTCP, 7471), LocalCAGUID: 0x0200_00ff_fe00_0001, LocalQPN: 0x123456,
		ResponderResources: 3, InitiatorDepth: 4, RemoteCMResponseTimeout: 20, StartingPSN: 0xabcdef, LocalCMResponseTimeout: 21, RetryCount: 7,
		PartitionKey: DefaultPKey, PathMTU: MTU2048, RNRRetryCount: 6, MaxCMRetries: 15, Primary: CMPath{HopLimit: 64, LocalAckTimeout: 17}}
	p := testPath(t, false)
	f := Frame{Head: make([]byte, Head4Len), Body: make([]byte, BodyLen(UDSendOnly, MADLen))}
	p.PutHead(f.Head, len(f.Body), 0)
	var pkt Packet
	pkt.Lay(&f, UDSendOnly, MADLen)
	pkt.BTH.Put(UDSendOnly, 0, 0, DefaultPKey, GSIQPN, 0)
	pkt.DETH().Put(GSIQKey, GSIQPN)
	PutCM((*MAD)(pkt.Payload), 0x99, &req)
	Seal(&f)
	want := map[string]uint64{"infiniband.mad.attributeid": 0x10, "infiniband.mad.transactionid": 0x99, "infiniband.cm.req.localqpn": 0x123456,
		"infiniband.cm.req.responderres": 3, "infiniband.cm.req.initdepth": 4, "infiniband.cm.req.remoteresptout": 20,
		"infiniband.cm.req.startpsn": 0xabcdef, "infiniband.cm.req.localresptout": 21, "infiniband.cm.req.retrcount": 7,
		"infiniband.cm.req.pppmtu": 4, "infiniband.cm.req.rnrretrcount": 6, "infiniband.cm.req.maxcmretr": 15,
		"infiniband.cm.req.localcaguid": 0x0200_00ff_fe00_0001}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for k, got := range dissect(t, [][]byte{AppendFrame(nil, &f)}, names)[0] {
		if shown(got) != want[names[k]] {
			t.Errorf("tshark shows %s = %q, we %x", names[k], got, want[names[k]])
		}
	}
}
