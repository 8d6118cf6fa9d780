package capture

// Capture files, as Wireshark reads them.

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Pcapng is a sink that writes a capture file for Wireshark: link type RAW (packets start at the IP
// header), nanosecond timestamps, and two interfaces named after the directions: "received" and
// "sent". It may serve several ports at once. An error of the writer ends the capture, not the
// traffic; Close returns it.
type Pcapng struct {
	mu     sync.Mutex
	out    io.Writer
	w      *pcapgo.NgWriter
	packet []byte
	err    error
}

// NewPcapng returns a sink that writes to w, buffered: Flush or Close at the end.
func NewPcapng(w io.Writer) (*Pcapng, error) {
	ng, err := pcapgo.NewNgWriterInterface(w, ngInterface(Received),
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "goroce"}})
	if err == nil {
		_, err = ng.AddInterface(ngInterface(Sent))
	}
	if err != nil {
		return nil, fmt.Errorf("transport: start capture file: %w", err)
	}
	return &Pcapng{out: w, w: ng}, nil
}

// ngInterface describes what a direction's packets arrived on; its number in the file is the
// Direction's.
func ngInterface(dir Direction) pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name:                [...]string{Received: "received", Sent: "sent"}[dir],
		LinkType:            layers.LinkTypeRaw,
		SnapLength:          0, // unlimited
		TimestampResolution: 9,
	}
}

// Capture writes one packet. The Identification of a head that a UDP port made up is replaced by
// the one that explains the ICRC, so that the file can be checked by programs that know nothing of
// that.
func (p *Pcapng) Capture(dir Direction, at time.Time, f *wire.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.packet = wire.AppendFrame(p.packet[:0], f)
	if f.IPv4() != nil && f.Flags&wire.FrameSynthHead != 0 {
		if id, df, ok := wire.SolveIdentification(f); ok && df {
			h := (*wire.IPv4)(p.packet)
			h.SetIdentification(id)
			h.UpdateChecksum()
		}
	}
	p.err = p.w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(p.packet), Length: len(p.packet),
		InterfaceIndex: int(dir)}, p.packet)
}

// Block writes a block of another type behind what was captured so far, and flushes: for types that
// are for everybody's own use, from 0x80000000 on. body has a multiple of four bytes.
func (p *Pcapng) Block(kind uint32, body []byte) error {
	if kind < 1<<31 || len(body)%4 != 0 {
		return fmt.Errorf("transport: a block of type 0x%x with %d bytes: want a type from 0x80000000 on, and a "+
			"multiple of four bytes", kind, len(body))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.flush(); err != nil { // and no packet comes between
		return err
	}
	n := uint32(len(body) + 12)
	le := binary.LittleEndian
	block := append(le.AppendUint32(le.AppendUint32(nil, kind), n), body...)
	_, p.err = p.out.Write(le.AppendUint32(block, n))
	return p.err
}

// Flush hands everything captured so far to the writer.
func (p *Pcapng) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flush()
}

// flush is Flush; the caller has the lock.
func (p *Pcapng) flush() error {
	if p.err == nil {
		p.err = p.w.Flush()
	}
	return p.err
}

// Close flushes and ends the capture. The writer stays open.
func (p *Pcapng) Close() error {
	err := p.Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = transport.ErrClosed
	}
	return err
}
