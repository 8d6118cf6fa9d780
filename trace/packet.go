package trace

// From a record to packets. Stages: the headers below (link.go) → the transport headers, which
// wire.Parse finds → the ICRC. One record can hold a whole run of packets: what a Linux host sends
// with UDP_SEGMENT is captured before it is cut; Source cuts it.

import (
	"io"

	"github.com/goroce/goroce/wire"
)

// Kind is what carries the transport headers.
type Kind uint8

// The kinds of packets.
const (
	Other      Kind = iota // nothing of RoCE
	RoCEv2                 // IP and UDP
	RoCEv1                 // a global route header on Ethernet
	InfiniBand             // a local route header
	Bare                   // nothing: bytes that begin with a BTH
)

// String is the kind's name.
func (k Kind) String() string {
	return [...]string{"other", "RoCEv2", "RoCEv1", "InfiniBand", "BTH"}[k]
}

// Verdict is what can be said of an ICRC.
type Verdict uint8

// The verdicts.
const (
	ICRCNone      Verdict = iota // there is none: the packet has no transport headers
	ICRCRight                    // it is what it should be
	ICRCRightRxe                 // it is right for a FLUSH as rxe computes it (section 13)
	ICRCWrong                    // it is not
	ICRCUnchecked                // the capture has cut bytes off, or nothing is below the BTH
)

// String is the verdict in a word or two.
func (v Verdict) String() string {
	return [...]string{"none", "right", "right as rxe computes it", "wrong", "unchecked"}[v]
}

// Layer is where a header below the transport lies.
type Layer struct {
	Name    string
	At, Len int // in bytes, from the record's first
}

// Packet is one packet of a capture.
type Packet struct {
	Record
	Part    int         // of a run that was captured as one record: 1, 2 ...; else 0
	Kind    Kind        // Other: only Record and Why mean something
	Why     string      // it is nothing of RoCE
	Problem string      // what is wrong with its headers, "" if nothing is
	Layers  []Layer     // the headers below the transport
	Frame   wire.Frame  // of RoCEv2: both parts; of the others the body only
	Wire    wire.Packet // the transport headers, if Opcode says that they were found
	Parsed  bool        // Wire is filled
	ICRC    Verdict
	Cut     int  // bytes that the capture has left out at the end; they are zeros here
	HeadCut bool // among them are headers of the transport
	RunCut  bool // among them are all other packets of a run that begins with this one

	head, body int // where the IP header or the GRH begins, and the BTH
	lrh        int
	whole      []byte              // a cut packet, with zeros
	made       [wire.Head6Len]byte // the head of the first packet of a run
	numbers    bool                // fields of up to 64 bits are wanted without texts
	wanted     map[string]bool     // of these headers only; nil: of all
}

// Decode fills the packet from its Record.
func (p *Packet) Decode() {
	*p = Packet{Record: p.Record, Layers: p.Layers[:0], whole: p.whole, Part: p.Part}
	open := links[p.Link]
	if open == nil {
		p.Why = "a link type that is not known"
		return
	}
	if p.Why = open(p); p.Kind != Other {
		p.transport()
	}
}

// DecodeBare fills the packet from bytes that begin with a BTH and end with an ICRC.
func (p *Packet) DecodeBare(body []byte) {
	*p = Packet{Record: Record{Number: 1, Length: len(body), Data: body}, Kind: Bare, Frame: wire.Frame{Body: body}}
	p.transport()
}

// transport parses what follows the headers below.
func (p *Packet) transport() {
	if p.Problem != "" {
		return
	}
	if p.Cut > 0 {
		if p.Problem = p.headersCut(); p.Problem != "" {
			p.HeadCut = true
			return
		}
		p.firstOfRun()
	}
	switch drop := wire.Parse(&p.Frame, &p.Wire); drop {
	case wire.DropNone:
		p.Parsed = true
		p.ICRC = p.verdict()
	default:
		p.Problem = drop.Explain()
	}
}

// verdict checks the ICRC.
func (p *Packet) verdict() Verdict {
	switch {
	case p.Cut > 0 || p.Kind == Bare:
		return ICRCUnchecked
	case p.Kind != RoCEv2:
		if p.invariantCRC() == p.Wire.ICRC() {
			return ICRCRight
		}
	case p.verifies():
		return ICRCRight
	case p.Wire.Op.Flags&wire.OpFlush != 0 && wire.VerifyFlush(&p.Frame):
		return ICRCRightRxe
	}
	return ICRCWrong
}

// verifies says whether the ICRC of a RoCEv2 packet is right. The header of a later packet of a run
// is made up: the kernel will number it, and may have done so in another way before it was put
// into the run.
func (p *Packet) verifies() bool {
	f := p.Frame
	if p.Part > 1 {
		f.Flags |= wire.FrameSynthHead
	}
	return wire.Verify(&f)
}

// Source is the packets of a capture file, or of an interface, one by one: it cuts runs.
type Source struct {
	r    *Reader // nil: it is no file
	next func(rec *Record) error
	p    Packet
	run  run
}

// NewSource begins to read a capture file.
func NewSource(in io.Reader) (*Source, error) {
	r, err := NewReader(in)
	if err != nil {
		return nil, err
	}
	return &Source{r: r, next: r.Next}, nil
}

// NewSourceOf has the records from next, as from sniff.Sniffer's. What rec.Data has must stay as it
// is until the call after.
func NewSourceOf(next func(rec *Record) error) *Source { return &Source{next: next} }

// Next returns the next packet, also one that is nothing of RoCE. It is valid until the next call.
// At the end it returns io.EOF, and a *DamageError where the file cannot be read on.
func (s *Source) Next() (*Packet, error) {
	if s.run.cut(&s.p) {
		return &s.p, nil
	}
	s.p.Part = 0
	if err := s.next(&s.p.Record); err != nil {
		return nil, err
	}
	s.p.Decode()
	if s.run.found(&s.p) {
		s.run.cut(&s.p)
	}
	return &s.p, nil
}

// EachNotes lets f have the text of each block of notes that Next comes across (Reader.Notes). It
// is for files.
func (s *Source) EachNotes(f func(text []byte)) { s.r.Notes = f }

// Ahead is how many bytes of the file were read and not looked at yet. If there are none, Next may
// wait for whoever writes it. It is for files.
func (s *Source) Ahead() int { return s.r.in.Buffered() }

// Offset is how many bytes of the file have been looked at. It is for files.
func (s *Source) Offset() int64 { return s.r.Offset() }
