// Fault: a port around a port that loses, repeats, reorders and damages packets, the same way in every run.
//
// Each direction has a line of its own: frames go in, and what comes out at the other end is copied to a batch. What
// happens to a frame depends only on the seed and on how many frames went before it on the line, not on time.

package transport

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/wire"
)

// FaultConfig says how bad the network is. Rates are probabilities per frame, from 0 to 1.
type FaultConfig struct {
	Seed uint64
	On   FaultSide // which direction; 0 means FaultSend

	Loss      float64 // the frame is gone
	BurstLen  int     // each loss takes that many frames in a row; 0 means 1
	Duplicate float64 // the frame comes twice
	Corrupt   float64 // one bit between BTH and ICRC is flipped
	Reorder   float64 // the frame comes later than ReorderBy frames that were sent after it
	ReorderBy int     // 0 means 3. A frame after which nothing is sent stays held back, like a lost one
}

// FaultSide chooses directions.
type FaultSide uint8

// The directions, as seen from the port. Both is FaultSend|FaultRecv.
const (
	FaultSend FaultSide = 1 << iota
	FaultRecv
)

// FaultCounts tells what was done to the frames of one direction.
type FaultCounts struct {
	Passed     uint64 // came out of the line, repeated and damaged ones included
	Lost       uint64
	Duplicated uint64
	Corrupted  uint64
	Reordered  uint64 // held back; not Passed as long as they are
}

// FaultPort is the port that Fault returns.
type FaultPort struct {
	Port
	send, recv *faultLine
	in         []wire.Frame
}

// Fault puts a bad network between an engine and p.
func Fault(p Port, cfg FaultConfig) *FaultPort {
	if cfg.On == 0 {
		cfg.On = FaultSend
	}
	f := &FaultPort{Port: p, in: make([]wire.Frame, lineInput)}
	if cfg.On&FaultSend != 0 {
		f.send = newFaultLine(cfg, 1)
	}
	if cfg.On&FaultRecv != 0 {
		f.recv = newFaultLine(cfg, 2)
	}
	return f
}

// Counts tells what was done so far, for frames sent and received. It may be called from any goroutine.
func (f *FaultPort) Counts() (send, recv FaultCounts) {
	return f.send.snapshot(), f.recv.snapshot()
}

// Info is the inner port's, without runs: each frame has a fate of its own.
func (f *FaultPort) Info() Info {
	i := f.Port.Info()
	i.MaxRun = 1
	return i
}

// Send passes frames down the line and sends what comes out. Frames that the inner port has no room for stay in the line,
// for the next Send or Recv.
func (f *FaultPort) Send(b *wire.Batch) (sent int, err error) {
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

func (f *FaultPort) flush() error {
	out := f.send.out
	if out.Len() == 0 {
		return nil
	}
	n, err := f.Port.Send(out)
	out.Drop(n)
	return err
}

// Recv gives out what comes out of the receiving line.
func (f *FaultPort) Recv(frames []wire.Frame) (n int, err error) {
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
func (f *FaultPort) Wait(timeout time.Duration) error {
	if f.recv != nil && f.recv.left.Load() > 0 {
		return nil
	}
	return f.Port.Wait(timeout)
}

// JoinGroup implements Multicaster if the inner port does.
func (f *FaultPort) JoinGroup(group wire.GID) error { return joinGroup(f.Port, group) }

// Resolve implements Resolver: it asks the inner port.
func (f *FaultPort) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	return Resolve(ctx, f.Port, dst, timeout)
}

// LeaveGroup implements Multicaster if the inner port does.
func (f *FaultPort) LeaveGroup(group wire.GID) error { return leaveGroup(f.Port, group) }

func joinGroup(p Port, group wire.GID) error {
	if m, ok := p.(Multicaster); ok {
		return m.JoinGroup(group)
	}
	return ErrNoMulticast
}

func leaveGroup(p Port, group wire.GID) error {
	if m, ok := p.(Multicaster); ok {
		return m.LeaveGroup(group)
	}
	return ErrNoMulticast
}

const (
	lineInput  = 64                       // frames passed before out is emptied
	lineHeld   = 32                       // frames held back at most
	lineOutput = 2*lineInput + 2*lineHeld // all of them twice
	lineBody   = 9216                     // average length for which out has memory; RoCE packets are shorter
)

// faultLine is one direction.
type faultLine struct {
	cfg   FaultConfig
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

func newFaultLine(cfg FaultConfig, direction uint64) *faultLine {
	if cfg.ReorderBy == 0 {
		cfg.ReorderBy = 3
	}
	return &faultLine{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, direction)), out: wire.NewBatch(lineOutput, lineBody)}
}

// pass decides the fate of one frame. All dice are thrown for each frame, so that changing one rate leaves the others'
// results as they were.
func (l *faultLine) pass(f *wire.Frame) {
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

func (l *faultLine) emit(f *wire.Frame) {
	if l.out.Append(f) == nil {
		l.lost.Add(1) // only frames much longer than RoCE's can fill the line
		return
	}
	l.passed.Add(1)
}

func (l *faultLine) hold(f *wire.Frame) {
	b := wire.NewBatch(1, len(f.Body))
	b.Append(f)
	l.held = append(l.held, heldFrame{b, l.cfg.ReorderBy})
}

// release lets go of held frames that enough others have overtaken.
func (l *faultLine) release() {
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

func (l *faultLine) snapshot() FaultCounts {
	if l == nil {
		return FaultCounts{}
	}
	return FaultCounts{l.passed.Load(), l.lost.Load(), l.duplicated.Load(), l.corrupted.Load(), l.reordered.Load()}
}
