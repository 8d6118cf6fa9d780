//go:build linux

package raw

// A stream. Stages: the sender fills and sends super-frames, as far as the window allows, until its
// time is up, then sends farewells, single packets with the count of what it sent, until they are
// answered; the receiver drains and reports until the first farewell, answers it and does the sums.

import (
	"encoding/binary"
	"errors"
	"runtime"
	"time"
)

const (
	farewellSize = 16
	settling     = 5 * time.Millisecond  // before the first farewell: the queue empties
	again        = 20 * time.Millisecond // before the next one
	goodbyes     = 3                     // reports that all has passed, which answer a farewell
	silence      = 3 * time.Second       // a receiver that hears nothing for so long gives up
)

// inFlight is the window in super-frames. With a quarter of it the receiver needs 1.6 times the
// processor time, for its reports; twice and four times as many are no faster, and may be more than
// a ring has room for.
const inFlight = 16

var errSilence = errors.New("no farewell came from the sender")

func streams(open opener, shaped func(linkMTU int) shape, work bool) func(End) (Result, error) {
	return func(e End) (Result, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l, err := open(e)
		if err != nil {
			return Result{}, err
		}
		defer l.close()
		w := newWorker(shaped(e.MTU))
		if e.Sends {
			return send(l, w, work, e.Duration)
		}
		return receive(l, w, work)
	}
}

func send(l link, w *worker, work bool, d time.Duration) (Result, error) {
	win := window{limit: uint64(inFlight * w.segments)}
	start := time.Now()
	for now := start; now.Sub(start) < d; now = time.Now() {
		if !win.open(w.segments) {
			report, _, err := l.recv()
			if err != nil {
				return Result{}, err
			}
			win.heed(report)
			if len(report) == 0 {
				win.wait(now)
			}
			continue
		}
		w.number(l, win.sent)
		if work {
			w.fill(l)
		}
		ok, err := l.send(w.segments*w.size, w.size)
		if err != nil {
			return Result{}, err
		}
		if ok {
			win.sent += uint64(w.segments)
		}
	}
	r := Result{Packets: win.sent, Seconds: time.Since(start).Seconds()}
	return r, leave(l, win.sent)
}

// leave sends farewells until one is answered.
func leave(l link, sent uint64) error {
	time.Sleep(settling)
	for start := time.Now(); time.Since(start) < patience; {
		binary.LittleEndian.PutUint64(l.segment(0, farewellSize), sent)
		if _, err := l.send(farewellSize, farewellSize); err != nil {
			return err
		}
		for last := time.Now(); time.Since(last) < again; {
			report, _, err := l.recv()
			if err != nil {
				return err
			}
			if len(report) == reportSize && binary.LittleEndian.Uint64(report) == farewell {
				return nil
			}
		}
	}
	return errNoAnswer
}

func receive(l link, w *worker, work bool) (Result, error) {
	var r Result
	reports := reporter{every: uint64(inFlight * w.segments / 4)}
	var first, last time.Time
	uncounted := uint64(0)
	idleSince := time.Now()
	for spins := 0; ; spins++ {
		frame, segment, err := l.recv()
		if err != nil {
			return r, err
		}
		switch len(frame) {
		case 0:
			if spins&0xffff == 0 && time.Since(idleSince) > silence && !first.IsZero() {
				return r, errSilence
			}
			continue
		case farewellSize:
			r = r.summary(w.payload, uncounted, binary.LittleEndian.Uint64(frame), last.Sub(first))
			return r, sayGoodbye(l)
		}
		last = time.Now()
		idleSince = last
		segments := uint64((len(frame) + segment - 1) / segment)
		passed := binary.LittleEndian.Uint64(frame[numberAt:]) + segments
		if first.IsZero() {
			// Time starts with the first super-frame, which does not count.
			first, uncounted = last, segments
		} else {
			r.Packets += segments
			if work {
				r.Bad += w.drain(frame, segment)
			}
		}
		if err := reports.report(l, passed); err != nil {
			return r, err
		}
	}
}

func sayGoodbye(l link) error {
	for range goodbyes {
		binary.LittleEndian.PutUint64(l.segment(0, reportSize), farewell)
		if _, err := l.send(reportSize, reportSize); err != nil {
			return err
		}
	}
	return nil
}

// summary does the sums of a receiver: what arrived of what was sent, in a time.
func (r Result) summary(payload int, uncounted, sent uint64, d time.Duration) Result {
	r.Seconds = d.Seconds()
	if r.Seconds > 0 {
		r.Mpps = float64(r.Packets) / r.Seconds / 1e6
		r.Gbps = r.Mpps * float64(payload) * 8 / 1e3
	}
	if sent > 0 {
		r.Lost = 1 - float64(r.Packets+uncounted)/float64(sent)
	}
	return r
}
