package trace

// What tshark says of the same packets, field by field.

import (
	"bytes"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
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

// theirs are tshark's names of our fields. Where its value is not ours, equal says how they
// compare.
var theirs = map[string]string{
	"Ethernet.destination": "eth.dst", "Ethernet.source": "eth.src", "Ethernet.ethertype": "eth.type",
	"VLAN.priority": "vlan.priority", "VLAN.dei": "vlan.dei", "VLAN.vlan": "vlan.id", "VLAN.ethertype": "vlan.etype",
	"IPv4.version": "ip.version", "IPv4.tos": "ip.dsfield", "IPv4.total length": "ip.len", "IPv4.identification": "ip.id", "IPv4.flags": "ip.flags",
	"IPv4.fragment offset": "ip.frag_offset", "IPv4.ttl": "ip.ttl", "IPv4.protocol": "ip.proto", "IPv4.checksum": "ip.checksum",
	"IPv4.source": "ip.src", "IPv4.destination": "ip.dst", "IPv4.header length": "ip.hdr_len",
	"IPv6.version": "ipv6.version", "IPv6.traffic class": "ipv6.tclass", "IPv6.flow label": "ipv6.flow", "IPv6.payload length": "ipv6.plen",
	"IPv6.next header": "ipv6.nxt", "IPv6.hop limit": "ipv6.hlim", "IPv6.source": "ipv6.src", "IPv6.destination": "ipv6.dst",
	"UDP.source port": "udp.srcport", "UDP.destination port": "udp.dstport", "UDP.length": "udp.length", "UDP.checksum": "udp.checksum",
	"ERF.type": "erf.types.type", "ERF.flags": "erf.flags", "ERF.record length": "erf.rlen", "ERF.lost": "erf.lctr", "ERF.wire length": "erf.wlen",
	"SLL.packet type": "sll.pkttype", "SLL.device type": "sll.hatype", "SLL.address length": "sll.halen", "SLL.protocol": "sll.etype",
	"SLL2.packet type": "sll.pkttype", "SLL2.device type": "sll.hatype", "SLL2.address length": "sll.halen", "SLL2.protocol": "sll.etype", "SLL2.interface": "sll.ifindex",
	"LRH.vl": "infiniband.lrh.vl", "LRH.lver": "infiniband.lrh.lver", "LRH.sl": "infiniband.lrh.sl", "LRH.lnh": "infiniband.lrh.lnh",
	"LRH.dlid": "infiniband.lrh.dlid", "LRH.length": "infiniband.lrh.pktlen", "LRH.slid": "infiniband.lrh.slid",
	"GRH.version": "infiniband.grh.ipver", "GRH.tclass": "infiniband.grh.tclass", "GRH.flow label": "infiniband.grh.flowlabel",
	"GRH.payload length": "infiniband.grh.paylen", "GRH.next header": "infiniband.grh.nxthdr", "GRH.hop limit": "infiniband.grh.hoplmt",
	"GRH.sgid": "infiniband.grh.sgid", "GRH.dgid": "infiniband.grh.dgid",
	"BTH.opcode": "infiniband.bth.opcode", "BTH.se": "infiniband.bth.se", "BTH.m": "infiniband.bth.m", "BTH.padcnt": "infiniband.bth.padcnt",
	"BTH.tver": "infiniband.bth.tver", "BTH.pkey": "infiniband.bth.p_key", "BTH.destqp": "infiniband.bth.destqp", "BTH.ackreq": "infiniband.bth.a", "BTH.psn": "infiniband.bth.psn",
	"RETH.va": "infiniband.reth.va", "RETH.rkey": "infiniband.reth.r_key", "RETH.dmalen": "infiniband.reth.dmalen",
	"AETH.syndrome": "infiniband.aeth.syndrome", "AETH.msn": "infiniband.aeth.msn",
	"AtomicETH.va": "infiniband.reth.va", "AtomicETH.rkey": "infiniband.reth.r_key", "AtomicETH.swap or add": "infiniband.atomiceth.swapdt", "AtomicETH.compare": "infiniband.atomiceth.cmpdt",
	"AtomicAckETH.original": "infiniband.atomicacketh.origremdt", "ImmDt.immediate": "infiniband.immdt", "IETH.rkey": "infiniband.ieth",
	"DETH.qkey": "infiniband.deth.q_key", "DETH.srcqp": "infiniband.deth.srcqp", "ICRC.icrc": "infiniband.invariant.crc",
	"MAD.base version": "infiniband.mad.baseversion", "MAD.class": "infiniband.mad.mgmtclass", "MAD.class version": "infiniband.mad.classversion",
	"MAD.method": "infiniband.mad.method", "MAD.status": "infiniband.mad.status", "MAD.class specific": "infiniband.mad.classspecific",
	"MAD.transaction id": "infiniband.mad.transactionid", "MAD.attribute": "infiniband.mad.attributeid", "MAD.modifier": "infiniband.mad.attributemodifier",
	"CM REQ.local id": "infiniband.cm.req", "CM REQ.service id": "infiniband.cm.req.serviceid", "CM REQ.ca guid": "infiniband.cm.req.localcaguid", "CM REQ.qkey": "infiniband.cm.req.localqkey",
	"CM REQ.qpn": "infiniband.cm.req.localqpn", "CM REQ.responder resources": "infiniband.cm.req.responderres", "CM REQ.initiator depth": "infiniband.cm.req.initdepth",
	"CM REQ.remote timeout": "infiniband.cm.req.remoteresptout", "CM REQ.service type": "infiniband.cm.req.transpsvctype", "CM REQ.flow control": "infiniband.cm.req.e2eflowctrl",
	"CM REQ.starting psn": "infiniband.cm.req.startpsn", "CM REQ.local timeout": "infiniband.cm.req.localresptout", "CM REQ.retry": "infiniband.cm.req.retrcount",
	"CM REQ.pkey": "infiniband.cm.req.pkey", "CM REQ.mtu": "infiniband.cm.req.pppmtu", "CM REQ.rnr retry": "infiniband.cm.req.rnrretrcount",
	"CM REQ.cm retries": "infiniband.cm.req.maxcmretr", "CM REQ.srq": "infiniband.cm.req.srq", "CM REQ.local lid": "infiniband.cm.req.prim_locallid",
	"CM REQ.remote lid": "infiniband.cm.req.prim_remotelid", "CM REQ.hop limit": "infiniband.cm.req.prim_hoplim", "CM REQ.tclass": "infiniband.cm.req.prim_tfcclass",
	"CM REQ.sl": "infiniband.cm.req.prim_sl", "CM REQ.ack timeout": "infiniband.cm.req.prim_localacktout",
	"CM REQ.flow label": "infiniband.cm.req.prim_flowlabel", "CM REQ.rate": "infiniband.cm.req.prim_pktrate",
	"CM REP.local id": "infiniband.cm.rep", "CM REP.remote id": "infiniband.cm.rep.remotecommid", "CM REP.qkey": "infiniband.cm.rep.localqkey", "CM REP.qpn": "infiniband.cm.rep.localqpn",
	"CM REP.starting psn": "infiniband.cm.rep.startpsn", "CM REP.responder resources": "infiniband.cm.rep.respres", "CM REP.initiator depth": "infiniband.cm.rep.initdepth",
	"CM REP.ack delay": "infiniband.cm.rep.tgtackdelay", "CM REP.rnr retry": "infiniband.cm.rep.rnrretrcount", "CM REP.ca guid": "infiniband.cm.rep.localcaguid",
	"CM RTU.local id": "infiniband.cm.rtu.localcommid", "CM RTU.remote id": "infiniband.cm.rtu.remotecommid",
	"CM DREQ.local id": "infiniband.cm.dreq.localcommid", "CM DREQ.remote id": "infiniband.cm.dreq.remotecommid",
	"CM DREP.local id": "infiniband.cm.drsp.localcommid", "CM DREP.remote id": "infiniband.cm.drsp.remotecommid",
	"CM REJ.local id": "infiniband.cm.rej.localcommid", "CM REJ.remote id": "infiniband.cm.rej.remotecommid", "CM REJ.reason": "infiniband.cm.rej.reason", "CM REJ.of": "infiniband.cm.rej.msgrej",
}

// difference is where tshark 4.0.17 and we do not agree.
type difference struct {
	field string // ours, or the header's, which stands for all of its fields
	where func(p *Packet) bool
	right string // who is, and why
}

var differences = []difference{
	{"ICRC", ofUnknown, "we: tshark knows neither these opcodes nor how their packets end"},
	{"SLL.address", anywhere, "both: tshark shows as much of it as the address is long"},
	{"SLL2.address", anywhere, "both, as above"},
	{"VLAN", ofTwoTags, "both: of two tags tshark shows the outer one under another name, or the inner one first"},
	{"IPv4.header length", anywhere, "both: tshark shows bytes, the header and we count words of four"},
	{"CM REQ.flow label", anywhere, "we: 20 bits from the word's upper end (section 9.2); tshark shifts the word's bits wrongly (section 13)"},
	{"CM REQ.rate", anywhere, "we: the last 6 bits of the word; tshark reads them from its first byte (section 13)"},
	{"RETH", ofXRC, "we: an XRCETH comes before it (section 2.6); tshark does not know that header, and reads its neighbours"},
	{"AtomicETH", ofXRC, "we, as above"},
	{"ImmDt", ofXRC, "we, as above"},
	{"IETH", ofXRC, "we, as above"},
	{"AETH", ofXRC, "we: responses of XRC have an AETH as those of RC have; tshark takes them for payload"},
	{"AtomicAckETH", ofXRC, "we, as above"},
	{"XRCETH", anywhere, "we: tshark does not know it"},
	{"FETH", anywhere, "we: tshark 4.0.17 does not know FLUSH (section 13)"},
	{"RETH", ofFlushOrAtomicWrite, "we: tshark does not know the opcodes, and shows what follows as payload"},
	{"reserved", anywhere, "we: tshark 4.0.17 knows the CNP of InfiniBand, 0x80, not that of RoCEv2, 0x81 (section 1.7)"},
	{"BTH.fecn", anywhere, "both: tshark shows no such field"},
	{"BTH.becn", anywhere, "both: tshark shows no such field"},
	{"pad", anywhere, "both: tshark counts the pad to the payload"},
	{"payload", anywhere, "both: as tshark tries to dissect a payload as another protocol, it may have no such field"},
}

func anywhere(*Packet) bool { return true }
func ofXRC(p *Packet) bool  { return p.Parsed && p.Wire.Opcode.Service() == wire.ServiceXRC }

func ofTwoTags(p *Packet) bool { return len(p.Layers) > 2 && p.Layers[2].Name == "VLAN" }

// ofUnknown are opcodes that tshark 4.0.17 does not know.
func ofUnknown(p *Packet) bool {
	return p.Parsed && (ofXRC(p) || ofFlushOrAtomicWrite(p) || p.Wire.Opcode == wire.CNP)
}

func ofFlushOrAtomicWrite(p *Packet) bool {
	return p.Parsed && (p.Wire.Opcode == wire.RCFlush || p.Wire.Opcode == wire.RCAtomicWrite)
}

// differs says whether a field is one that the table knows, and notes that it was needed.
func differs(p *Packet, f *Field, used map[int]bool) bool {
	for i, d := range differences {
		if (d.field == f.Layer || d.field == f.Layer+"."+f.Name) && d.where(p) {
			used[i] = true
			return true
		}
	}
	return false
}

// dissect returns tshark's values of fields in each packet of a capture; it fails the test if
// tshark has anything to say about the file.
func dissect(t *testing.T, file []byte, fields []string) (packets []map[string]string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	require.NoError(t, os.WriteFile(name, file, 0o600))
	// Or it takes payloads for those of protocols that have nothing to do with them.
	args := []string{"-r", name, "-o", "infiniband.identify_payload:FALSE", "-T", "fields", "-E", "occurrence=f"}
	for _, guess := range []string{"rpcordma", "infiniband.eoib", "nvme-rdma", "iser", "smb_direct"} {
		args = append(args, "--disable-protocol", guess)
	}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(tshark(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "Running as user") {
			t.Errorf("tshark says: %s", line)
		}
	}
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		m := map[string]string{}
		for i, f := range fields {
			m[f] = values[i]
		}
		packets = append(packets, m)
	}
	return packets
}

