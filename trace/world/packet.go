package world

// Packets as pictures need them: their lines and fields, by package trace, and what is wrong with
// those that are to be seen at once.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/wire"
)

// describe fills the packets of the play.
func (w *World) describe() {
	study := analysis.New()
	w.play.Packets = []Packet{}
	for _, f := range w.flights {
		p := f.info
		p.Bytes = f.bytes
		t := trace.Packet{Record: trace.Record{
			Number: p.N,
			Time:   p.Sent,
			Link:   trace.LinkRaw,
			Length: len(p.Bytes),
			Data:   p.Bytes,
		}}
		t.Decode()
		p.Describe(&t)
		if finding := study.Add(&t).Finding; finding != nil && finding.Weight >= analysis.Wrong {
			p.Wrong = finding.Text
		}
		if p.Fate == Lost {
			p.Wrong = "it is lost on the way"
		}
		w.play.Packets = append(w.play.Packets, p)
	}
	for _, e := range w.play.Entries {
		if e.Packet > 0 && e.Record.Kind == qp.RecordDropped {
			p := &w.play.Packets[e.Packet-1]
			if p.Wrong = "refused by the receiver"; refused(&e.Record) {
				continue
			}
			p.Wrong = "dropped by the receiver: " + wire.DropReason(e.Record.Value).Explain()
		}
	}
	slices.SortStableFunc(w.play.Entries, func(a, b Entry) int { return int(a.Time - b.Time) })
}

// Describe fills what the bytes of a decoded packet say: line, kind, numbers and fields.
func (p *Packet) Describe(t *trace.Packet) {
	p.Line, p.Kind, p.Op, p.Label = string(t.AppendLine(nil)), "other", "?", "?"
	if t.Parsed {
		p.QPN, p.PSN = t.Wire.BTH.DestQP(), uint32(t.Wire.BTH.PSN())
		p.Op, p.Kind, p.Length = t.Wire.Opcode.String(), kindOf(&t.Wire), len(t.Wire.Payload)
		p.Label = labelOf(&t.Wire)
	}
	p.Fields = []Field{}
	t.EachField(func(f trace.Field) {
		at := f.Bit / 8
		p.Fields = append(p.Fields, Field{f.Layer, f.Name, at, fmt.Sprintf("%d-%d", f.Bit%8, f.Bit%8+f.Bits-1),
			(f.Bit+f.Bits+7)/8 - at, f.Text, f.Meaning})
	})
}

// labelOf is what stands on a packet's arrow: what an acknowledgement says, else the operation.
func labelOf(p *wire.Packet) string {
	if h := p.AETH(); h != nil && p.Opcode == wire.RCAcknowledge {
		return h.Syndrome().String()
	}
	return p.Op.Name
}

// kindOf sorts packets by what a ladder draws them as.
func kindOf(p *wire.Packet) string {
	if h := p.AETH(); h != nil && h.Syndrome().Kind() != wire.KindACK {
		return "nak"
	}
	switch flags := p.Op.Flags; {
	case flags&wire.OpCNP != 0:
		return "cnp"
	case wire.MADOf(p) != nil:
		return "cm"
	case flags&wire.OpResponse == 0:
		return "request"
	case flags&wire.OpAck != 0 && flags&wire.OpAtomic == 0:
		return "ack"
	}
	return "response"
}
