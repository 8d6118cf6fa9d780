package qptest

// A node: an engine with its memory, and the turn that a lane of the stack would take. Stages of a
// turn: one input (frames, posted work, time) → packets into links → completions published → events
// → everything checked. A node without an engine is a raw peer: its packets are written by hand.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// NodeConfig describes a node. Zero values give a node with one IPv4 address.
type NodeConfig struct {
	Name   string
	Addr   string   // 10.0.0.1, 10.0.0.2, ... if empty
	More   []string // further rows of the GID table; "" is an empty one
	Raw    bool     // no engine
	Mute   bool     // what comes is thrown away: the oracle knows of its packets, which others make
	Engine qp.Config
	// Batch is how many frames a call of PollTransmit may fill (default 64); Body their average
	// size.
	Batch, Body int
	// Budget is how many frames the port takes in one turn (0: all); the next turn is Pace later.
	Budget int
	Pace   qp.Time
	// MaxRun makes the port one that numbers consecutive frames (UDP_SEGMENT).
	MaxRun int
	// SynthHead makes the port one that does not see IPv4 Identification (UDP socket).
	SynthHead bool
	// Hardware are habits of NICs, which change what the engine sends.
	Hardware Hardware
}

// Node is a host in the world.
type Node struct {
	W         *World
	Index     int
	Name      string
	GID       wire.GID   // its first address
	GIDs      []wire.GID // the rows of its GID table
	Engine    *qp.Engine // nil: raw peer
	Memory    *mr.Table
	PD        mr.PD
	Events    []qp.Event   // asynchronous events not looked at yet
	Notified  []*qp.CQ     // armed queues that got a completion
	PortDrops int          // packets that were no frames
	Recorder  *qp.Recorder // of the engine, if World.Records says so

	// NoPoll leaves completions in their queues.
	NoPoll bool
	// Syncs, if not nil, gets what FLUSHes want on storage, for a script to sync.
	Syncs *[]qp.Sync
	// Synced counts those that the node has synced itself.
	Synced int

	cfg       NodeConfig
	reader    *mr.Reader
	regions   []*Region
	cqs       []*qp.CQ
	list      []*QP
	srqs      []*SRQ
	shared    map[uint64]*SRQ // by WRID: where it was posted
	qps       map[uint32]*QP
	remotes   map[remote]*QP
	batch     *wire.Batch
	frames    []wire.Frame
	arrivals  []*Flight
	wcs       [32]qp.WC
	deadline  qp.Time
	kicked    bool
	memory    int             // bytes registered
	unchecked int             // events since memory was compared
	slow      *rand.Rand      // how long storage takes
	over      map[uint64]bool // WRIDs that have completed, where the oracle is off
	habits    *habits         // nil: none
	pool      pool            // of places for packets behind gaps
}

// storageMost is how many syncs a node's storage has under way, half of them of one peer.
const storageMost = 4

// remote names a connected queue pair by where its packets go.
type remote struct {
	gid wire.GID
	qpn uint32
}

// AddNode adds a node.
func (w *World) AddNode(cfg NodeConfig) *Node {
	i := len(w.Nodes)
	if cfg.Name == "" {
		cfg.Name = string(rune('A' + i))
	}
	if cfg.Addr == "" {
		cfg.Addr = fmt.Sprintf("10.0.0.%d", i+1)
	}
	if cfg.Batch == 0 {
		cfg.Batch = 64
	}
	if cfg.Body == 0 {
		cfg.Body = wire.FullBody
	}
	n := &Node{W: w, Index: i, Name: cfg.Name, GIDs: rowsOf(cfg), cfg: cfg, deadline: qp.Never,
		over: map[uint64]bool{}, shared: map[uint64]*SRQ{}, qps: map[uint32]*QP{}, remotes: map[remote]*QP{}}
	w.Nodes = append(w.Nodes, n)
	n.GID = n.GIDs[0]
	for _, g := range n.GIDs {
		if !g.IsZero() {
			w.byGID[g] = n
		}
	}
	if cfg.Raw {
		return n
	}
	if cfg.Hardware != (Hardware{}) {
		n.habits = &habits{rnd: w.rand("hardware", i, 0), held: map[*QP]*heldAck{}}
	}
	n.Memory = mr.NewTable(w.rand("keys", i, 0).Uint64)
	n.reader = n.Memory.NewReader()
	n.PD, _ = n.Memory.AllocPD()
	e := cfg.Engine
	e.Memory, e.Rand, e.GIDs = n.Memory, w.rand("engine", i, 0).Uint64, n.GIDs
	if e.Storage == nil {
		e.Storage = qp.NewStorage(storageMost, nil)
	}
	if w.Records > 0 {
		n.Recorder = qp.NewRecorder(w.Records)
		e.Recorder = n.Recorder
	}
	if n.pool.size = e.Kept; e.Kept == 0 {
		n.pool.size = maxKept
	}
	n.Engine = qp.NewEngine(e)
	n.batch = wire.NewBatch(cfg.Batch, cfg.Body)
	if cfg.MaxRun > 1 {
		n.batch.MaxRun(cfg.MaxRun)
	}
	return n
}

