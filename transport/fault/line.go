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
	lineInput = 64 // frames passed before out is emptied
	// Frames that wait at a time; more go at once.
	lineLate    = 32
	lineDelayed = 1 << 16
	lineOutput  = 2*lineInput + 2*lineLate // all of them twice
	// lineBody is the average length for which out has memory; RoCE packets are shorter.
	lineBody = 9216
)

// line is one direction.
type line struct {
	cfg   Config
	rnd   *rand.Rand
	dice  bool // the rates apply
	rules []*packetRule
	wake  func()       // who waits for the port, and knows nothing of what is held since
	due   atomic.Int64 // UnixNano of when the first of those held for a time is to come, or notDue
	out   *wire.Batch
	lent  int          // frames at the front of out that Recv has lent
	left  atomic.Int64 // frames behind those
	burst int          // further frames to lose

	late    []heldFrame // that others are to overtake
	delayed []heldFrame // that come at a time

	passed, lost, duplicated, corrupted, reordered, marked atomic.Uint64
}

const notDue = math.MaxInt64

// heldFrame is a copy of a frame, as a batch of one, that comes later.
type heldFrame struct {
	intact *wire.Batch
	behind int       // frames still to come before it
	until  time.Time // or when it comes
	what   fate      // that it meets then
	bit    uint32
}

func newLine(cfg Config, side Side, rules []*packetRule, wake func()) *line {
	if cfg.ReorderBy == 0 {
		cfg.ReorderBy = 3
	}
	l := &line{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(side))), dice: cfg.On&side != 0, rules: rules,
		wake: wake, out: wire.NewBatch(lineOutput, lineBody)}
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
	case what.delay > 0 && len(l.delayed) < lineDelayed:
		l.hold(&l.delayed, f, &what, bit)
		l.note()
		l.wake()
	case what.behind > 0 && len(l.late) < lineLate:
		l.hold(&l.late, f, &what, bit)
	default:
		l.finish(l.emit(f), &what, bit)
		if what.twice {
			l.emit(f)
			l.duplicated.Add(1)
		}
		l.overtake()
	}
}

// finish does to a copy of the frame what does not depend on when it comes. The byte of the BTH
// that has FECN and BECN is not damaged: the ICRC does not cover it, so nobody would see.
func (l *line) finish(made *wire.Frame, what *fate, bit uint32) {
	if made == nil {
		return
	}
	if what.damage {
		const open = 4
		at := bit / 8 % uint32(len(made.Body)-1)
		if at >= open {
			at++
		}
		made.Body[at] ^= 1 << (bit % 8)
		l.corrupted.Add(1)
	}
	if what.mark {
		made.MarkCongestion()
		l.marked.Add(1)
	}
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

func (l *line) hold(list *[]heldFrame, f *wire.Frame, what *fate, bit uint32) {
	h := heldFrame{
		intact: wire.NewBatch(1, len(f.Body)),
		behind: what.behind,
		until:  l.cfg.Now().Add(what.delay),
		what:   *what,
		bit:    bit,
	}
	h.intact.Append(f)
	*list = append(*list, h)
	l.reordered.Add(1)
}

// comes puts a frame that was held back at the line's other end.
func (l *line) comes(h *heldFrame) {
	f := &h.intact.Frames()[0]
	l.finish(l.emit(f), &h.what, h.bit)
	if h.what.twice {
		l.emit(f)
		l.duplicated.Add(1)
	}
}

// overtake lets go of late frames that enough others have overtaken.
func (l *line) overtake() {
	kept := l.late[:0]
	for _, h := range l.late {
		if h.behind--; h.behind > 0 {
			kept = append(kept, h)
		} else {
			l.comes(&h)
		}
	}
	clear(l.late[len(kept):])
	l.late = kept
}

// releaseDue lets go of those whose time has come, as many as there is room for. What comes while
// the link is down is lost.
func (l *line) releaseDue(down bool) {
	if l.due.Load() == notDue || l.out.Len() > 0 {
		return
	}
	now, kept := l.cfg.Now(), l.delayed[:0]
	for _, h := range l.delayed {
		switch {
		case now.Before(h.until) || l.out.Len() > lineOutput-2:
			kept = append(kept, h)
		case down:
			l.lost.Add(1)
		default:
			l.comes(&h)
		}
	}
	clear(l.delayed[len(kept):])
	l.delayed = kept
	l.note()
}

// note notes when the next frame is due that is held for a time.
func (l *line) note() {
	due := int64(notDue)
	for i := range l.delayed {
		due = min(due, l.delayed[i].until.UnixNano())
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
	return Counts{l.passed.Load(), l.lost.Load(), l.duplicated.Load(), l.corrupted.Load(), l.reordered.Load(),
		l.marked.Load()}
}
