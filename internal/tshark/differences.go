package tshark

// What tshark and we see otherwise. docs/tshark.md is made of this table.

import (
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Version is the tshark that the table is of.
const Version = "4.0.17"

// Difference is where tshark and we do not agree.
type Difference struct {
	Field string // ours, or the header's, which stands for all of its fields
	where func(p *trace.Packet) bool
	Where string // in which packets, in words; "": in all
	Right string // who is, and why
}

// Differences are all that are known.
var Differences = []Difference{
	{"ICRC", ofUnknown, "of XRC, FLUSH, ATOMIC WRITE and RoCEv2's CNP",
		"we: tshark knows neither these opcodes nor how their packets end"},
	{"SLL.address", anywhere, "", "both: tshark shows as much of it as the address is long"},
	{"SLL2.address", anywhere, "", "both, as above"},
	{"VLAN", ofTwoTags, "with two VLAN tags",
		"both: of two tags tshark shows the outer one under another name, or the inner one first"},
	{"IPv4.header length", anywhere, "", "both: tshark shows bytes, the header and we count words of four"},
	{"CM REQ.flow label", anywhere, "",
		"we: 20 bits from the word's upper end (section 9.2); tshark shifts the word's bits wrongly (section 13)"},
	{"CM REQ.rate", anywhere, "",
		"we: the last 6 bits of the word; tshark reads them from its first byte (section 13)"},
	{"RETH", ofXRC, "of XRC",
		"we: an XRCETH comes before it (section 2.6); tshark does not know that header, and reads its neighbours"},
	{"AtomicETH", ofXRC, "of XRC", "we, as above"},
	{"ImmDt", ofXRC, "of XRC", "we, as above"},
	{"IETH", ofXRC, "of XRC", "we, as above"},
	{"AETH", ofXRC, "of XRC", "we: responses of XRC have an AETH as those of RC have; tshark takes them for payload"},
	{"AtomicAckETH", ofXRC, "of XRC", "we, as above"},
	{"XRCETH", anywhere, "", "we: tshark does not know it"},
	{"FETH", anywhere, "", "we: tshark 4.0.17 does not know FLUSH (section 13)"},
	{"RETH", ofFlushOrAtomicWrite, "of FLUSH and ATOMIC WRITE",
		"we: tshark does not know the opcodes, and shows what follows as payload"},
	{"reserved", anywhere, "",
		"we: tshark 4.0.17 knows the CNP of InfiniBand, 0x80, not that of RoCEv2, 0x81 (section 1.7)"},
	{"BTH.fecn", anywhere, "", "both: tshark shows no such field"},
	{"BTH.becn", anywhere, "", "both: tshark shows no such field"},
	{"pad", anywhere, "", "both: tshark counts the pad to the payload"},
	{"payload", anywhere, "",
		"both: as tshark tries to dissect a payload as another protocol, it may have no such field"},
}

func anywhere(*trace.Packet) bool { return true }
func ofXRC(p *trace.Packet) bool  { return p.Parsed && p.Wire.Opcode.Service() == wire.ServiceXRC }

func ofTwoTags(p *trace.Packet) bool { return len(p.Layers) > 2 && p.Layers[2].Name == "VLAN" }

// ofUnknown are opcodes that tshark 4.0.17 does not know.
func ofUnknown(p *trace.Packet) bool {
	return p.Parsed && (ofXRC(p) || ofFlushOrAtomicWrite(p) || p.Wire.Opcode == wire.CNP)
}

func ofFlushOrAtomicWrite(p *trace.Packet) bool {
	return p.Parsed && (p.Wire.Opcode == wire.RCFlush || p.Wire.Opcode == wire.RCAtomicWrite)
}
