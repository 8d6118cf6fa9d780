// Package fault is a port around a port that loses, repeats, reorders and damages packets, the same
// way in every run.
//
// Each direction has a line of its own: frames go in, and what comes out at the other end is copied
// to a batch. What happens to a frame depends only on the seed and on how many frames went before
// it on the line, not on time.
package fault

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
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
	Lost       uint64
	Duplicated uint64
	Corrupted  uint64
	Reordered  uint64 // held back; not Passed as long as they are
}

// Port is what Wrap returns.
type Port struct {
	transport.Port
	send, recv *line
	in         []wire.Frame
}

// Wrap puts a bad network between an engine and p.
func Wrap(p transport.Port, cfg Config) *Port {
	if cfg.On == 0 {
		cfg.On = Send
	}
	f := &Port{Port: p, in: make([]wire.Frame, lineInput)}
	if cfg.On&Send != 0 {
		f.send = newLine(cfg, 1)
	}
	if cfg.On&Recv != 0 {
		f.recv = newLine(cfg, 2)
	}
	return f
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
		for range min(lineInput, len(frames)-sent) {
			f.send.pass(&frames[sent])
			sent++
		}
	}
}

func (f *Port) flush() error {
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
	if out.Len() == 0 {
		got, err := f.Port.Recv(f.in)
		if err != nil {
			return 0, err
		}
		for i := range got {
			f.recv.pass(&f.in[i])
		}
	}
	n = copy(frames, out.Frames())
	f.recv.lent = n
	f.recv.left.Store(int64(out.Len() - n))
	return n, nil
}

// Wait returns at once when frames are left over from the last Recv.
func (f *Port) Wait(timeout time.Duration) error {
	if f.recv != nil && f.recv.left.Load() > 0 {
		return nil
	}
	return f.Port.Wait(timeout)
}

// JoinGroup implements Multicaster if the inner port does.
func (f *Port) JoinGroup(group wire.GID) error { return transport.JoinGroup(f.Port, group) }

// Resolve implements Resolver: it asks the inner port.
func (f *Port) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return transport.Resolve(ctx, f.Port, dst, timeout)
}

// Events implements Notifier: they are the inner port's.
func (f *Port) Events() <-chan transport.Event { return transport.Events(f.Port) }

// LeaveGroup implements Multicaster if the inner port does.
func (f *Port) LeaveGroup(group wire.GID) error { return transport.LeaveGroup(f.Port, group) }

const (
	lineInput  = 64                       // frames passed before out is emptied
	lineHeld   = 32                       // frames held back at most
	lineOutput = 2*lineInput + 2*lineHeld // all of them twice
	// lineBody is the average length for which out has memory; RoCE packets are shorter.
	lineBody = 9216
)

// line is one direction.
type line struct {
	cfg   Config
	rnd   *rand.Rand
	out   *wire.Batch
	lent  int          // frames at the front of out that Recv has lent
	left  atomic.Int64 // frames behind those
	burst int          // further frames to lose
	held  []heldFrame

	passed, lost, duplicated, corrupted, reordered atomic.Uint64
}

// heldFrame is a copy of a frame, as a batch of one, that others overtake.
type heldFrame struct {
	copy   *wire.Batch
	behind int // frames still to come before it
}

func newLine(cfg Config, direction uint64) *line {
	if cfg.ReorderBy == 0 {
		cfg.ReorderBy = 3
	}
	return &line{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, direction)), out: wire.NewBatch(lineOutput, lineBody)}
}

// pass decides the fate of one frame. All dice are thrown for each frame, so that changing one rate
// leaves the others' results as they were.
func (l *line) pass(f *wire.Frame) {
	lose, twice := l.rnd.Float64() < l.cfg.Loss, l.rnd.Float64() < l.cfg.Duplicate
	damage, late := l.rnd.Float64() < l.cfg.Corrupt, l.rnd.Float64() < l.cfg.Reorder
	bit := l.rnd.Uint32()
	if lose && l.burst == 0 {
		l.burst = max(1, l.cfg.BurstLen)
	}
	switch {
	case l.burst > 0:
		l.burst--
		l.lost.Add(1)
		return
	case late && len(l.held) < lineHeld:
		l.hold(f)
		l.reordered.Add(1)
		return
	}
	l.emit(f)
	if damage {
		frames := l.out.Frames()
		body := frames[len(frames)-1].Body
		bit %= uint32(8 * len(body))
		body[bit/8] ^= 1 << (bit % 8)
		l.corrupted.Add(1)
	}
	if twice {
		l.emit(f)
		l.duplicated.Add(1)
	}
	l.release()
}

func (l *line) emit(f *wire.Frame) {
	if l.out.Append(f) == nil {
		l.lost.Add(1) // only frames much longer than RoCE's can fill the line
		return
	}
	l.passed.Add(1)
}

func (l *line) hold(f *wire.Frame) {
	b := wire.NewBatch(1, len(f.Body))
	b.Append(f)
	l.held = append(l.held, heldFrame{b, l.cfg.ReorderBy})
}

// release lets go of held frames that enough others have overtaken.
func (l *line) release() {
	kept := l.held[:0]
	for _, h := range l.held {
		if h.behind--; h.behind > 0 {
			kept = append(kept, h)
		} else {
			l.emit(&h.copy.Frames()[0])
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}

func (l *line) snapshot() Counts {
	if l == nil {
		return Counts{}
	}
	return Counts{l.passed.Load(), l.lost.Load(), l.duplicated.Load(), l.corrupted.Load(), l.reordered.Load()}
}
