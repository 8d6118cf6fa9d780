package soft

// An application that watches memory which a peer writes, and calls the stack only for its own
// completions: what the peer writes meanwhile is executed by the background, which first has to see
// that nobody polls, and wake up. So a poll that has found completions can stay for what comes next
// (CQ.Linger).
//
// Whether it has come is seen by what peers have done to memory since the application began to poll
// for its completion: what was there before, the application has seen. If a poll left at once
// because the background had executed that, the background would execute the next one too, and so
// on for ever.
//
// Stages: how long → a poll finds nothing, and notes what is there (look) → one finds something,
// and stays (stay) → an application that has stayed in vain a few times in a row polls as ever, and
// tries again after some more WRITEs between its polls. The longer it has paid to stay, the longer
// a poll stays when for once nothing comes: else one pause of the peer, as when its processor is
// taken from it, leaves both ends to their backgrounds for milliseconds. And a turn for an
// application that can call the stack instead (Run).

import (
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
)

const (
	// maxVain is how often in a row a poll may stay and nothing comes: few, as each costs the
	// application all of its time.
	maxVain = 5
	// After that a poll may stay again when peers have written vainWrites times between polls, and
	// twice as often each time that this was in vain too, up to vainMost.
	vainWrites = 8
	vainMost   = 1024

	// A poll that pays lengthens later ones by this part of the time since the one before, to
	// longest at most. So what is lost at the end of a conversation is a small part of what it
	// took.
	savedPart = 16
	longest   = qp.Time(time.Millisecond)
)

// linger is how polls of one queue stay.
type linger struct {
	most   atomic.Int64  // how long, in ns; 0: they do not
	silent atomic.Uint64 // how much was written when polls last began to find nothing, or one ended
	vain   atomic.Int32  // how many in a row have stayed in vain
	rests  atomic.Int64  // how often memory is to be written until one may stay again
	looks  atomic.Bool   // the last poll has found nothing
	saved  atomic.Int64  // how much longer than most a poll may stay, in ns
	paid   atomic.Int64  // when the last one has paid
}

// Linger has a poll that finds completions run the lanes for up to d longer, until a peer has
// written memory or worked on it without leaving a completion, or another completion is there. It
// does so only while peers do, and seldom after a few times in vain. 0 ends it.
func (c *CQ) Linger(d time.Duration) {
	c.linger.silent.Store(c.silent())
	c.linger.vain.Store(0)
	c.linger.rests.Store(1)
	c.linger.saved.Store(0)
	c.linger.most.Store(int64(d))
}

// silent is what peers have done to memory without leaving a completion (qp.CQ.Silent).
func (c *CQ) silent() (n uint64) {
	for _, q := range c.rings {
		n += q.Silent()
	}
	return n
}

// look is the beginning of a poll that finds nothing there. If the one before has found something,
// what was written meanwhile is no news to the application.
func (c *CQ) look() {
	l := &c.linger
	if l.most.Load() == 0 || l.looks.Load() {
		return
	}
	l.looks.Store(true)
	silent := c.silent()
	if n := silent - l.silent.Swap(silent); n > 0 {
		l.rests.Add(-int64(min(n, vainMost)))
	}
}

// stay is the end of a poll that has found something.
func (c *CQ) stay() {
	l, silent := &c.linger, c.silent()
	l.looks.Store(false)
	if l.silent.Swap(silent) != silent {
		l.pays(c.dev.now())
		return
	}
	if l.rests.Load() > 0 {
		return
	}
	for end := l.end(c.dev.now()); ; {
		c.run()
		switch {
		case c.silent() != silent:
			l.silent.Store(c.silent())
			l.pays(c.dev.now())
			return
		case !c.idle():
			return
		case c.dev.now() >= end:
			l.inVain()
			return
		}
	}
}

// end is until when a poll stays that begins to now.
func (l *linger) end(now qp.Time) qp.Time {
	return now + min(qp.Time(l.most.Load()+l.saved.Load()), longest)
}

// pays notes that something was written while the application polled.
func (l *linger) pays(now qp.Time) {
	l.vain.Store(0)
	l.rests.Store(0)
	took := int64(now) - l.paid.Swap(int64(now))
	if l.saved.Load() < int64(longest) {
		l.saved.Add(min(took, l.most.Load()) / savedPart)
	}
}

// inVain notes that a poll has stayed, and nothing was.
func (l *linger) inVain() {
	l.saved.Store(0)
	if n := l.vain.Add(1); n >= maxVain {
		l.rests.Store(int64(min(vainWrites<<min(n-maxVain, 10), vainMost)))
	}
}

// Run takes a turn of the lanes for an application that watches memory. What has completed stays in
// the queue; its errors are those of Poll.
func (c *CQ) Run() (err error) {
	c.run()
	if !c.idle() {
		_, err = c.take(nil)
	}
	return err
}
