//go:build linux

package raw

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name           string
		got            shape
		segments, size int
		payload        int
	}{
		{"bulk on 9000", bulk(4)(9000), 4 * 15, 4128, 4096},
		{"bulk on 1500", bulk(1)(1500), 62, 1056, 1024},
		{"a packet that just fits", bulk(1)(1056 + 28), 62, 1056, 1024},
		{"and one that does not", bulk(1)(1056 + 27), 120, 544, 512},
		{"tiny", tiny(128)(1500), 128, 40, 8},
	} {
		if want := (shape{c.segments, c.size, c.payload}); c.got != want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, want)
		}
	}
	if n := longestRun(40); n != 128 {
		t.Errorf("a run of small packets has %d", n)
	}
}

func TestWindow(t *testing.T) {
	report := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	w := window{limit: 100}
	if !w.open(100) || w.open(101) {
		t.Error("a new window is as wide as its limit")
	}
	w.sent = 100
	if w.open(1) {
		t.Error("open although all is on its way")
	}
	w.heed(report(40))
	w.heed(report(30)) // late
	w.heed(make([]byte, farewellSize))
	if !w.open(40) || w.open(41) {
		t.Errorf("after a report of 40: %+v", w)
	}
	w.sent = 140
	now := time.Now()
	w.wait(now)
	w.wait(now.Add(stuck))
	if w.open(1) {
		t.Error("given up too early")
	}
	w.heed(report(50))
	w.wait(now.Add(stuck + 1)) // the wait starts anew with a report
	if w.passed != 50 {
		t.Errorf("given up right after a report: %+v", w)
	}
	w.wait(now.Add(2*stuck + 2))
	if w.passed != 140 {
		t.Errorf("what is lost was never given up: %+v", w)
	}
}

// memoryLink keeps what is sent.
type memoryLink struct {
	out  [4 << 10]byte
	sent [][]byte
	full bool
}

func (l *memoryLink) segment(i, size int) []byte { return l.out[i*size:][:size] }
func (l *memoryLink) recv() ([]byte, int, error) { return nil, 0, nil }
func (l *memoryLink) close()                     {}
func (l *memoryLink) send(n, size int) (bool, error) {
	if !l.full {
		l.sent = append(l.sent, append([]byte{}, l.out[:n]...))
	}
	return !l.full, nil
}

func TestReports(t *testing.T) {
	l := &memoryLink{}
	r := reporter{every: 10}
	for _, step := range []struct {
		passed uint64
		full   bool
		sent   int // in all, afterwards
	}{{9, false, 0}, {10, true, 0}, {11, false, 1}, {20, false, 1}, {21, false, 2}} {
		l.full = step.full
		if err := r.report(l, step.passed); err != nil || len(l.sent) != step.sent {
			t.Errorf("after %d: %d reports, %v; want %d", step.passed, len(l.sent), err, step.sent)
		}
	}
	if got := binary.LittleEndian.Uint64(l.sent[1]); got != 21 || len(l.sent[1]) != reportSize {
		t.Errorf("the last report is of %d in %d bytes", got, len(l.sent[1]))
	}
}

// What a sender lays out is what a receiver accepts, each byte of the payload where it belongs; and
// a spoiled packet is counted.
func TestWork(t *testing.T) {
	for _, s := range []shape{{segments: 3, size: 1056, payload: 1024}, {segments: 5, size: 40, payload: 8}} {
		l := &memoryLink{}
		from, to := newWorker(s), newWorker(s)
		for i := range from.memory {
			from.memory[i] = byte(i*7 + i>>8)
		}
		from.number(l, 1000)
		from.fill(l)
		n := s.segments * s.size
		if bad := to.drain(l.out[:n], s.size); bad != 0 {
			t.Errorf("%+v: %d bad ones", s, bad)
		}
		if got, want := to.memory[:s.segments*s.payload], from.memory[:s.segments*s.payload]; string(got) != string(want) {
			t.Errorf("%+v: the payload changed", s)
		}
		if last := binary.LittleEndian.Uint64(l.segment(s.segments-1, s.size)[numberAt:]); last != 1000+uint64(s.segments)-1 {
			t.Errorf("%+v: the last segment is number %d", s, last)
		}
		l.out[s.size+payloadAt]++
		if bad := to.drain(l.out[:n], s.size); bad != 1 {
			t.Errorf("%+v: of one bad packet, %d were found", s, bad)
		}
	}
}

func TestSums(t *testing.T) {
	r := Result{Packets: 900}.summary(1000, 60, 1000, time.Millisecond)
	if r.Mpps != 0.9 || r.Gbps != 7.2 || math.Abs(r.Lost-0.04) > 1e-12 {
		t.Errorf("a stream: %+v", r)
	}
	trips := make([]time.Duration, 100)
	for i := range trips {
		trips[i] = time.Duration(100-i) * 2 * time.Microsecond
	}
	r = ofTrips(trips, time.Second)
	if r.OneWay != 50.5 || r.Typical != 51 || r.P99 != 100 || r.Best != 1 || r.Rate != 100 {
		t.Errorf("a ping-pong: %+v", r)
	}
}
