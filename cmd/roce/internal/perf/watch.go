package perf

// What can be seen of a run while it goes on: the live line on a terminal, and the readings of
// which --plot draws the rate over time. The loops count what they moved once for each batch of
// completions; somebody else looks now and then.

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress is what an end has moved, of all sizes. The nil progress counts nothing.
type progress struct{ messages, bytes atomic.Uint64 }

func (p *progress) add(messages, size int) {
	if p != nil && messages > 0 {
		p.messages.Add(uint64(messages))
		p.bytes.Add(uint64(messages) * uint64(size))
	}
}

// reading is a look at the counters.
type reading struct {
	at              time.Duration // since the run began
	messages, bytes uint64
}

// gbits and rate are the means between two readings: Gbit/s and million messages a second.
func (a reading) gbits(b reading) float64 {
	return float64(b.bytes-a.bytes) * 8 / 1e9 / (b.at - a.at).Seconds()
}
func (a reading) rate(b reading) float64 {
	return float64(b.messages-a.messages) / 1e6 / (b.at - a.at).Seconds()
}

// The clocks of the watch.
const (
	livePeriod = time.Second
	lookPeriod = 5 * time.Millisecond // grows with the run, see history
)

// history keeps readings evenly over a run of any length: when it is full every other one goes, and
// from then on half as many come.
type history struct {
	readings []reading
	every    time.Duration
}

const historyLen = 256

func (h *history) add(r reading) {
	if n := len(h.readings); n > 0 && r.at-h.readings[n-1].at < h.every {
		return
	}
	h.readings = append(h.readings, r)
	if len(h.readings) < historyLen {
		return
	}
	for i := range historyLen / 2 {
		h.readings[i] = h.readings[2*i]
	}
	h.readings = h.readings[:historyLen/2]
	h.every *= 2
}

// watch looks at a run from a goroutine of its own.
type watch struct {
	look    func() reading
	resent  func() uint64 // retransmitted packets
	unit    string        // what messages are, "msg"
	history history

	mu   sync.Mutex
	line io.Writer // of a terminal; nil for none
	dirt bool      // something stands on the line
	stop chan struct{}
	done sync.WaitGroup
}

// watch starts looking if somebody wants to see. An end that only answers sees what its port moves.
func (r *rig) watch() {
	drawn := r.o.Plot != "" && !r.t.Lat && !r.o.AllSizes && r.moves()
	if r.o.Live == nil && !drawn {
		return
	}
	w := &watch{line: r.o.Live, unit: "msg", stop: make(chan struct{}), history: history{every: lookPeriod}}
	start := time.Now()
	w.resent = func() uint64 { return r.s.Stats().Engine.Retransmitted }
	if r.moves() {
		r.progress = &progress{}
		w.look = func() reading {
			return reading{time.Since(start), r.progress.messages.Load(), r.progress.bytes.Load()}
		}
	} else {
		w.unit = "packets"
		w.look = func() reading {
			s := r.s.Stats().Port
			return reading{time.Since(start), s.RecvFrames + s.SendFrames, s.RecvBytes + s.SendBytes}
		}
	}
	r.eye = w
	live := livePeriod
	if r.o.LiveEvery > 0 {
		live = r.o.LiveEvery
	}
	period := live
	if drawn {
		period = min(live, lookPeriod)
	}
	w.done.Go(func() { w.run(period, live) })
}

// moves says whether this end counts messages, and does not only answer.
func (r *rig) moves() bool { return r.link.client || r.o.Bidi || r.t.sends() || r.t.Lat && !r.t.respOp }

func (w *watch) run(period, live time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	shown := w.look()
	w.history.add(shown)
	for {
		select {
		case <-w.stop:
			w.history.add(w.look())
			return
		case <-tick.C:
		}
		now := w.look()
		w.history.add(now)
		if w.line != nil && now.at-shown.at >= live*9/10 { // ticks are late by turns
			w.show(liveLine(shown, now, w.unit, w.resent()))
			shown = now
		}
	}
}

// liveLine is what a terminal shows of the time between two readings.
func liveLine(from, to reading, unit string, resent uint64) string {
	return fmt.Sprintf(" %4.0f s   %8.3f Gbit/s   %9.6f M %s/s   %d retransmits",
		to.at.Seconds(), from.gbits(to), from.rate(to), unit, resent)
}

const eraseLine = "\r\x1b[K"

func (w *watch) show(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	io.WriteString(w.line, eraseLine+line)
	w.dirt = true
}

// clear takes the line away before something else is printed, which may be on the same terminal.
// The nil watch has no line.
func (w *watch) clear() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirt {
		io.WriteString(w.line, eraseLine)
		w.dirt = false
	}
}

// end stops looking. What was seen stays. The nil watch has seen nothing.
func (w *watch) end() {
	if w == nil || w.stop == nil {
		return
	}
	close(w.stop)
	w.done.Wait()
	w.stop = nil
	w.clear()
}