// same says whether tshark's value of a field is ours.
func same(f *Field, got string) bool {
	if got == f.Text {
		return true
	}
	v, err := strconv.ParseUint(got, 0, 64)
	if f.Layer == "ICRC" { // least significant byte first; tshark shows the bytes as they lie
		v = uint64(bits.ReverseBytes32(uint32(v)))
	}
	if err == nil && (v == f.Value || f.Layer == "IPv4" && f.Name == "fragment offset" && v == 8*f.Value) {
		return true
	}
	if b := strings.ReplaceAll(got, ":", ""); f.Bits <= 64 && len(b) == f.Bits/4 {
		return b == hexDigits(f.Value, f.Bits)
	}
	return got == "True" && f.Value == 1 || got == "False" && f.Value == 0
}

// TestTsharkAgrees compares every field of everything in testdata/, of simulated worlds, and of the
// encapsulations that neither has. Each row of the table of differences must be needed.
func TestTsharkAgrees(t *testing.T) {
	tshark(t)
	var fields []string
	seen := map[string]bool{}
	for _, name := range theirs {
		if !seen[name] {
			seen[name] = true
			fields = append(fields, name)
		}
	}
	var worlds []byte // one file of as many sections
	for seed := range uint64(12) {
		worlds = append(worlds, world(t, seed+1)...)
	}
	files := map[string][]byte{"testdata": vectorCapture(t), "encapsulations": encapsulations(t), "opcodes": opcodes(t), "worlds": worlds}
	wrong := map[string]int{}
	used, compared, packets := map[int]bool{}, 0, 0
	for name, file := range files {
		rows := dissect(t, file, fields)
		all(t, file, func(p *Packet) {
			row := rows[p.Number-1]
			packets++
			p.EachField(func(f Field) {
				if differs(p, &f, used) {
					return
				}
				theirName, known := theirs[f.Layer+"."+f.Name]
				switch {
				case !known:
					require.True(t, strings.HasPrefix(f.Layer, "CM ") || f.Layer == "after" || f.Layer == "data", "no tshark name for %s.%s", f.Layer, f.Name)
				case !same(&f, row[theirName]):
					if wrong[theirName]++; wrong[theirName] > 2 {
						return
					}
					t.Errorf("%s, packet %d: %s.%s is %s (%d), tshark shows %s = %q\n%s", name, p.Number, f.Layer, f.Name, f.Text, f.Value, theirName, row[theirName], p.AppendLine(nil))
				default:
					compared++
				}
			})
		})
	}
	for i, d := range differences {
		if !used[i] {
			t.Errorf("no packet needs the row of %s: %s", d.field, d.right)
		}
	}
	t.Logf("%d fields of %d packets agree", compared, packets)
	require.Greater(t, compared, 10000)
}

