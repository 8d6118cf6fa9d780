package rsocket

// Nobody waits for ever in a connection: stories of a few calls, in every order of their steps on
// the connection that has few switches (internal/step). What is below it has stories of its own:
// here it only runs.

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/step"
	steptime "github.com/goroce/goroce/internal/step/time"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

func TestSteps(t *testing.T) {
	const below = ":sync/atomic" // there only what waits is rewritten
	if !step.Rebuilt(t, "roce/rsocket", "roce"+below, "roce/internal/soft"+below, "qp/cq.go"+below, "mr/reader.go"+below) {
		return
	}
	for _, s := range stepStories {
		t.Run(s.name, func(t *testing.T) {
			pace := step.Pace{Look: 5 * time.Microsecond, Wake: 100 * time.Microsecond}
			(&step.Story{
				Switches: s.switches,
				Random:   s.random,
				Pace:     pace,
				Tell:     func(p *step.Play) { s.tell(newStepWorld(t, p)) },
			}).Play(t)
		})
	}
}

// loopPort is a port whose packets come back to it.
type loopPort struct {
	gid  wire.GID
	in   []*wire.Batch
	rung bool
}

func (p *loopPort) Send(b *wire.Batch) (int, error) {
	on := wire.NewBatch(b.Len(), 1200)
	for i := range b.Frames() {
		if on.Append(&b.Frames()[i]) == nil {
			step.Fail("a packet is too long for the test")
		}
	}
	p.in = append(p.in, on)
	step.Touch(step.Object(p))
	return b.Len(), nil
}

func (p *loopPort) Recv(frames []wire.Frame) (n int, err error) {
	if len(p.in) > 0 {
		n = copy(frames, p.in[0].Frames())
		p.in = p.in[1:]
	}
	return n, nil
}

func (p *loopPort) Wait(timeout time.Duration) error {
	var over bool
	if timeout >= 0 {
		timer := step.After(timeout, func() {
			over = true
			step.Touch(step.Object(p))
		})
		defer timer.Stop()
	}
	for len(p.in) == 0 && !p.rung && !over {
		step.Block(step.Object(p))
	}
	p.rung = false
	return nil
}

func (p *loopPort) Wake() {
	p.rung = true
	step.Touch(step.Object(p))
}

func (p *loopPort) Stats() transport.Stats { return transport.Stats{} }
func (p *loopPort) Close() error           { return nil }
func (p *loopPort) Info() transport.Info {
	return transport.Info{Name: "loop", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 1500, MaxRun: 1}
}

// stepWorld is a device with both ends of a connection. The switches are before steps on a.
type stepWorld struct {
	*step.Play
	t    *testing.T
	dev  *roce.Device
	a, b *Conn
}

func newStepWorld(t *testing.T, p *step.Play) *stepWorld {
	w := &stepWorld{Play: p, t: t}
	loop := new(loopPort)
	var err error
	loop.gid, err = wire.ParseGID("10.0.0.1")
	require.NoError(t, err)
	w.dev, err = roce.Open("pipe:steps", &roce.Config{Wrap: func(port transport.Port) transport.Port {
		port.Close()
		return loop
	}})
	require.NoError(t, err)
	w.a, w.b = pair(t, w.dev, w.dev, &Config{SendBuffer: 4096, ReceiveBuffer: 4096, Depth: 16, KeepAlive: -1})
	p.Within(step.Object(w.a), unsafe.Sizeof(*w.a))
	for _, told := range w.a.wait.told {
		p.Within(step.Chan(told), 1)
	}
	return w
}

// reads adds a goroutine that reads so many bytes, and then has this error, or none.
func (w *stepWorld) reads(name string, c *Conn, n int, want error) {
	w.Task(name, func() {
		p := make([]byte, 4096)
		for n > 0 {
			k, err := c.Read(p)
			if n -= k; err != nil {
				step.Fail("%s: %v, %d bytes are missing", name, err, n)
			}
		}
		if want == nil {
			return
		}
		if k, err := c.Read(p); !errors.Is(err, want) {
			step.Fail("%s: %d bytes, %v, want %v", name, k, err, want)
		}
	})
}

// writes adds a goroutine that writes so many bytes.
func (w *stepWorld) writes(name string, c *Conn, n int) {
	w.Task(name, func() {
		if k, err := c.Write(make([]byte, n)); err != nil {
			step.Fail("%s: %d bytes, %v", name, k, err)
		}
	})
}

// lastPlay is the descriptor of the last play with one.
var lastPlay *signs

// loops adds a goroutine that has an event loop: it acts only when the descriptor says that it may.
func (w *stepWorld) loops(name string, c *Conn, until Readiness, act func() bool) {
	if lastPlay != nil {
		lastPlay.close() // its world was left as it was
	}
	_, err := c.FD()
	require.NoError(w.t, err)
	lastPlay = c.signs
	w.Task(name, func() {
		for sleeps := 0; ; sleeps++ {
			c.mu.Lock()
			shown := c.signs.shown
			c.mu.Unlock()
			if shown&until != 0 && act() {
				return
			}
			if sleeps == 100 {
				step.Fail("%s: the descriptor says 0x%x for two seconds, want 0x%x", name, shown, until)
			}
			steptime.Sleep(late)
		}
	})
}

// late is so late that who waits has looked for long enough, and sleeps.
const late = 20 * time.Millisecond

