package soft

// The port of the simulation: a wire to the peer's, on which packets take a few microseconds, and
// what transport.Watched promises, with the goroutines that wait.

import (
	"sync"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// drivePort keeps the books of what a peer has asked to be acknowledged, too.
type drivePort struct {
	w    *driveWorld
	gid  GID
	peer *drivePort

	mu       sync.Mutex
	changed  sync.Cond
	in       []*wire.Batch // what has arrived; a Recv takes the first
	relieved bool          // the relief has the port
	rung     [2]bool       // a Rouse that no Watch has seen, by Watcher
	returns  [2]int        // of Watch, by Watcher
	timer    *time.Timer   // the alarm
	gone     bool          // it has gone off

	of      map[uint32]uint32 // the peer's queue pair of one of ours
	asks    map[ask]time.Time // not acknowledged yet
	slowest time.Duration     // the longest that one had to wait
}

// ask is a packet that the peer wants to be acknowledged.
type ask struct {
	qp  uint32 // the peer's
	psn wire.PSN
}

func newDrivePort(w *driveWorld, addr string) *drivePort {
	p := &drivePort{w: w, of: map[uint32]uint32{}, asks: map[ask]time.Time{}}
	p.changed.L = &p.mu
	var err error
	p.gid, err = wire.ParseGID(addr)
	must(w, err)
	return p
}

func (p *drivePort) meets(own, peer *QP) { p.of[own.QPN()] = peer.QPN() }

func (p *drivePort) wakes() [2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.returns
}

// Send puts a copy on the wire.
func (p *drivePort) Send(b *wire.Batch) (int, error) {
	on := wire.NewBatch(b.Len(), wire.FullBody)
	p.mu.Lock()
	for i := range b.Frames() {
		on.Append(&b.Frames()[i])
		p.acknowledges((*wire.BTH)(b.Frames()[i].Body))
	}
	p.mu.Unlock()
	time.AfterFunc(p.w.latency+p.w.upTo(time.Microsecond), func() { p.peer.arrives(on) })
	return b.Len(), nil
}

// acknowledges closes the books on what a packet that leaves acknowledges.
func (p *drivePort) acknowledges(h *wire.BTH) {
	op := h.Opcode()
	if op != wire.RCAcknowledge && (op < wire.RCReadResponseFirst || op > wire.RCReadResponseOnly) {
		return
	}
	for a, since := range p.asks {
		if a.qp == h.DestQP() && !h.PSN().Before(a.psn) {
			p.slowest = max(p.slowest, time.Since(since))
			delete(p.asks, a)
		}
	}
}

func (p *drivePort) arrives(b *wire.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in = append(p.in, b)
	for i := range b.Frames() {
		if h := (*wire.BTH)(b.Frames()[i].Body); h.AckReq() && h.Opcode() < wire.RCReadResponseFirst {
			p.asks[ask{p.of[h.DestQP()], h.PSN()}] = time.Now()
		}
	}
	p.changed.Broadcast()
}

func (p *drivePort) Recv(frames []wire.Frame) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.in) > 0 {
		n = copy(frames, p.in[0].Frames())
		p.in = p.in[1:]
	}
	return n, nil
}

func (p *drivePort) SetAlarm(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.gone = d == 0
	if d > 0 {
		p.timer = time.AfterFunc(d, func() {
			p.mu.Lock()
			p.gone = true
			p.changed.Broadcast()
			p.mu.Unlock()
		})
	}
	p.changed.Broadcast()
}

func (p *drivePort) Watch(who transport.Watcher) error {
	p.mu.Lock()
	for !p.rung[who] && !(p.relieved == (who == transport.Relief) && (len(p.in) > 0 || p.gone)) {
		p.changed.Wait()
	}
	p.rung[who] = false
	p.returns[who]++
	p.mu.Unlock()
	time.Sleep(p.w.upTo(3 * time.Microsecond)) // waking up takes time
	return nil
}

func (p *drivePort) Rouse(who transport.Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rung[who] = true
	p.changed.Broadcast()
}

func (p *drivePort) hands(relieved bool) {
	p.mu.Lock()
	p.relieved = relieved
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *drivePort) Take()  { p.hands(true) }
func (p *drivePort) Leave() { p.hands(false) }
func (p *drivePort) Wake()  { p.Rouse(transport.Background) }
func (p *drivePort) Wait(d time.Duration) error {
	p.SetAlarm(d)
	return p.Watch(transport.Background)
}
func (p *drivePort) Stats() transport.Stats { return transport.Stats{} }
func (p *drivePort) Close() error {
	p.SetAlarm(-1)
	return nil
}
func (p *drivePort) Info() transport.Info {
	return transport.Info{Name: "drive", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 65536, MaxRun: 1}
}
