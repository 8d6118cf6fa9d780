package page

// Packets as they come. Stages: they are added, by whichever goroutine has them → the newest are
// kept → everybody who follows is told that there is something, and takes what it has not seen.

import (
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/world"
)

// Live is the newest packets of something that runs. It may be used concurrently.
type Live struct {
	mu      sync.Mutex
	w       Window
	queues  queues
	number  int
	changed chan struct{} // closed when there is something new
}

// NewLive keeps count packets, up to MaxCount; 0: DefaultCount.
func NewLive(title string, count int) *Live {
	return &Live{
		w:       Window{Title: title, Count: count},
		queues:  queues{now: map[string][]world.QPState{}},
		changed: make(chan struct{}),
	}
}

// Add takes a record, whose Number and Direction do not matter. It keeps nothing of rec.Data.
func (l *Live) Add(rec trace.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := trace.Packet{Record: rec}
	p.Number = l.number + 1
	p.Decode()
	if p.Kind == trace.Other {
		return
	}
	l.number++
	if extra := len(l.w.packets) - l.w.room() + 1; extra > 0 {
		l.w.packets = slices.Delete(l.w.packets, 0, extra)
	}
	l.w.Add(&p)
	l.tell()
}

// Say adds a line: what the program begins at that time, in nanoseconds as in records.
func (l *Live) Say(at int64, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.begin(at)
	l.note(world.Entry{Time: at - l.w.first, Kind: "call", Text: text})
	l.tell()
}

// note keeps a line among the others by its time, and the newest of them.
func (l *Live) note(x world.Entry) {
	if len(l.w.entries) >= l.w.room() {
		l.w.entries = slices.Delete(l.w.entries, 0, 1)
	}
	i := len(l.w.entries)
	for i > 0 && l.w.entries[i-1].Time > x.Time {
		i--
	}
	l.w.entries = slices.Insert(l.w.entries, i, x)
}

// tell tells everybody.
func (l *Live) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// after is the packets behind number n, without what they open to, and all lines that are as new as
// the oldest packet; and what tells when there is more.
func (l *Live) after(n int) (*play, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.w.play(false)
	p.Moments = l.queues.moments(p.Hosts)
	if len(p.Packets) > 0 {
		oldest := p.Packets[0].Sent
		p.Entries = slices.DeleteFunc(p.Entries, func(e world.Entry) bool { return e.Time < oldest-int64(time.Second) })
	}
	first, _ := slices.BinarySearchFunc(p.Packets, n+1, func(x packet, n int) int { return x.N - n })
	p.Packets = p.Packets[first:]
	return p, l.changed
}

// open returns a packet with its bytes and fields, nil if it is not kept any more.
func (l *Live) open(n int) *packet {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.w.open(n, 0)
	if p == nil {
		return nil
	}
	kept := *p
	return &kept
}
