// Package capture is a port around a port that shows every frame to a sink. A sink is a function,
// or a file for Wireshark.
package capture

import (
	"context"
	"time"

	"github.com/goroce/goroce/transport"
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

// Sink is shown the frames of one port, by the goroutine that has the lane's turn. The frame is
// lent for the call. The time is that of the batch: just after receiving it, just before sending
// it.
type Sink interface {
	Capture(dir Direction, at time.Time, f *wire.Frame)
}

// Func makes a function a sink.
type Func func(dir Direction, at time.Time, f *wire.Frame)

// Capture calls the function.
func (c Func) Capture(dir Direction, at time.Time, f *wire.Frame) { c(dir, at, f) }

// Port is what Wrap returns.
type Port struct {
	transport.Port
	sink Sink
}

// Wrap shows sink what p receives and sends. Around the port of package fault it shows what the
// engine sees, inside of it what the network sees.
func Wrap(p transport.Port, sink Sink) *Port { return &Port{p, sink} }

// Recv receives, then shows.
func (c *Port) Recv(frames []wire.Frame) (n int, err error) {
	if n, err = c.Port.Recv(frames); n > 0 {
		c.show(Received, time.Now(), frames[:n])
	}
	return n, err
}

// Send sends, then shows what is done with: also frames that the inner port could not send at all.
func (c *Port) Send(b *wire.Batch) (sent int, err error) {
	if b.Len() == 0 {
		return 0, nil
	}
	before := time.Now() // a receiver on the same machine may have the frames before Send returns
	sent, err = c.Port.Send(b)
	c.show(Sent, before, b.Frames()[:sent])
	return sent, err
}

func (c *Port) show(dir Direction, at time.Time, frames []wire.Frame) {
	for i := range frames {
		c.sink.Capture(dir, at, &frames[i])
	}
}

// JoinGroup implements Multicaster if the inner port does.
func (c *Port) JoinGroup(group wire.GID) error { return transport.JoinGroup(c.Port, group) }

// Seats are the inner port's: whoever watches it, everything is shown.
func (c *Port) Seats() transport.Seats { return transport.SeatsOf(c.Port) }

// Resolve implements Resolver: it asks the inner port.
func (c *Port) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return transport.Resolve(ctx, c.Port, dst, timeout)
}

// Events implements Notifier: they are the inner port's.
func (c *Port) Events() <-chan transport.Event { return transport.Events(c.Port) }

// LeaveGroup implements Multicaster if the inner port does.
func (c *Port) LeaveGroup(group wire.GID) error { return transport.LeaveGroup(c.Port, group) }