// Even says whether the engine cuts long messages into packets of one size.
func (n *Node) Even() bool { return n.cfg.Engine.EvenPackets }

// String returns the node's name.
func (n *Node) String() string { return n.Name }

// ruins are what is left of a packet that was lent.
var ruins = bytes.Repeat([]byte{0xdd}, 8192)

// deliver hands arrived packets to the engine, then to the oracle, and then ruins their bytes: they
// were only lent.
func (n *Node) deliver(batch []*Flight) {
	if n.Engine == nil || n.cfg.Mute {
		return
	}
	n.frames = n.frames[:0]
	for _, f := range batch {
		fr, why := wire.SplitFrame(f.pkt)
		if why != wire.DropNone {
			n.PortDrops++
			continue
		}
		if n.cfg.SynthHead && len(fr.Head) == wire.Head4Len {
			h := (*wire.IPv4)(fr.Head)
			h.SetIdentification(0)
			h.UpdateChecksum()
			fr.Flags |= wire.FrameSynthHead
		}
		n.frames = append(n.frames, fr)
	}
	if len(n.frames) == 0 {
		return
	}
	if apps := n.W.Applications; apps != nil {
		for _, f := range batch {
			apps.Arrives(n, f.pkt)
		}
	}
	n.turn(func() {
		if n.W.Trace != nil {
			for i := range n.frames {
				n.W.trace("%s ◀ %s", n, wire.AppendPacket(nil, &n.frames[i]))
			}
		}
		n.Engine.HandleFrames(n.W.Now, n.frames)
		for _, f := range batch {
			if !f.broken && n.W.judges() {
				n.W.arrived(n, f)
			}
			for rest := f.pkt; len(rest) > 0; {
				rest = rest[copy(rest, ruins):]
			}
		}
	})
}

func (n *Node) timeout() { n.turn(func() { n.Engine.HandleTimeout(n.W.Now) }) }

// Kick gives the node a turn without input but what was posted.
func (n *Node) Kick() {
	if n.Engine != nil {
		n.turn(func() { n.Engine.HandlePosted(n.W.Now) })
	}
}

// Control runs a control verb and then a turn, as it may have given the engine something to do.
func (n *Node) Control(verb func() error) (err error) {
	n.turn(func() { err = verb() })
	return err
}

func (n *Node) turn(input func()) {
	n.reader.Enter()
	input()
	n.transmit()
	n.Engine.Publish()
	n.reader.Exit()
	for {
		ev, ok := n.Engine.PollEvent()
		if !ok {
			break
		}
		n.noteEvent(&ev)
		n.Events = append(n.Events, ev)
	}
	n.storage()
	for {
		cq, ok := n.Engine.PollNotify()
		if !ok {
			break
		}
		n.Notified = append(n.Notified, cq)
	}
	if apps := n.W.Applications; apps != nil {
		apps.Turned(n)
	} else {
		n.checkMemory()
		n.harvest()
		n.checkQueues()
	}
	n.deadline = n.Engine.PollTimeout()
}

// storage takes what FLUSHes want to have synced, and has it done after a while.
func (n *Node) storage() {
	for {
		s, ok := n.Engine.PollSync()
		if !ok {
			return
		}
		var stream *stream
		if q, ok := s.QP().Context().(*QP); ok && n.W.judges() && q.modelled() {
			stream = q.in
			stream.syncs(s.Mem)
		}
		if n.Syncs != nil {
			*n.Syncs = append(*n.Syncs, s)
			continue
		}
		if n.slow == nil {
			n.slow = n.W.rand("storage", n.Index, 0)
		}
		takes := qp.Time(1 + n.slow.IntN(int(100*Microsecond)))
		if n.slow.IntN(8) == 0 { // longer than some peers wait
			takes *= 100
		}
		n.W.After(takes, func() {
			if stream != nil {
				stream.synced(s.Mem)
			}
			n.Synced++
			n.turn(func() { n.Engine.Synced(n.W.Now, s, true) })
		})
	}
}

// transmit empties the engine into the links as far as the port takes frames.
func (n *Node) transmit() {
	w, sent := n.W, 0
	for n.cfg.Budget == 0 || sent < n.cfg.Budget {
		n.batch.Reset()
		k := n.Engine.PollTransmit(w.Now, n.batch)
		frames := n.batch.Frames()
		if k != len(frames) {
			w.Fail("%s: PollTransmit returned %d but wrote %d frames", n, k, len(frames))
		}
		if k == 0 {
			if !n.Engine.Idle() {
				w.Fail("%s: the engine has due work (Idle is false) but sends nothing", n)
			}
			return
		}
		for i := range frames {
			w.leave(n, &frames[i])
		}
		if sent += k; sent > 1<<20 {
			w.Fail("%s: livelock: the engine sends without end at one moment", n)
			return
		}
	}
	if !n.Engine.Idle() && !n.kicked {
		n.kicked = true
		w.After(max(n.cfg.Pace, 1), func() { n.kicked = false; n.Kick() })
	}
}