var stepStories = []struct {
	name             string
	switches, random int
	tell             func(w *stepWorld)
}{
	{"one reads, one writes, the peer answers", 3, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 1, nil)
		w.writes("writes", w.a, 1)
		w.Task("peer", func() {
			var p [1]byte
			w.b.Read(p[:])
			w.b.Write(p[:])
		})
	}},
	{"one reads until its deadline, one writes more than there is room for", 2, 1000, func(w *stepWorld) {
		w.reads("reads", w.a, 0, os.ErrDeadlineExceeded)
		w.writes("writes", w.a, 6000)
		w.reads("peer", w.b, 6000, nil)
		w.Task("sets", func() { w.a.SetReadDeadline(steptime.Now().Add(time.Millisecond)) })
	}},
	{"one reads what comes first, one writes more than there is room for", 2, 1000, func(w *stepWorld) {
		w.reads("reads", w.a, 1, nil)
		w.writes("writes", w.a, 6000)
		w.Task("peer", func() {
			w.b.Write(make([]byte, 1))
			steptime.Sleep(late)
			for n := 0; n < 6000; {
				k, err := w.b.Read(make([]byte, 4096))
				if n += k; err != nil {
					step.Fail("peer: %v", err)
				}
			}
		})
	}},
	{"one reads, one sets a deadline that has passed", 3, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 0, os.ErrDeadlineExceeded)
		w.Task("sets", func() { w.a.SetReadDeadline(steptime.Now()) })
	}},
	{"one sleeps, one sets a deadline that has passed", 3, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 0, os.ErrDeadlineExceeded)
		w.Task("sets", func() {
			steptime.Sleep(late)
			w.a.SetReadDeadline(steptime.Now())
		})
	}},
	{"one sleeps, one closes", 2, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 0, net.ErrClosed)
		w.reads("peer", w.b, 0, io.EOF)
		w.Task("closes", func() {
			steptime.Sleep(late)
			w.a.Close()
		})
	}},
	{"one reads, one closes", 3, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 0, net.ErrClosed)
		w.reads("peer", w.b, 0, io.EOF)
		w.Task("closes", func() {
			if err := w.a.Close(); err != nil {
				step.Fail("Close: %v", err)
			}
		})
	}},
	{"one has a loop, the peer writes and ends writing", 3, 300, func(w *stepWorld) {
		w.loops("loop", w.a, Readable, func() bool {
			_, err := w.a.TryRead(make([]byte, 1))
			return err == io.EOF
		})
		w.Task("peer", func() {
			w.b.Write(make([]byte, 2))
			w.b.CloseWrite()
		})
	}},
	{"one has a loop for room, one writes more than there is room for, the peer reads", 2, 300, func(w *stepWorld) {
		w.writes("writes", w.a, 6000)
		w.loops("loop", w.a, Writable, func() bool {
			_, err := w.a.TryWrite(make([]byte, 1))
			return err == nil
		})
		w.reads("peer", w.b, 6001, nil)
	}},
	{"one reads, one writes more than there is room for, one tries, the peer reads", 2, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 1, nil) // and leads
		w.writes("writes", w.a, 6000)
		w.Task("tries", func() {
			for _, err := w.a.TryWrite([]byte{1}); err != nil; _, err = w.a.TryWrite([]byte{1}) {
				steptime.Sleep(10 * time.Microsecond)
			}
		})
		w.Task("peer", func() {
			var got []byte
			for p := make([]byte, 4096); len(got) < 6001; {
				n, err := w.b.Read(p)
				if got = append(got, p[:n]...); err != nil {
					step.Fail("peer: %v", err)
				}
			}
			if at := bytes.IndexByte(got, 1); at != 0 && at != 6000 {
				step.Fail("peer: what was tried is at %d, in the midst of another Write", at)
			}
			w.b.Write(make([]byte, 1))
		})
	}},
	{"one has a loop, one sets a deadline that has passed", 3, 300, func(w *stepWorld) {
		w.loops("loop", w.a, Readable, func() bool {
			_, err := w.a.TryRead(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		})
		w.Task("sets", func() { w.a.SetReadDeadline(steptime.Now().Add(time.Millisecond)) })
	}},
	{"one has a loop, one reads, the peer writes", 2, 1000, func(w *stepWorld) {
		w.loops("loop", w.a, Readable, func() bool {
			_, err := w.a.TryRead(make([]byte, 1))
			return err == nil
		})
		w.reads("reads", w.a, 1, nil)
		w.Task("peer", func() {
			w.b.Write(make([]byte, 1))
			steptime.Sleep(3 * late) // whoever took that one has gone
			w.b.Write(make([]byte, 1))
		})
	}},
	{"one has a loop, the connection below ends", 3, 300, func(w *stepWorld) {
		w.loops("loop", w.a, HungUp, func() bool { return true })
		w.Task("below", func() {
			w.a.mu.Lock()
			defer w.a.mu.Unlock()
			w.a.life.on(goesBelow)
			w.a.wakeAll()
		})
	}},
	{"one has a loop, the peer closes", 3, 300, func(w *stepWorld) {
		w.loops("loop", w.a, HungUp, func() bool {
			_, err := w.a.TryRead(make([]byte, 1))
			return err == io.EOF
		})
		w.Task("peer", func() { w.b.Close() })
	}},
	{"one reads, one writes, the peer closes", 3, 300, func(w *stepWorld) {
		w.reads("reads", w.a, 0, io.EOF)
		w.writes("writes", w.a, 1)
		w.Task("peer", func() {
			var p [1]byte
			w.b.Read(p[:])
			w.b.Close()
		})
	}},
}