// encapsulations is a packet behind each header that testdata/ does not have.
func encapsulations(t testing.TB) []byte {
	_, frames := vectors(t)
	f, drop := wire.SplitFrame(frames[0][14:])
	require.Equal(t, wire.DropNone, drop)
	ether := v1(append([]byte(nil), f.Body...), false)
	native := v1(append([]byte(nil), f.Body...), true)
	erf := append(make([]byte, 16), native...)
	erf[8] = erfInfiniBand
	be.PutUint16(erf[10:], uint16(len(erf)+2))
	be.PutUint16(erf[14:], uint16(len(native)+2))
	recs := []Record{{Link: LinkEthernet, Data: ether}, {Link: LinkERF, Data: append(erf, 0, 0)}}
	for _, c := range wrapped(t, frames[0]) {
		if c.link != linkRawBSD { // 12 is another link type to tshark
			recs = append(recs, Record{Link: c.link, Data: c.data})
		}
	}
	return capture(t, recs...)
}

// opcodes is a packet of each opcode that tshark may know another way, with a pad.
func opcodes(t testing.TB) []byte {
	path, err := wire.NewPath(gid(t, "10.0.0.1"), gid(t, "10.0.0.2"), 0xc123, 2, 64, 0)
	require.NoError(t, err)
	var recs []Record
	for op := range wire.Opcodes {
		info := wire.Opcode(op).Info()
		if info.Flags == 0 || wire.Opcode(op).Service() == wire.ServiceRD {
			continue
		}
		n := 0
		if info.Payload == wire.PayloadEight {
			n = 8
		} else if info.Has(wire.OpPayload) {
			n = 5
		}
		f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.BodyLen(wire.Opcode(op), n))}
		path.PutHead(f.Head, len(f.Body), 0)
		for i := range f.Body {
			f.Body[i] = byte(i*7 + op) // no field is zero
		}
		var p wire.Packet
		require.True(t, p.Lay(&f, wire.Opcode(op), n))
		p.BTH.Put(wire.Opcode(op), wire.BTHSolicited|wire.BTHAckReq, uint8(wire.Pad(n)), 0xffff, 0x4711, 0x123456)
		wire.Seal(&f)
		recs = append(recs, Record{Link: LinkRaw, Data: wire.AppendFrame(nil, &f)})
	}
	return capture(t, recs...)
}

// TestCommentsInTshark: what the Writer writes has its comments, interfaces and directions there.
func TestCommentsInTshark(t *testing.T) {
	_, frames := vectors(t)
	file := capture(t,
		Record{Time: 1_700_000_000_123_456_789, Link: LinkEthernet, Name: "eth0", Direction: DirSent, Data: frames[0], Comment: "the first | with ünïcode"},
		Record{Time: 1_700_000_000_123_456_790, Link: LinkRaw, Name: "tun0", Data: frames[1][14:]})
	rows := dissect(t, file, []string{"frame.comment", "frame.interface_name", "frame.time_epoch", "infiniband.bth.opcode", "frame.packet_flags_direction"})
	require.Len(t, rows, 2)
	require.Equal(t, "eth0", rows[0]["frame.interface_name"])
	require.Equal(t, "the first | with ünïcode", rows[0]["frame.comment"])
	require.Equal(t, "tun0", rows[1]["frame.interface_name"])
	require.Equal(t, "1700000000.123456790", rows[1]["frame.time_epoch"])
	require.Equal(t, "11", rows[1]["infiniband.bth.opcode"])
}
