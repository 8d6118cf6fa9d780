package perf

// The banner of perftest: the set-up of a run and the addresses of both ends. Scripts read it, so
// it is theirs to the byte.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/roce"
)

// ruler is perftest's line between the parts.
const ruler = "---------------------------------------------------------------------------------------\n"

// banner prints the set-up.
func (r *rig) banner() {
	w := &strings.Builder{}
	line := func(format string, a ...any) { fmt.Fprintf(w, format+"\n", a...) }
	w.WriteString(ruler)
	line("                    %s", r.title())
	if r.o.Events {
		line(" Test with events.")
	}
	line(" Dual-port       : OFF\t\tDevice         : %s", r.s.Name())
	line(" Number of qps   : %d\t\tTransport type : IB", r.o.QPs)
	line(" Connection type : %v\t\tUsing SRQ      : OFF", r.o.Type)
	if r.link.client || r.o.Bidi {
		line(" TX depth        : %d", r.o.TxDepth)
	}
	if r.t.sends() && (!r.link.client || r.o.Bidi) {
		line(" RX depth        : %d", r.o.RxDepth)
	}
	if !r.t.Lat {
		line(" CQ Moderation   : %d", r.o.CQMod)
	}
	line(" Mtu             : %d[B]", r.mtu.Bytes())
	line(" Link type       : Ethernet")
	line(" GID index       : %d", r.o.GIDIndex)
	if r.t.respOp {
		line(" Outstand reads  : %d", r.o.Outs)
	} else {
		line(" Max inline data : %d[B]", r.o.Inline)
	}
	line(" rdma_cm QPs\t : %s", map[bool]string{false: "OFF", true: "ON"}[r.o.CM])
	line(" Data ex. method : %s", map[bool]string{false: "Ethernet", true: "rdma_cm"}[r.o.CM])
	w.WriteString(ruler)
	if r.o.CM && !r.link.client {
		line(" Waiting for client rdma_cm QP to connect")
		line(" Please run the same command with the IB/RoCE interface IP")
		w.WriteString(ruler)
	}
	r.say(w.String())
}

// title is "RDMA_Write BW Test" with what is special about the run.
func (r *rig) title() string {
	s := r.t.Title + " "
	if r.t.access == roce.RemoteAtomic {
		s += map[bool]string{false: "FETCH_AND_ADD ", true: "CMP_AND_SWAP "}[r.o.CmpSwap]
	}
	if r.o.Bidi {
		s += "Bidirectional "
	}
	if r.t.Lat {
		return s + "Latency Test"
	}
	return s + "BW Test"
}

// addresses prints the keys of one end.
func (r *rig) addresses(whose string, keys []key) {
	for _, k := range keys {
		r.say(k.line(whose, r.t))
	}
}

// line prints a key as perftest does. C's %#06x counts the "0x" and leaves it off a zero; the GID
// is decimal there.
func (k key) line(whose string, t *Test) string {
	s := fmt.Sprintf(" %s address: LID %s QPN %s PSN %s", whose, cHex(uint64(k.LID), 4), cHex(uint64(k.QPN), 6),
		cHex(uint64(k.PSN), 6))
	if t.Op == roce.WRRead {
		s += " OUT " + cHex(uint64(k.Outs), 4)
	}
	if t.Op == roce.WRRead || t.Op == roce.WRWrite {
		s += " RKey " + cHex(uint64(k.RKey), 8) + " VAddr " + cHex(k.VAddr, 16)
	}
	s += "\n GID:"
	for i, b := range k.GID {
		s += fmt.Sprintf("%c%02d", " :"[min(i, 1)], b)
	}
	return s + "\n"
}

func cHex(v uint64, width int) string {
	if v == 0 {
		return strings.Repeat("0", width)
	}
	return fmt.Sprintf("0x%0*x", width-2, v)
}
