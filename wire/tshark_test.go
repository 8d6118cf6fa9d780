package wire_test

// tshark is asked by way of a capture file, which package trace writes: so this test is outside of
// wire.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// dissect returns tshark's values of fields in IP packets, and what it says is no more than that.
func dissect(t *testing.T, packets [][]byte, fields []string) []map[string]string {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	for i, p := range packets {
		if err := w.Write(&trace.Record{Link: trace.LinkRaw, Time: int64(i), Data: p, Length: len(p)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows := tshark.Dissect(t, file.Bytes(), fields)
	if len(rows) != len(packets) {
		t.Fatalf("tshark shows %d packets of %d", len(rows), len(packets))
	}
	return rows
}

// tsharkGap says of which opcodes tshark 4.0.17 does not know the extension headers; their BTH is
// checked all the same. Of RD it shows the layout of another transport that uses the same opcodes.
func tsharkGap(op wire.Opcode) bool {
	return op == wire.RCFlush || op == wire.RCAtomicWrite || op == wire.CNP || op.Service() == wire.ServiceXRC ||
		op.Service() == wire.ServiceRD
}

// shownField is a field that tshark shows: its name, the header it belongs to (NumHeaders: BTH),
// and what we say it is.
type shownField struct {
	name   string
	header wire.Header
	value  func(p *wire.Packet) uint64
}

var shownFields = []shownField{
	{"infiniband.bth.opcode", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.Opcode) }},
	{"infiniband.bth.se", wire.NumHeaders, func(p *wire.Packet) uint64 { return bit(p.BTH.Solicited()) }},
	{"infiniband.bth.m", wire.NumHeaders, func(p *wire.Packet) uint64 { return bit(p.BTH.MigReq()) }},
	{"infiniband.bth.a", wire.NumHeaders, func(p *wire.Packet) uint64 { return bit(p.BTH.AckReq()) }},
	{"infiniband.bth.padcnt", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.BTH.PadCount()) }},
	{"infiniband.bth.tver", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.BTH.TVer()) }},
	{"infiniband.bth.p_key", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.BTH.PKey()) }},
	{"infiniband.bth.destqp", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.BTH.DestQP()) }},
	{"infiniband.bth.psn", wire.NumHeaders, func(p *wire.Packet) uint64 { return uint64(p.BTH.PSN()) }},
	{"infiniband.reth.va", wire.HdrRETH, func(p *wire.Packet) uint64 { return p.RETH().VA() }},
	{"infiniband.reth.r_key", wire.HdrRETH, func(p *wire.Packet) uint64 { return uint64(p.RETH().RKey()) }},
	{"infiniband.reth.dmalen", wire.HdrRETH, func(p *wire.Packet) uint64 { return uint64(p.RETH().DMALen()) }},
	{"infiniband.aeth.syndrome", wire.HdrAETH, func(p *wire.Packet) uint64 { return uint64(p.AETH().Syndrome()) }},
	{"infiniband.aeth.msn", wire.HdrAETH, func(p *wire.Packet) uint64 { return uint64(p.AETH().MSN()) }},
	{"infiniband.atomiceth.swapdt", wire.HdrAtomicETH, func(p *wire.Packet) uint64 { return p.AtomicETH().SwapAdd() }},
	{"infiniband.atomiceth.cmpdt", wire.HdrAtomicETH, func(p *wire.Packet) uint64 { return p.AtomicETH().Compare() }},
	{"infiniband.reth.va", wire.HdrAtomicETH, func(p *wire.Packet) uint64 { return p.AtomicETH().VA() }},
	{"infiniband.reth.r_key", wire.HdrAtomicETH, func(p *wire.Packet) uint64 { return uint64(p.AtomicETH().RKey()) }},
	{"infiniband.atomicacketh.origremdt", wire.HdrAtomicAckETH, func(p *wire.Packet) uint64 { return p.AtomicAckETH().Orig() }},
	{"infiniband.deth.q_key", wire.HdrDETH, func(p *wire.Packet) uint64 { return uint64(p.DETH().QKey()) }},
	{"infiniband.deth.srcqp", wire.HdrDETH, func(p *wire.Packet) uint64 { return uint64(p.DETH().SrcQP()) }},
	{"infiniband.rdeth.eecnxt", wire.HdrRDETH, func(p *wire.Packet) uint64 { return uint64(p.RDETH().EEContext()) }},
	{"infiniband.immdt", wire.HdrImmDt, func(p *wire.Packet) uint64 { return uint64(p.ImmDt().Imm()) }},
	{"infiniband.ieth", wire.HdrIETH, func(p *wire.Packet) uint64 { return uint64(p.IETH().RKey()) }},
	{"infiniband.invariant.crc", wire.NumHeaders, func(p *wire.Packet) uint64 {
		return uint64(binary.BigEndian.Uint32(p.Body[len(p.Body)-4:]))
	}},
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
	var frames []wire.Frame
	for op := range wire.Opcodes {
		if wire.Opcodes[op].Flags == 0 {
			continue
		}
		n := 0
		if wire.Opcodes[op].Flags&wire.OpPayload != 0 {
			n = 13
		}
		for _, v6 := range []bool{false, true} {
			f := wire.RandomFrame(t, rnd, wire.Opcode(op), v6, n)
			packets = append(packets, wire.AppendFrame(nil, &f))
			frames = append(frames, f)
		}
	}
	var names []string
	for _, s := range shownFields {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	for i, row := range dissect(t, packets, names) {
		var p wire.Packet
		if drop := wire.Parse(&frames[i], &p); drop != wire.DropNone {
			t.Fatal(drop)
		}
		for _, s := range shownFields {
			text := row[s.name]
			if s.header != wire.NumHeaders && p.Op.Off[s.header] == 0 || tsharkGap(p.Opcode) && !strings.HasPrefix(s.name,
				"infiniband.bth") {
				continue
			}
			if got, want := shown(text), s.value(&p); got != want {
				t.Errorf("%v: tshark shows %s = %q (%x), we %x\n%s", p.Opcode, s.name, text, got, want, wire.AppendPacket(nil, &frames[i]))
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
	req := wire.CMReq{LocalCommID: 0x01020304, ServiceID: wire.CMServiceID(wire.CMPortSpaceTCP, 7471), LocalCAGUID: 0x0200_00ff_fe00_0001,
		LocalQPN: 0x123456, ResponderResources: 3, InitiatorDepth: 4, RemoteCMResponseTimeout: 20, StartingPSN: 0xabcdef,
		LocalCMResponseTimeout: 21, RetryCount: 7, PartitionKey: wire.DefaultPKey, PathMTU: wire.MTU2048, RNRRetryCount: 6,
		MaxCMRetries: 15, Primary: wire.CMPath{HopLimit: 64, LocalAckTimeout: 17}}
	f := wire.RandomFrame(t, rand.New(rand.NewPCG(19, 20)), wire.UDSendOnly, false, wire.MADLen)
	var pkt wire.Packet
	pkt.Lay(&f, wire.UDSendOnly, wire.MADLen)
	pkt.BTH.Put(wire.UDSendOnly, 0, 0, wire.DefaultPKey, wire.GSIQPN, 0)
	pkt.DETH().Put(wire.GSIQKey, wire.GSIQPN)
	wire.PutCM((*wire.MAD)(pkt.Payload), 0x99, &req)
	wire.Seal(&f)
	want := map[string]uint64{"infiniband.mad.attributeid": 0x10, "infiniband.mad.transactionid": 0x99,
		"infiniband.cm.req.localqpn": 0x123456, "infiniband.cm.req.responderres": 3, "infiniband.cm.req.initdepth": 4,
		"infiniband.cm.req.remoteresptout": 20, "infiniband.cm.req.startpsn": 0xabcdef, "infiniband.cm.req.localresptout": 21,
		"infiniband.cm.req.retrcount": 7, "infiniband.cm.req.pppmtu": 4, "infiniband.cm.req.rnrretrcount": 6,
		"infiniband.cm.req.maxcmretr": 15, "infiniband.cm.req.localcaguid": 0x0200_00ff_fe00_0001}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for name, got := range dissect(t, [][]byte{wire.AppendFrame(nil, &f)}, names)[0] {
		if shown(got) != want[name] {
			t.Errorf("tshark shows %s = %q, we %x", name, got, want[name])
		}
	}
}
