package filter

// The names. Most are Wireshark's of a field that package trace shows; some stand for several; the
// rest is of the record, or what only we know of a packet (roce.).

import (
	"maps"
	"slices"

	"github.com/goroce/goroce/trace"
)

// kind is what can be compared with a field.
type kind uint8

const (
	number  kind = iota
	opcode       // a number that has a name
	address      // of IPv4 or IPv6, or a network
	octets       // bytes, such as a MAC address
	text
	seconds // a time
	present // a header: it is there or not
)

// field is a name.
type field struct {
	name  string
	kind  kind
	parts []string                                       // fields of package trace, "BTH.psn"
	get   func(f *Filter, p *trace.Packet) (value, bool) // of others
	words []string                                       // that it can be, nil: any
}

// Wireshark has Wireshark's names of the fields of package trace, each as "header.field".
var Wireshark = map[string]string{
	"Ethernet.destination": "eth.dst", "Ethernet.source": "eth.src", "Ethernet.ethertype": "eth.type",
	"VLAN.priority": "vlan.priority", "VLAN.dei": "vlan.dei", "VLAN.vlan": "vlan.id", "VLAN.ethertype": "vlan.etype",
	"IPv4.version": "ip.version", "IPv4.tos": "ip.dsfield", "IPv4.total length": "ip.len",
	"IPv4.identification": "ip.id", "IPv4.flags": "ip.flags", "IPv4.fragment offset": "ip.frag_offset",
	"IPv4.ttl": "ip.ttl", "IPv4.protocol": "ip.proto", "IPv4.checksum": "ip.checksum", "IPv4.source": "ip.src",
	"IPv4.destination": "ip.dst", "IPv4.header length": "ip.hdr_len", "IPv6.version": "ipv6.version",
	"IPv6.traffic class": "ipv6.tclass", "IPv6.flow label": "ipv6.flow", "IPv6.payload length": "ipv6.plen",
	"IPv6.next header": "ipv6.nxt", "IPv6.hop limit": "ipv6.hlim", "IPv6.source": "ipv6.src",
	"IPv6.destination": "ipv6.dst", "UDP.source port": "udp.srcport", "UDP.destination port": "udp.dstport",
	"UDP.length": "udp.length", "UDP.checksum": "udp.checksum", "ERF.type": "erf.types.type", "ERF.flags": "erf.flags",
	"ERF.record length": "erf.rlen", "ERF.lost": "erf.lctr", "ERF.wire length": "erf.wlen",
	"SLL.packet type": "sll.pkttype", "SLL.device type": "sll.hatype", "SLL.address length": "sll.halen",
	"SLL.protocol": "sll.etype", "SLL2.packet type": "sll.pkttype", "SLL2.device type": "sll.hatype",
	"SLL2.address length": "sll.halen", "SLL2.protocol": "sll.etype", "SLL2.interface": "sll.ifindex",
	"LRH.vl": "infiniband.lrh.vl", "LRH.lver": "infiniband.lrh.lver", "LRH.sl": "infiniband.lrh.sl",
	"LRH.lnh": "infiniband.lrh.lnh", "LRH.dlid": "infiniband.lrh.dlid", "LRH.length": "infiniband.lrh.pktlen",
	"LRH.slid": "infiniband.lrh.slid", "GRH.version": "infiniband.grh.ipver", "GRH.tclass": "infiniband.grh.tclass",
	"GRH.flow label": "infiniband.grh.flowlabel", "GRH.payload length": "infiniband.grh.paylen",
	"GRH.next header": "infiniband.grh.nxthdr", "GRH.hop limit": "infiniband.grh.hoplmt",
	"GRH.sgid": "infiniband.grh.sgid", "GRH.dgid": "infiniband.grh.dgid", "BTH.opcode": "infiniband.bth.opcode",
	"BTH.se": "infiniband.bth.se", "BTH.m": "infiniband.bth.m", "BTH.padcnt": "infiniband.bth.padcnt",
	"BTH.tver": "infiniband.bth.tver", "BTH.pkey": "infiniband.bth.p_key", "BTH.destqp": "infiniband.bth.destqp",
	"BTH.ackreq": "infiniband.bth.a", "BTH.psn": "infiniband.bth.psn", "RETH.va": "infiniband.reth.va",
	"RETH.rkey": "infiniband.reth.r_key", "RETH.dmalen": "infiniband.reth.dmalen",
	"AETH.syndrome": "infiniband.aeth.syndrome", "AETH.msn": "infiniband.aeth.msn",
	"AtomicETH.va": "infiniband.reth.va", "AtomicETH.rkey": "infiniband.reth.r_key",
	"AtomicETH.swap or add": "infiniband.atomiceth.swapdt", "AtomicETH.compare": "infiniband.atomiceth.cmpdt",
	"AtomicAckETH.original": "infiniband.atomicacketh.origremdt", "ImmDt.immediate": "infiniband.immdt",
	"IETH.rkey": "infiniband.ieth", "DETH.qkey": "infiniband.deth.q_key", "DETH.srcqp": "infiniband.deth.srcqp",
	"ICRC.icrc": "infiniband.invariant.crc", "MAD.base version": "infiniband.mad.baseversion",
	"MAD.class": "infiniband.mad.mgmtclass", "MAD.class version": "infiniband.mad.classversion",
	"MAD.method": "infiniband.mad.method", "MAD.status": "infiniband.mad.status",
	"MAD.class specific": "infiniband.mad.classspecific", "MAD.transaction id": "infiniband.mad.transactionid",
	"MAD.attribute": "infiniband.mad.attributeid", "MAD.modifier": "infiniband.mad.attributemodifier",
	"CM REQ.local id": "infiniband.cm.req", "CM REQ.service id": "infiniband.cm.req.serviceid",
	"CM REQ.ca guid": "infiniband.cm.req.localcaguid", "CM REQ.qkey": "infiniband.cm.req.localqkey",
	"CM REQ.qpn": "infiniband.cm.req.localqpn", "CM REQ.responder resources": "infiniband.cm.req.responderres",
	"CM REQ.initiator depth": "infiniband.cm.req.initdepth",
	"CM REQ.remote timeout":  "infiniband.cm.req.remoteresptout",
	"CM REQ.service type":    "infiniband.cm.req.transpsvctype", "CM REQ.flow control": "infiniband.cm.req.e2eflowctrl",
	"CM REQ.starting psn": "infiniband.cm.req.startpsn", "CM REQ.local timeout": "infiniband.cm.req.localresptout",
	"CM REQ.retry": "infiniband.cm.req.retrcount", "CM REQ.pkey": "infiniband.cm.req.pkey",
	"CM REQ.mtu": "infiniband.cm.req.pppmtu", "CM REQ.rnr retry": "infiniband.cm.req.rnrretrcount",
	"CM REQ.cm retries": "infiniband.cm.req.maxcmretr", "CM REQ.srq": "infiniband.cm.req.srq",
	"CM REQ.local lid": "infiniband.cm.req.prim_locallid", "CM REQ.remote lid": "infiniband.cm.req.prim_remotelid",
	"CM REQ.hop limit": "infiniband.cm.req.prim_hoplim", "CM REQ.tclass": "infiniband.cm.req.prim_tfcclass",
	"CM REQ.sl": "infiniband.cm.req.prim_sl", "CM REQ.ack timeout": "infiniband.cm.req.prim_localacktout",
	"CM REQ.flow label": "infiniband.cm.req.prim_flowlabel", "CM REQ.rate": "infiniband.cm.req.prim_pktrate",
	"CM REP.local id": "infiniband.cm.rep", "CM REP.remote id": "infiniband.cm.rep.remotecommid",
	"CM REP.qkey": "infiniband.cm.rep.localqkey", "CM REP.qpn": "infiniband.cm.rep.localqpn",
	"CM REP.starting psn": "infiniband.cm.rep.startpsn", "CM REP.responder resources": "infiniband.cm.rep.respres",
	"CM REP.initiator depth": "infiniband.cm.rep.initdepth", "CM REP.ack delay": "infiniband.cm.rep.tgtackdelay",
	"CM REP.rnr retry": "infiniband.cm.rep.rnrretrcount", "CM REP.ca guid": "infiniband.cm.rep.localcaguid",
	"CM RTU.local id": "infiniband.cm.rtu.localcommid", "CM RTU.remote id": "infiniband.cm.rtu.remotecommid",
	"CM DREQ.local id": "infiniband.cm.dreq.localcommid", "CM DREQ.remote id": "infiniband.cm.dreq.remotecommid",
	"CM DREP.local id": "infiniband.cm.drsp.localcommid", "CM DREP.remote id": "infiniband.cm.drsp.remotecommid",
	"CM REJ.local id": "infiniband.cm.rej.localcommid", "CM REJ.remote id": "infiniband.cm.rej.remotecommid",
	"CM REJ.reason": "infiniband.cm.rej.reason", "CM REJ.of": "infiniband.cm.rej.msgrej",
}