// leave checks a frame that an engine sends and puts a copy of it on the link, or for a multicast
// group on several.
func (w *World) leave(n *Node, f *wire.Frame) {
	if w.Capture != nil {
		w.Capture.add(w.Now, n, f)
	}
	w.Digest.packet(w.Now, n, f)
	if w.Trace != nil {
		w.trace("%s ▶ %s", n, wire.AppendPacket(nil, f))
	}
	if src := f.Src(); !slices.Contains(n.GIDs, src) && w.byGID[src] == n {
		return // the address has gone: it comes no further than the port
	}
	w.departed(n, f)
	dst := f.Dst()
	if dst.IsMulticast() {
		for _, to := range w.groups[dst] {
			w.sendOn(n, w.flight(n, to, f))
		}
	} else if to := w.byGID[dst]; to != nil {
		w.sendOn(n, w.flight(n, to, f))
	}
}

// sendOn lets a packet of node n go as it is, or as a NIC would have made it.
func (w *World) sendOn(n *Node, f *Flight) {
	if n.habits != nil {
		w.disguise(n, f)
		return
	}
	w.dispatch(f)
}

func (w *World) dispatch(f *Flight) {
	if w.Hold {
		w.held = append(w.held, f)
		return
	}
	w.Link(f.from, f.to).send(f)
}

// CreateCQ makes a completion queue that the node polls after every turn.
func (n *Node) CreateCQ(cqe int) *qp.CQ {
	cq, err := n.Engine.CreateCQ(cqe, nil)
	if err != nil {
		panic(err)
	}
	n.cqs = append(n.cqs, cq)
	return cq
}

// harvest polls all completion queues and hands each completion to its queue pair.
func (n *Node) harvest() {
	if n.NoPoll {
		return
	}
	for _, cq := range n.cqs {
		for {
			k := cq.Poll(n.wcs[:])
			for i := range n.wcs[:k] {
				n.completed(cq, &n.wcs[i])
			}
			if k < len(n.wcs) {
				break
			}
		}
	}
}

func (n *Node) completed(cq *qp.CQ, wc *qp.WC) {
	n.W.Digest.Completion(n.W.Now, n, wc)
	n.W.trace("%s completion of QP%06x: %#x %v %v", n, wc.QPN, wc.WRID, wc.Opcode, wc.Status)
	q := n.qps[wc.QPN]
	if q == nil {
		n.W.Fail("%s: completion for unknown QP 0x%06x: %+v", n, wc.QPN, *wc)
		return
	}
	if wc.WRID&recvBit != 0 {
		q.RecvWCs = append(q.RecvWCs, *wc)
		due := q.recvCQ
		if s := n.shared[wc.WRID]; s != nil {
			if s.CQ != nil {
				due = s.CQ
			}
			if s.outstanding--; s.OnReceive != nil {
				id := wc.WRID
				n.W.After(0, func() { s.OnReceive(id) })
			}
		}
		if q.OnReceive != nil {
			n.W.After(0, q.OnReceive)
		}
		if cq != due {
			n.W.Fail("%s: receive completion in another queue than the receive queue's", q)
		}
	} else {
		q.SendWCs = append(q.SendWCs, *wc)
		n.W.lastSend = n.W.Now
		if q.OnSend != nil {
			n.W.After(0, q.OnSend)
		}
		if cq != q.sendCQ {
			n.W.Fail("%s: send completion in another queue than the send queue's", q)
		}
	}
	if n.W.judges() {
		q.completion(wc)
	} else if n.over[wc.WRID] {
		n.W.Fail("%s: a second completion for WRID %#x", q, wc.WRID)
	} else {
		n.over[wc.WRID] = true
	}
}

// checkQueues asks every queue pair whether all that must have completed has.
func (n *Node) checkQueues() {
	if n.W.Unchecked || n.NoPoll {
		return
	}
	for _, q := range n.order() {
		q.checkCompleted()
	}
	for _, s := range n.srqs {
		s.check()
	}
}

// JoinOnce is Join, unless the node has joined.
func (n *Node) JoinOnce(group wire.GID) {
	if !slices.Contains(n.W.groups[group], n) {
		n.Join(group)
	}
}

// Join makes the node receive packets for a multicast group; the queue pairs attach themselves.
func (n *Node) Join(group wire.GID) { n.W.groups[group] = append(n.W.groups[group], n) }
