//go:build linux

package raw

// A stream. Stages: the sender fills and sends super-frames until its time is up, then sends farewells, single packets with
// the count of what it sent; the receiver drains until the first farewell and does the sums.

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"time"
)

const (
	memory       = 64 << 10 // the application's memory on each end: one message
	farewellSize = 16
	farewells    = 6
	settling     = 5 * time.Millisecond // before the first farewell, twice as much before the next: the receiver empties its queue
	silence      = 3 * time.Second      // a receiver that hears nothing for so long gives up
)

var errSilence = errors.New("no farewell came from the sender")

func streams(open opener, s shape, work bool) func(End) (Result, error) {
	return func(e End) (Result, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l, err := open(e)
		if err != nil {
			return Result{}, err
		}
		defer l.close()
		w := worker{shape: s, memory: make([]byte, memory)}
		if e.Sends {
			return send(l, &w, work, e.Duration)
		}
		return receive(l, &w, work)
	}
}

func send(l link, w *worker, work bool, d time.Duration) (Result, error) {
	n := w.segments * w.size
	packets := uint64(0)
	start := time.Now()
	for time.Since(start) < d {
		if !l.room(w.segments) {
			continue
		}
		if work {
			w.fill(l)
		}
		ok, err := l.send(n, w.size)
		if err != nil {
			return Result{}, err
		}
		if ok {
			packets += uint64(w.segments)
		}
	}
	r := Result{Packets: packets, Seconds: time.Since(start).Seconds()}
	for i := range farewells {
		time.Sleep(settling << i)
		binary.LittleEndian.PutUint64(l.segment(0, farewellSize), packets)
		if _, err := l.send(farewellSize, farewellSize); err != nil {
			return r, err
		}
	}
	return r, nil
}

func receive(l link, w *worker, work bool) (Result, error) {
	var r Result
	var first, last time.Time
	idleSince := time.Now()
	for spins := 0; ; spins++ {
		frame, segment, err := l.recv()
		if err != nil {
			return r, err
		}
		if len(frame) == 0 {
			if spins&0xffff == 0 && time.Since(idleSince) > silence && !first.IsZero() {
				return r, errSilence
			}
			continue
		}
		if len(frame) == farewellSize {
			return summary(r, w, binary.LittleEndian.Uint64(frame), last.Sub(first)), nil
		}
		last = time.Now()
		idleSince = last
		if first.IsZero() {
			first = last
			continue // time starts with the first super-frame, which does not count
		}
		r.Packets += uint64((len(frame) + segment - 1) / segment)
		if work {
			r.Bad += w.drain(frame, segment)
		}
	}
}

func summary(r Result, w *worker, sent uint64, d time.Duration) Result {
	r.Seconds = d.Seconds()
	if r.Seconds > 0 {
		r.Mpps = float64(r.Packets) / r.Seconds / 1e6
		r.Gbps = r.Mpps * float64(w.payload) * 8 / 1e3
	}
	if sent > 0 {
		r.Lost = 1 - float64(r.Packets+uint64(w.segments))/float64(sent)
	}
	return r
}

// worker does the work that cannot be avoided: copy and CRC-32.
type worker struct {
	shape
	memory []byte
	at     int
}

// next is the payload's place in the application's memory; messages fill it again and again.
func (w *worker) next() []byte {
	if w.at+w.payload > len(w.memory) {
		w.at = 0
	}
	m := w.memory[w.at : w.at+w.payload]
	w.at += w.payload
	return m
}

// fill lays out the segments of a super-frame.
func (w *worker) fill(l link) {
	for i := range w.segments {
		segment := l.segment(i, w.size)
		body := segment[:w.size-4]
		copy(body[w.offset:], w.next())
		binary.LittleEndian.PutUint32(segment[w.size-4:], crc32.ChecksumIEEE(body))
	}
}

// drain takes the segments of a super-frame and returns how many were bad.
func (w *worker) drain(frame []byte, segment int) (bad uint64) {
	for ; len(frame) >= segment; frame = frame[segment:] {
		body := frame[:segment-4]
		if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(frame[segment-4:]) {
			bad++
			continue
		}
		copy(w.next(), body[w.offset:])
	}
	return bad
}
