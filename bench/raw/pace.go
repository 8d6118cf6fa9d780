//go:build linux

package raw

// The pace of a stream. The receiver reports how many segments have passed it, lost ones too, four
// times a window; the sender has no more than a window beyond the last report on its way. That is
// the least that a stack must do not to overrun its peer: one small packet against a window.

import (
	"encoding/binary"
	"time"
)

const (
	reportSize = 8
	// Without a report for so long, all that is on its way counts as lost. Less would take a
	// receiver that has no processor for a while for one that lost everything, and overrun it.
	stuck = 200 * time.Millisecond
)

// window is the sender's side.
type window struct {
	limit  uint64 // segments on their way
	sent   uint64
	passed uint64
	closed time.Time // when the window was found closed; zero: it is open
}

// open says whether n more segments may be sent.
func (w *window) open(n int) bool { return w.sent+uint64(n) <= w.passed+w.limit }

// heed takes a report.
func (w *window) heed(report []byte) {
	if len(report) == reportSize {
		w.passed = max(w.passed, binary.LittleEndian.Uint64(report))
		w.closed = time.Time{}
	}
}

// wait is told that the window is closed and no report has come.
func (w *window) wait(now time.Time) {
	switch {
	case w.closed.IsZero():
		w.closed = now
	case now.Sub(w.closed) > stuck:
		w.passed, w.closed = w.sent, time.Time{}
	}
}

// reporter is the receiver's side.
type reporter struct {
	every    uint64
	reported uint64
}

// report sends a report if one is due, now that a number of segments have passed.
func (r *reporter) report(l link, passed uint64) error {
	if passed < r.reported+r.every {
		return nil
	}
	binary.LittleEndian.PutUint64(l.segment(0, reportSize), passed)
	ok, err := l.send(reportSize, reportSize)
	if ok {
		r.reported = passed
	}
	return err
}