// ours are names of fields for which Wireshark has none.
var ours = map[string]string{
	"BTH.fecn": "roce.bth.fecn", "BTH.becn": "roce.bth.becn", "XRCETH.srqn": "roce.xrceth.srqn",
	"FETH.selectivity": "roce.feth.selectivity", "FETH.placement": "roce.feth.placement",
	"payload.payload": "infiniband.payload", "pad.pad": "roce.pad",
}

// several are names that stand for more than one.
var several = map[string][]string{
	"ip.addr": {"ip.src", "ip.dst"}, "ipv6.addr": {"ipv6.src", "ipv6.dst"}, "udp.port": {"udp.srcport", "udp.dstport"},
	"eth.addr": {"eth.src", "eth.dst"}, "roce.qp": {"infiniband.bth.destqp", "infiniband.deth.srcqp"},
}

// kinds are of those that are no numbers.
var kinds = map[string]kind{
	"eth.dst": octets, "eth.src": octets, "ip.src": address, "ip.dst": address, "ipv6.src": address,
	"ipv6.dst": address, "infiniband.grh.sgid": address, "infiniband.grh.dgid": address,
	"infiniband.bth.opcode": opcode, "infiniband.payload": octets, "roce.pad": octets,
}

// headers are names of what is there or not, and the headers of package trace that make it so.
var headers = map[string][]string{
	"eth": {"Ethernet"}, "vlan": {"VLAN"}, "sll": {"SLL", "SLL2"}, "erf": {"ERF"}, "ip": {"IPv4"}, "ipv6": {"IPv6"},
	"udp": {"UDP"}, "infiniband": {"BTH"}, "infiniband.lrh": {"LRH"}, "infiniband.grh": {"GRH"},
	"infiniband.bth": {"BTH"}, "infiniband.reth": {"RETH", "AtomicETH"}, "infiniband.aeth": {"AETH"},
	"infiniband.atomiceth": {"AtomicETH"}, "infiniband.atomicacketh": {"AtomicAckETH"},
	"infiniband.deth": {"DETH"}, "infiniband.mad": {"MAD"}, "roce.xrceth": {"XRCETH"}, "roce.feth": {"FETH"},
}

