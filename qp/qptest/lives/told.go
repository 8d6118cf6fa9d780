package lives

// Being told: of completions, by queues that are armed and perhaps moderated; that a send queue has
// drained.
//
// Stages: drawing who asks for it (drawTold) → an application arms a queue (arm), or says for how
// long notifications are held back (moderate) → after each turn: who was told had asked for it, and
// had to be told now (checkTold) → drained send queues (drainTold, checkDrained).

import (
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// drawTold has the applications of some worlds ask to be told. It has dice of its own, so that the
// other worlds are what they were.
func (p *Plan) drawTold(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.35) {
		return
	}
	for range 4 + d.IntN(40) {
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), d.IntN(len(p.Apps)),
			qptest.Pick(d, "arm", "arm", "arm", "moderate", "drain and be told"),
			[3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
}

// bell is what an application knows of a completion queue that it has armed.
type bell struct {
	cq     *qp.CQ
	polled int // completions so far
	asked  asks
	from   [tellNow + 1]int // completions that there had been when it asked for as much
	enough int              // moderation; 0: none
	period qp.Time
	set    qp.Time // when that was said: what is held back then is told of a moment later
	due    qp.Time // when it must be told at the latest
}

// asks is what an armed queue is to tell of.
type asks uint8

const (
	tellNothing asks = iota
	tellSolicited
	tellAny
	tellNow // any, without moderation
)

// bellOf is the bell of a completion queue; there are few.
func (a *app) bellOf(c *qp.CQ) *bell {
	if i := slices.IndexFunc(a.bells, func(b *bell) bool { return b.cq == c }); i >= 0 {
		return a.bells[i]
	}
	a.bells = append(a.bells, &bell{cq: c, due: qp.Never})
	return a.bells[len(a.bells)-1]
}

// completions is how many the queue has ever shown.
func (b *bell) completions() int { return b.polled + b.cq.Len() }

// since is how many have come since it asked for as much.
func (b *bell) since(what asks) int { return b.completions() - b.from[what] }

// arm asks to be told of the next completion. What it has asked for already stays.
func (a *app) arm(d *Deed) bool {
	b := a.bellOf(a.life.cqs[d.R[0]%2])
	what := []asks{tellSolicited, tellAny, tellAny, tellNow}[d.R[1]%4]
	switch what {
	case tellSolicited, tellAny:
		b.cq.Arm(what == tellSolicited)
	default:
		b.cq.ArmNow()
	}
	for each := tellSolicited; each <= what; each++ {
		if each > b.asked {
			b.from[each] = b.completions()
		}
	}
	b.asked = max(b.asked, what)
	return true
}

// moderate changes how many completions a notification waits for, and for how long.
func (a *app) moderate(d *Deed) bool {
	b := a.bellOf(a.life.cqs[d.R[0]%2])
	b.enough, b.period, b.set = int(d.R[1]%6), qp.Time(d.R[2]%8)*20*qptest.Microsecond, a.w.Now
	a.must(a.node.Control(func() error {
		return a.node.Engine.ModerateCQ(a.w.Now, b.cq, b.enough, b.period)
	}), "ModerateCQ")
	if b.enough < 2 || b.period == 0 {
		b.enough, b.period = 0, 0
	}
	if b.due != qp.Never { // what is held back counts
		if b.due = min(b.due, a.w.Now+b.period); b.since(tellAny) >= b.enough {
			b.due = a.w.Now
		}
	}
	return true
}

// checkTold holds who was told in the last turn against who has asked for it.
func (w *world) checkTold(n *qptest.Node) {
	for _, a := range w.apps {
		for _, b := range a.bells {
			if a.node != n {
				break
			}
			if b.asked >= tellAny && b.since(tellAny) > 0 && b.due == qp.Never {
				b.due = w.Now + b.period
			}
			told := 0
			n.Notified = slices.DeleteFunc(n.Notified, func(c *qp.CQ) bool {
				if c == b.cq {
					told++
				}
				return c == b.cq
			})
			if why := b.wrong(told, w.Now); why != "" {
				a.fail("a completion queue that has shown %d completions since it was armed: %s",
					b.since(tellSolicited), why)
			}
			if told > 0 {
				b.asked, b.due = tellNothing, qp.Never
			}
		}
	}
	if len(n.Notified) > 0 {
		w.Fail("%s: a completion queue tells, which nobody has armed", n)
	}
}

// wrong says why it should not have been told so often in a turn, or more often.
func (b *bell) wrong(told int, now qp.Time) string {
	enough := max(b.enough, 1)
	switch {
	case told > 1:
		return "it was told of twice"
	case told == 1 && b.asked == tellNothing:
		return "it was told of, and nobody has asked"
	case told == 1 && b.since(tellSolicited) == 0:
		return "it was told of too early"
	case told == 1 && b.asked == tellAny && b.from[tellSolicited] == b.from[tellAny] && b.since(tellAny) < enough &&
		now < b.due:
		return "it was told of although it is moderated"
	case told == 0 && b.asked == tellNow && b.since(tellNow) > 0:
		return "it was not told of"
	case told == 0 && b.asked >= tellAny && (now > b.due || b.since(tellAny) >= enough && now > b.set):
		return "it was not told of in time"
	}
	return ""
}

// drainAndBeTold goes to SQD, and asks for the event that says when all is complete.
func (a *app) drainAndBeTold(*Deed) bool { return a.drainTo(true) }

// checkDrained holds the events of the last turn, and the states, against who has asked for them.
func (w *world) checkDrained(n *qptest.Node) {
	for ; w.heard[n] < len(n.Events); w.heard[n]++ {
		ev := &n.Events[w.heard[n]]
		for _, a := range w.apps {
			if l := a.life; ev.Type == qp.EventSQDrained && l != nil && l.q == ev.QP {
				if !l.awaits {
					a.fail("an event %q that nobody has asked for", ev.Type)
				}
				l.awaits = false
			}
		}
	}
	for _, a := range w.apps {
		if l := a.life; a.node == n && l != nil && l.awaits && l.q.State() == qp.StateSQD {
			if attr := n.Engine.QueryQP(l.q); !attr.SQDraining {
				a.fail("its send queue has drained, and no event says so")
			}
		}
	}
}
