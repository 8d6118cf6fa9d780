// Package fault is a port around a port that loses, repeats, reorders and damages packets, the same
// way in every run: by chance at a rate (Config), or those that rules name (rules.go).
//
// Each direction has a line of its own: frames go in, and what comes out at the other end is copied
// to a batch. What happens to a frame depends only on the seed and on how many frames went before
// it on the line, not on time; but for rules that delay, or take the link down for a while.
package fault

import (
	"context"
	"errors"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Config says how bad the network is. Rates are probabilities per frame, from 0 to 1.
type Config struct {
	Seed uint64
	On   Side // which direction; 0 means Send

	Loss      float64 // the frame is gone
	BurstLen  int     // each loss takes that many frames in a row; 0 means 1
	Duplicate float64 // the frame comes twice
	Corrupt   float64 // one bit between BTH and ICRC is flipped
	Reorder   float64 // the frame comes later than ReorderBy frames that were sent after it
	// ReorderBy 0 means 3. A frame after which nothing is sent stays held back, like a lost one.
	ReorderBy int

	// Rules about packets and the link apply as well, to the side that each names; others are
	// passed over.
	Rules []Rule
	// Now is the clock of rules that have times; nil is time.Now. What the link's rules tell
	// (Port.Events) comes by timers of package time nevertheless.
	Now func() time.Time
}

// Side chooses directions.
type Side uint8

// The directions, as seen from the port. Both is Send|Recv.
const (
	Send Side = 1 << iota
	Recv
)

// Counts tells what was done to the frames of one direction.
type Counts struct {
	Passed     uint64 // came out of the line, repeated and damaged ones included
	Lost       uint64 // those among them that came while the link was down
	Duplicated uint64
	Corrupted  uint64
	Reordered  uint64 // held back, by order or time; not Passed as long as they are
	Marked     uint64 // with congestion experienced
}

// Port is what Wrap returns.
type Port struct {
	transport.Port
	send, recv *line
	in         []wire.Frame
	link       *link  // nil: no rule is about it
	seats      *seats // nil: the inner port has none
}

// Wrap puts a bad network between an engine and p. It panics if a rule cannot be played; Check says
// so before.
func Wrap(p transport.Port, cfg Config) *Port {
	if cfg.On == 0 {
		cfg.On = Send
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	f := &Port{Port: p, in: make([]wire.Frame, lineInput)}
	wake := p.Wake
	if inner := transport.SeatsOf(p); inner != nil {
		f.seats = &seats{Seats: inner, port: f, now: cfg.Now}
		wake = f.seats.set
	}
	sent, err1 := packetRules(cfg.Rules, Tx)
	received, err2 := packetRules(cfg.Rules, Rx)
	down, err3 := outages(cfg.Rules)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	if cfg.On&Send != 0 || len(sent) > 0 || len(down) > 0 {
		f.send = newLine(cfg, Send, sent, wake)
	}
	if cfg.On&Recv != 0 || len(received) > 0 || len(down) > 0 {
		f.recv = newLine(cfg, Recv, received, wake)
	}
	if len(down) > 0 {
		f.link = newLink(down, cfg.Now, p)
	}
	return f
}

// Check says what is wrong with rules about packets and the link; others are passed over.
func Check(rules []Rule) error {
	_, err1 := packetRules(rules, Tx)
	_, err2 := packetRules(rules, Rx)
	_, err3 := outages(rules)
	return errors.Join(err1, err2, err3)
}

// Counts tells what was done so far, for frames sent and received. It may be called from any
// goroutine.
func (f *Port) Counts() (send, recv Counts) {
	return f.send.snapshot(), f.recv.snapshot()
}

// Info is the inner port's, without runs: each frame has a fate of its own.
func (f *Port) Info() transport.Info {
	i := f.Port.Info()
	i.MaxRun = 1
	i.Up = i.Up && !f.link.down()
	return i
}

// Send passes frames down the line and sends what comes out. Frames that the inner port has no room
// for stay in the line, for the next Send or Recv.
func (f *Port) Send(b *wire.Batch) (sent int, err error) {
	if f.send == nil {
		return f.Port.Send(b)
	}
	frames := b.Frames()
	for {
		if err := f.flush(); err != nil || f.send.out.Len() > 0 {
			return sent, err
		}
		if sent == len(frames) {
			return sent, nil
		}
		down := f.link.down()
		for range min(lineInput, len(frames)-sent) {
			f.send.pass(&frames[sent], down)
			sent++
		}
	}
}

func (f *Port) flush() error {
	f.send.releaseDue(f.link.down())
	out := f.send.out
	if out.Len() == 0 {
		return nil
	}
	n, err := f.Port.Send(out)
	out.Drop(n)
	return err
}

// Recv gives out what comes out of the receiving line.
func (f *Port) Recv(frames []wire.Frame) (n int, err error) {
	if f.send != nil {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	if f.recv == nil {
		return f.Port.Recv(frames)
	}
	out := f.recv.out
	out.Drop(f.recv.lent)
	f.recv.lent = 0
	f.recv.releaseDue(f.link.down())
	if out.Len() == 0 {
		got, err := f.Port.Recv(f.in)
		if err != nil {
			return 0, err
		}
		down := f.link.down()
		for i := range got {
			f.recv.pass(&f.in[i], down)
		}
	}
	n = copy(frames, out.Frames())
	f.recv.lent = n
	f.recv.left.Store(int64(out.Len() - n))
	return n, nil
}

// Wait returns at once when frames are left over from the last Recv.
func (f *Port) Wait(timeout time.Duration) error {
	if f.leftOver() {
		return nil
	}
	return f.Port.Wait(f.orDue(timeout))
}

func (f *Port) leftOver() bool { return f.recv != nil && f.recv.left.Load() > 0 }

// orDue is a timeout (<0: for ever), or how long it is until a held frame is due, if that is less.
func (f *Port) orDue(timeout time.Duration) time.Duration {
	for _, l := range []*line{f.send, f.recv} {
		if d, ok := l.untilDue(); ok && (timeout < 0 || d < timeout) {
			timeout = d
		}
	}
	return timeout
}

// Close ends what rules about the link have going, and closes the inner port.
func (f *Port) Close() error {
	err := f.Port.Close()
	f.link.close()
	return err
}

// JoinGroup implements Multicaster if the inner port does.
func (f *Port) JoinGroup(group wire.GID) error { return transport.JoinGroup(f.Port, group) }

// Resolve implements Resolver: it asks the inner port.
func (f *Port) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return transport.Resolve(ctx, f.Port, dst, timeout)
}

// Events implements Notifier: they are the inner port's, and those of rules about the link.
func (f *Port) Events() <-chan transport.Event {
	if f.link != nil {
		return f.link.events
	}
	return transport.Events(f.Port)
}

// LeaveGroup implements Multicaster if the inner port does.
func (f *Port) LeaveGroup(group wire.GID) error { return transport.LeaveGroup(f.Port, group) }