// others are of the record, or what only we know of a packet.
var others = []field{
	{name: "frame.number", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(p.Number), true
	}},
	{name: "frame.len", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(p.Length), true
	}},
	{name: "frame.cap_len", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(len(p.Data) - p.Cut), true
	}},
	{name: "frame.time_relative", kind: seconds, get: func(f *Filter, p *trace.Packet) (value, bool) {
		return value{n: order(p.Time - f.first)}, true
	}},
	{name: "frame.time_epoch", kind: seconds, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return value{n: order(p.Time)}, true
	}},
	{name: "frame.interface_name", kind: text, get: said(func(p *trace.Packet) string { return p.Name })},
	{name: "frame.comment", kind: text, get: said(func(p *trace.Packet) string { return p.Comment })},
	{name: "frame.packet_flags_direction", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(int(p.Direction)), p.Direction != 0
	}},
	{name: "roce.src", kind: address, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		src, _ := p.GIDs()
		return value{b: src[:]}, !src.IsZero()
	}},
	{name: "roce.dst", kind: address, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		_, dst := p.GIDs()
		return value{b: dst[:]}, !dst.IsZero()
	}},
	{name: "roce.kind", kind: text, get: said(func(p *trace.Packet) string { return p.Kind.String() }),
		words: words(trace.Bare)},
	{name: "roce.icrc", kind: text, get: said(func(p *trace.Packet) string {
		if !p.Parsed {
			return ""
		}
		return p.ICRC.String()
	}), words: words(trace.ICRCUnchecked)},
	{name: "roce.problem", kind: text, get: said(func(p *trace.Packet) string { return p.Problem })},
	{name: "roce.line", kind: text, get: said(func(p *trace.Packet) string { return string(p.AppendLine(nil)) })},
	{name: "roce.part", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(p.Part), p.Part > 0
	}},
	{name: "roce.payload_len", kind: number, get: func(_ *Filter, p *trace.Packet) (value, bool) {
		return num(len(p.Wire.Payload)), p.Parsed
	}},
}

