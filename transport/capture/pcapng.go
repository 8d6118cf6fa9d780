package capture

// Capture files, as Wireshark reads them.

import (
	"io"
	"sync"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
	"github.com/goroce/goroce/wire/pcapng"
)

// Pcapng is a sink that writes a capture file for Wireshark: link type RAW (packets start at the IP
// header), nanosecond timestamps, and two interfaces named after the directions: "received" and
// "sent". It may serve several ports at once. An error of the writer ends the capture, not the
// traffic; Close returns it.
type Pcapng struct {
	mu     sync.Mutex
	w      *pcapng.Writer
	packet []byte
	err    error
}

// interfaces are what a direction's packets arrived on; the number in the file is the Direction's.
var interfaces = [...]pcapng.Interface{
	Received: {Name: "received", Link: pcapng.LinkRaw},
	Sent:     {Name: "sent", Link: pcapng.LinkRaw},
}

// NewPcapng returns a sink that writes to w, buffered: Flush or Close at the end.
func NewPcapng(w io.Writer) (*Pcapng, error) {
	p := &Pcapng{w: pcapng.NewWriter(w)}
	for _, of := range interfaces {
		p.w.Interface(of)
	}
	return p, p.Flush()
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
	p.err = p.w.Packet(&pcapng.Packet{On: interfaces[dir], Time: at.UnixNano(), Data: p.packet})
}

// Block writes a block of another type behind what was captured so far, and flushes: for types that
// are for everybody's own use, from 0x80000000 on. body has a multiple of four bytes.
func (p *Pcapng) Block(kind uint32, body []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if err := p.w.Block(kind, body); err != nil {
		return err
	}
	return p.flush()
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
