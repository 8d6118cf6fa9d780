package qptest

// The pictures of docs/congestion.md: what senders do over time in the networks of TestNetworks.
// They are made anew by
//
//	go test ./qp/qptest -run TestPictures -update
//
// and the test holds that what it would make is what is there.
//
// Stages: a network is played in short steps (watch) → after each the window, the queue and what
// has arrived are noted → lines over time, one picture for each thing to be seen.

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/internal/plot"
	"github.com/goroce/goroce/qp"
)

// moment is what there is to see at a time.
type moment struct {
	at     float64 // seconds
	window float64 // of the first sender of ours, KiB
	queue  float64 // before the link, KiB
	rates  []float64
}

// watch plays a network for some time and looks at it after each step.
func (n *network) watch(t *testing.T, long, step qp.Time) (seen []moment) {
	s := n.begin(t)
	s.run(t, 0)
	start, before := s.w.Now, s.arrived()
	for s.w.Now < start+long {
		s.run(t, step)
		m := moment{at: float64(s.w.Now-start) / float64(Second),
			queue: float64(max(s.loaded.busy-s.w.Now, 0)) * float64(n.Rate) / 8 / float64(Second) / 1024}
		if len(s.flows) > 0 {
			path, err := s.a.Engine.PathInfo(s.flows[0].qp.QP)
			if err != nil {
				t.Fatal(err)
			}
			m.window = float64(path.WindowBytes) / 1024
		}
		after := s.arrived()
		for i, bytes := range after {
			m.rates = append(m.rates, float64(bytes-before[i])*8/1e6*float64(Second)/float64(step))
		}
		seen, before = append(seen, m), after
	}
	return seen
}

// over is a line of what was seen, by time.
func over(name string, seen []moment, of func(*moment) float64) plot.Series {
	s := plot.Series{Name: name}
	for i := range seen {
		s.X, s.Y = append(s.X, seen[i].at), append(s.Y, of(&seen[i]))
	}
	return s
}

func TestPictures(t *testing.T) {
	window := func(m *moment) float64 { return m.window }
	queue := func(m *moment) float64 { return m.queue }
	rate := func(i int) func(*moment) float64 { return func(m *moment) float64 { return m.rates[i] } }

	alone := network{ours: 1, Faults: Faults{Rate: 1e9, Delay: 75 * Microsecond, Queue: 64 << 10}}
	seen := alone.watch(t, 400*Millisecond, 2*Millisecond)
	picture(t, "congestion-window.svg", plot.Lines("One sender, a queue of 64 KiB", plot.Axes{X: "seconds", Y: "KiB"},
		[]plot.Series{over("window", seen, window), over("queue", seen, queue)}))

	beside := network{ours: 1, cubics: 1, Faults: Faults{Rate: 1e9, Delay: 75 * Microsecond, Queue: 256 << 10}}
	seen = beside.watch(t, 4*Second, 40*Millisecond)
	picture(t, "congestion-shares.svg", plot.Lines("Beside a CUBIC, a queue of 256 KiB",
		plot.Axes{X: "seconds", Y: "Mbit/s of payload"},
		[]plot.Series{over("goroce", seen, rate(0)), over("CUBIC", seen, rate(1))}))

	far := network{ours: 1, Faults: Faults{Rate: 1e9, Delay: 50 * Millisecond, Queue: 4 << 20}}
	tcp := network{cubics: 1, Faults: far.Faults}
	picture(t, "congestion-far.svg", plot.Lines("100 ms away, a queue of 4 MiB, each alone",
		plot.Axes{X: "seconds", Y: "Mbit/s of payload"},
		[]plot.Series{over("goroce", far.watch(t, 5*Second, 100*Millisecond), rate(0)),
			over("CUBIC", tcp.watch(t, 5*Second, 100*Millisecond), rate(0))}))
}

// picture holds a picture against the one in docs, or writes that.
func picture(t *testing.T, name string, now *plot.Picture) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "pictures", name)
	if *updateFlag {
		if err := os.WriteFile(path, now.SVG(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, now.SVG()) {
		t.Errorf("%s would be another picture now; if that is meant, run with -update", path)
	}
}
