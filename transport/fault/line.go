package fault

// A line: one direction. Frames go in, and come out as their fate has it.
// Stages: a frame's fate → what comes out at once → what is held back, for others or for a time.

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/wire"
)

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
	dice  bool // the rates apply
	rules []*packetRule
	wake  func()       // ends the port's Wait, which knows nothing of what is held since
	due   atomic.Int64 // UnixNano of when the first of those held for a time is to come, or notDue
	out   *wire.Batch
	lent  int          // frames at the front of out that Recv has lent
	left  atomic.Int64 // frames behind those
	burst int          // further frames to lose
	held  []heldFrame

	passed, lost, duplicated, corrupted, reordered, marked atomic.Uint64
}

const notDue = math.MaxInt64

// heldFrame is a copy of a frame, as a batch of one, that others overtake.
type heldFrame struct {
	copy   *wire.Batch
	behind int       // frames still to come before it
	until  time.Time // or it comes then
}

func newLine(cfg Config, side Side, rules []*packetRule, wake func()) *line {
	if cfg.ReorderBy == 0 {
		cfg.ReorderBy = 3
	}
	l := &line{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(side))), dice: cfg.On&side != 0, rules: rules, wake: wake,
		out: wire.NewBatch(lineOutput, lineBody)}
	l.due.Store(notDue)
	return l
}

// throw throws the dice for a frame. All are thrown for each, so that changing one rate leaves the
// others' results as they were.
func (l *line) throw(what *fate) (bit uint32) {
	lose, twice := l.rnd.Float64() < l.cfg.Loss, l.rnd.Float64() < l.cfg.Duplicate
	damage, late := l.rnd.Float64() < l.cfg.Corrupt, l.rnd.Float64() < l.cfg.Reorder
	bit = l.rnd.Uint32()
	if !l.dice {
		return bit
	}
	if lose && l.burst == 0 {
		l.burst = max(1, l.cfg.BurstLen)
	}
	if l.burst > 0 {
		l.burst--
		what.lose = true
	}
	what.twice, what.damage = what.twice || twice, what.damage || damage
	if late && what.behind == 0 {
		what.behind = l.cfg.ReorderBy
	}
	return bit
}

// pass decides the fate of one frame. While the link is down it is lost, whatever else.
func (l *line) pass(f *wire.Frame, down bool) {
	what := decide(l.rules, f)
	bit := l.throw(&what)
	switch {
	case what.lose || down:
		l.lost.Add(1)
		return
	case (what.behind > 0 || what.delay > 0) && len(l.held) < lineHeld:
		l.hold(f, &what)
		l.reordered.Add(1)
		return
	}
	made := l.emit(f)
	if made != nil && what.damage {
		bit %= uint32(8 * len(made.Body))
		made.Body[bit/8] ^= 1 << (bit % 8)
		l.corrupted.Add(1)
	}
	if made != nil && what.mark {
		made.MarkCongestion()
		l.marked.Add(1)
	}
	if what.twice {
		l.emit(f)
		l.duplicated.Add(1)
	}
	l.release()
}

// emit puts a copy of the frame at the line's other end, and returns it; nil if it is full.
func (l *line) emit(f *wire.Frame) *wire.Frame {
	made := l.out.Append(f)
	if made == nil {
		l.lost.Add(1) // only frames much longer than RoCE's can fill the line
		return nil
	}
	l.passed.Add(1)
	return made
}

func (l *line) hold(f *wire.Frame, what *fate) {
	h := heldFrame{copy: wire.NewBatch(1, len(f.Body)), behind: what.behind}
	h.copy.Append(f)
	if what.delay > 0 {
		h.behind, h.until = math.MaxInt, l.cfg.Now().Add(what.delay)
	}
	l.held = append(l.held, h)
	l.note()
	if what.delay > 0 {
		l.wake()
	}
}

// release lets go of held frames that enough others have overtaken.
func (l *line) release() {
	l.letGo(func(h *heldFrame) bool { h.behind--; return h.behind <= 0 })
}

// releaseDue lets go of those whose time has come, if there is room behind what has not been taken
// yet.
func (l *line) releaseDue() {
	if l.due.Load() == notDue || l.out.Len() > 0 {
		return
	}
	now := l.cfg.Now()
	l.letGo(func(h *heldFrame) bool { return !h.until.IsZero() && !now.Before(h.until) })
	l.note()
}

func (l *line) letGo(goes func(h *heldFrame) bool) {
	kept := l.held[:0]
	for _, h := range l.held {
		if goes(&h) {
			l.emit(&h.copy.Frames()[0])
		} else {
			kept = append(kept, h)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}

// note notes when the next frame is due that is held for a time.
func (l *line) note() {
	due := int64(notDue)
	for i := range l.held {
		if until := l.held[i].until; !until.IsZero() {
			due = min(due, until.UnixNano())
		}
	}
	l.due.Store(due)
}

// untilDue is how long it is until then; false: nothing is held for a time. Any goroutine may ask.
func (l *line) untilDue() (d time.Duration, ok bool) {
	if l == nil {
		return 0, false
	}
	due := l.due.Load()
	if due == notDue {
		return 0, false
	}
	return max(0, time.Duration(due-l.cfg.Now().UnixNano())), true
}

func (l *line) snapshot() Counts {
	if l == nil {
		return Counts{}
	}
	return Counts{l.passed.Load(), l.lost.Load(), l.duplicated.Load(), l.corrupted.Load(), l.reordered.Load(), l.marked.Load()}
}
