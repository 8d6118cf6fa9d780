package trace

// What the values of fields mean, in words.

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// means is what a row says of a value.
type means = func(p *Packet, v uint64) string

// said is the same for every value.
func said(text string) means { return func(*Packet, uint64) string { return text } }

// flag has a text for 0 and one for 1.
func flag(off, on string) means { return listed(off, on) }

// zero has a text for 0.
func zero(text string) means { return number(0, text) }

// number has a text for one value.
func number(value uint64, text string) means {
	return func(_ *Packet, v uint64) string {
		if v == value {
			return text
		}
		return ""
	}
}

// listed has a text for each value from 0 on.
func listed(texts ...string) means {
	return func(_ *Packet, v uint64) string {
		if v < uint64(len(texts)) {
			return texts[v]
		}
		return "not assigned"
	}
}

var etherTypes = map[uint64]string{
	etherIPv4:   "IPv4",
	etherIPv6:   "IPv6",
	etherVLAN:   "a VLAN tag follows",
	etherQinQ:   "a VLAN tag follows",
	etherRoCEv1: "RoCEv1",
}

func etherMeans(_ *Packet, v uint64) string { return etherTypes[v] }

func erfMeans(_ *Packet, v uint64) string {
	return map[uint64]string{erfEthernet: "Ethernet", erfInfiniBand: "InfiniBand"}[v]
}

// ecnMeans reads the upper six bits as DSCP and the lower two as ECN.
func ecnMeans(_ *Packet, v uint64) string {
	return fmt.Sprintf("DSCP %d, ", v>>2) + [...]string{"not ECN-capable", "ECN-capable (ECT 1)", "ECN-capable (ECT 0)",
		"congestion experienced (CE): a switch's queue was long"}[v&3]
}

func opcodeMeans(p *Packet, v uint64) string {
	op := wire.Opcode(v)
	if op.Info().Flags == 0 {
		return "not assigned (section 2)"
	}
	return op.String()
}

func pkeyMeans(_ *Packet, v uint64) string {
	switch {
	case v == uint64(wire.DefaultPKey):
		return "the default partition"
	case v>>15 == 1:
		return "a full member"
	}
	return "a limited member: it may talk to full members only (section 1.10)"
}

func destMeans(_ *Packet, v uint64) string {
	switch uint32(v) {
	case wire.GSIQPN:
		return "the connection manager's"
	case wire.MulticastQPN:
		return "all of the multicast group"
	}
	return ""
}

func ackMeans(p *Packet, v uint64) string {
	if v == 0 {
		return ""
	}
	if len(p.Frame.Body) > 0 && wire.Opcode(p.Frame.Body[0]).Service() == wire.ServiceUD {
		return "set, and ignored: datagrams are not acknowledged (section 13)"
	}
	return "the responder is to acknowledge at once"
}

// nakMeans are the NAKs that fail a request or have it repeated (section 1.6).
var nakMeans = map[wire.Syndrome]string{
	wire.SynNAKSeq:    "NAK, PSN sequence error: a packet is missing; send again from this PSN on",
	wire.SynNAKInvReq: "NAK, invalid request: the request ends with IBV_WC_REM_INV_REQ_ERR (9)",
	wire.SynNAKAccess: "NAK, remote access error: the request ends with IBV_WC_REM_ACCESS_ERR (10)",
	wire.SynNAKOp:     "NAK, remote operational error: the request ends with IBV_WC_REM_OP_ERR (11)",
	wire.SynNAKInvRD:  "NAK, invalid RD request",
}

func syndromeMeans(_ *Packet, v uint64) string {
	s := wire.Syndrome(v)
	switch s.Kind() {
	case wire.KindACK:
		if n, limited := wire.Credits(s.Code()); limited {
			return fmt.Sprintf("ACK; the responder has receives for %d more messages (credit code %d)", n, s.Code())
		}
		return "ACK, with nothing said about receives"
	case wire.KindRNR:
		return fmt.Sprintf("RNR NAK: no receive was posted; try again after %v ms (timer code %d)",
			float64(wire.RNRTimeout(s.Code()))/1e6, s.Code())
	case wire.KindNAK:
		if text := nakMeans[s]; text != "" {
			return text
		}
	}
	return "reserved: to be ignored (section 1.6)"
}

func alignedMeans(_ *Packet, v uint64) string {
	if v%8 != 0 {
		return "not a multiple of 8: the responder refuses it"
	}
	return "the address of 8 bytes in the peer's memory"
}

func swapMeans(p *Packet, _ uint64) string {
	if p.isAdd() {
		return "what is added"
	}
	return "the new value, if the old one is as expected"
}

func compareMeans(p *Packet, _ uint64) string {
	if p.isAdd() {
		return "ignored"
	}
	return "the value that is expected"
}

func (p *Packet) isAdd() bool { return p.Parsed && p.Wire.Opcode.Operation() == wire.RCFetchAdd }

func qkeyMeans(_ *Packet, v uint64) string {
	if uint32(v) == wire.GSIQKey {
		return "the connection manager's"
	}
	return "must be the receiving queue pair's, else it drops the packet"
}

func attributeMeans(_ *Packet, v uint64) string { return wire.CMAttribute(v).String() }

// ICRCMeaning says what was found out about the ICRC.
func (p *Packet) ICRCMeaning() string {
	switch p.ICRC {
	case ICRCRight:
		return "right"
	case ICRCRightRxe:
		return "right as Linux rxe computes it for a FLUSH, which no other implementation does (section 13)"
	case ICRCWrong:
		if p.Kind == RoCEv2 {
			if id, df, ok := wire.SolveIdentification(&p.Frame); ok && df {
				return fmt.Sprintf("WRONG, but right for IP identification 0x%04x: something on the sender's "+
					"side changed it", id)
			}
		}
		return "WRONG: the bytes are not those that were sent, or a middlebox has rewritten addresses or ports; " +
			"receivers drop it without a word"
	case ICRCUnchecked:
		if p.Cut > 0 {
			return "not captured"
		}
		return "not checked: it covers headers that are not here"
	}
	return ""
}