// words are those of all values up to the last.
func words[T interface {
	~uint8 | ~int
	String() string
}](last T) (all []string) {
	for x := T(0); x <= last; x++ {
		all = append(all, x.String())
	}
	return all
}

// widths are how many bits fields have.
var widths = map[string]int{
	"infiniband.bth.psn": 24, "infiniband.bth.destqp": 24, "infiniband.bth.p_key": 16, "infiniband.bth.padcnt": 2,
	"infiniband.bth.tver": 4, "infiniband.bth.se": 1, "infiniband.bth.m": 1, "infiniband.bth.a": 1,
	"roce.bth.fecn": 1, "roce.bth.becn": 1, "roce.qp": 24, "infiniband.deth.srcqp": 24, "infiniband.deth.q_key": 32,
	"infiniband.aeth.msn": 24, "infiniband.aeth.syndrome": 8, "infiniband.reth.r_key": 32,
	"infiniband.reth.dmalen": 32, "infiniband.immdt": 32, "infiniband.ieth": 32, "infiniband.invariant.crc": 32,
	"ip.version": 4, "ip.hdr_len": 8, "ip.dsfield": 8, "ip.len": 16, "ip.id": 16, "ip.flags": 8, "ip.ttl": 8,
	"ip.proto": 8, "ip.checksum": 16, "ipv6.version": 4, "ipv6.tclass": 8, "ipv6.flow": 20, "ipv6.plen": 16,
	"ipv6.nxt": 8, "ipv6.hlim": 8, "udp.port": 16, "udp.srcport": 16, "udp.dstport": 16, "udp.length": 16,
	"udp.checksum": 16, "vlan.id": 12, "vlan.priority": 3, "eth.type": 16,
}

// said is a text of a packet, which is not there if it is empty.
func said(of func(p *trace.Packet) string) func(*Filter, *trace.Packet) (value, bool) {
	return func(_ *Filter, p *trace.Packet) (value, bool) {
		s := of(p)
		return value{b: []byte(s)}, s != ""
	}
}

func num(n int) value { return value{n: uint64(n)} }

// order makes signed numbers unsigned ones in the same order.
func order(n int64) uint64 { return uint64(n) ^ 1<<63 }

// fields are all of them by name.
var fields = func() map[string]*field {
	all := map[string]*field{}
	for _, table := range []map[string]string{Wireshark, ours} {
		for part, name := range table {
			if all[name] == nil {
				all[name] = &field{name: name, kind: kinds[name]}
			}
			all[name].parts = append(all[name].parts, part)
		}
	}
	for name, of := range several {
		x := &field{name: name, kind: kinds[of[0]]}
		for _, part := range of {
			x.parts = append(x.parts, all[part].parts...)
		}
		all[name] = x
	}
	for name, of := range headers {
		all[name] = &field{name: name, kind: present, parts: of}
	}
	for i := range others {
		all[others[i].name] = &others[i]
	}
	return all
}()

// Fields returns all names that an expression may have, sorted.
func Fields() []string { return slices.Sorted(maps.Keys(fields)) }
