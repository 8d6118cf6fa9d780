// Capture: a port around a port that shows every frame to a sink, and what sinks there are.

package transport

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/goroce/goroce/wire"
)

// Direction of a captured frame, as seen from the port.
type Direction uint8

// The directions.
const (
	Received Direction = iota
	Sent
)

// String is "<" for received and ">" for sent, as in printed packets.
func (d Direction) String() string {
	if d == Sent {
		return ">"
	}
	return "<"
}

// CaptureSink is shown the frames of one port, by the goroutine that has the lane's turn. The frame is lent for the call.
// The time is that of the batch: just after receiving it, just before sending it.
type CaptureSink interface {
	Capture(dir Direction, at time.Time, f *wire.Frame)
}

// CaptureFunc makes a function a sink.
type CaptureFunc func(dir Direction, at time.Time, f *wire.Frame)

// Capture calls the function.
func (c CaptureFunc) Capture(dir Direction, at time.Time, f *wire.Frame) { c(dir, at, f) }

// CapturePort is the port that Capture returns.
type CapturePort struct {
	Port
	sink CaptureSink
}

// Capture shows sink what p receives and sends. Around a Fault port it shows what the engine sees; inside one (as the p of
// Fault) what the network sees.
func Capture(p Port, sink CaptureSink) *CapturePort { return &CapturePort{p, sink} }

// Recv receives, then shows.
func (c *CapturePort) Recv(frames []wire.Frame) (n int, err error) {
	if n, err = c.Port.Recv(frames); n > 0 {
		c.show(Received, time.Now(), frames[:n])
	}
	return n, err
}

// Send sends, then shows what is done with: also frames that the inner port could not send at all.
func (c *CapturePort) Send(b *wire.Batch) (sent int, err error) {
	if b.Len() == 0 {
		return 0, nil
	}
	before := time.Now() // a receiver on the same machine may have the frames before Send returns
	sent, err = c.Port.Send(b)
	c.show(Sent, before, b.Frames()[:sent])
	return sent, err
}

func (c *CapturePort) show(dir Direction, at time.Time, frames []wire.Frame) {
	for i := range frames {
		c.sink.Capture(dir, at, &frames[i])
	}
}

// JoinGroup implements Multicaster if the inner port does.
func (c *CapturePort) JoinGroup(group wire.GID) error { return joinGroup(c.Port, group) }

// Resolve implements Resolver: it asks the inner port.
func (c *CapturePort) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return Resolve(ctx, c.Port, dst, timeout)
}

// LeaveGroup implements Multicaster if the inner port does.
func (c *CapturePort) LeaveGroup(group wire.GID) error { return leaveGroup(c.Port, group) }

// Pcapng is a sink that writes a capture file for Wireshark: link type RAW (packets start at the IP header), nanosecond
// timestamps, and two interfaces named after the directions: "received" and "sent". It may serve several ports at once. An error of the writer ends the capture,
// not the traffic; Close returns it.
type Pcapng struct {
	mu     sync.Mutex
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
	return &Pcapng{w: ng}, nil
}

// ngInterface describes what a direction's packets arrived on; its number in the file is the Direction's.
func ngInterface(dir Direction) pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name:                [...]string{Received: "received", Sent: "sent"}[dir],
		LinkType:            layers.LinkTypeRaw,
		SnapLength:          0, // unlimited
		TimestampResolution: 9,
	}
}

// Capture writes one packet. The Identification of a head that a UDP port made up is replaced by the one that explains
// the ICRC, so that the file can be checked by programs that know nothing of that.
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

// Flush hands everything captured so far to the writer.
func (p *Pcapng) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
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
		p.err = ErrClosed
	}
	return err
}
