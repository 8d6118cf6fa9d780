package cm

// The machine of a device: what it is made from, and its turn.
// Stages: configuration → network input → clock input → output (messages, deadline, events) → how a
// connection enters a state, and how it is forgotten.

import (
	"container/list"
	"errors"

	"github.com/goroce/goroce/wire"
)

// Errors of this package wrap one of these.
var (
	ErrInvalid = errors.New("invalid argument")               // [EINVAL]
	ErrState   = errors.New("not allowed in this state")      // [EINVAL]
	ErrInUse   = errors.New("service ID has a listener")      // [EADDRINUSE]
	ErrLimit   = errors.New("limit of the machine reached")   // [ENOMEM]
	ErrClosed  = errors.New("the connection has been closed") // [EINVAL]
)

// Config is what a machine is made from. Rand must be set; the rest may be zero.
type Config struct {
	Rand func() uint64 // unpredictable: communication IDs and first PSNs are drawn from it
	// CommID, if not nil, makes of a communication ID that was drawn one that the machine may have,
	// where it has a part of them only.
	CommID func(drawn uint32) uint32
	CAGUID uint64 // the device's node GUID: peers tell its connections by it
	// MTU is the largest path MTU that the device can do now; 0 means 4096 bytes. A REQ that wants
	// more is rejected. SetMTU changes it.
	MTU wire.MTU
	// AckDelay is the code (4.096 us * 2^n, 0..31) of the time that the device takes to
	// acknowledge; 0 means DefaultAckDelay.
	AckDelay uint8
	// RdAtomic is how many READs and ATOMICs a queue pair of the device can have outstanding, as
	// initiator and as responder, 1..254; 0 means 128.
	RdAtomic    uint8
	MaxConns    int // 0 means DefaultMaxConns
	MaxTimeWait int // 0 means DefaultMaxTimeWait
}

// Path is where the messages of a connection go, and afterwards its packets: what an address handle
// is made from.
type Path struct {
	Local, Remote wire.GID
	TrafficClass  uint8
	HopLimit      uint8  // 0 means 64
	SL            uint8  // 0..15; RoCEv2 has no field for it without a VLAN
	FlowLabel     uint32 // 20 bits
}

// Message is a management datagram that is to leave: by a UD SEND from queue pair 1 to queue pair
// 1, with the Q_Key 0x80010000 (section 9.1).
type Message struct {
	Path Path
	MAD  wire.MAD
}

// Machine is the connection manager of one device. One caller at a time drives it and all that is
// made from it; doc.go has the contract.
type Machine struct {
	cfg   Config
	agent uint64 // upper half of our transaction IDs
	now   Time   // as the last caller that told the time has it

	conns     map[uint32]*Conn // by our communication ID; queries by their request ID
	byPeer    map[peerID]*Conn
	byQPN     map[peerQPN]*Conn
	listeners map[serviceKey]*Listener
	held      list.List // connections that have ended and are remembered, the oldest first
	timers    timers

	in     received
	out    queue[message]
	events queue[Event]
	stats  Stats
}

// message waits to be sent.
type message struct {
	path Path
	mad  *wire.MAD // never changed once it is here
}

// peerID is how a peer's copies are known: its address, its device, and its communication or
// request ID.
type peerID struct {
	gid   wire.GID
	guid  uint64
	id    uint32
	query bool
}

// peerQPN is a peer's queue pair, which is in one connection only.
type peerQPN struct {
	gid  wire.GID
	guid uint64
	qpn  uint32
}

// New makes a machine. It panics if cfg.Rand is nil.
func New(cfg Config) *Machine {
	or := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	or(&cfg.MaxConns, DefaultMaxConns)
	or(&cfg.MaxTimeWait, DefaultMaxTimeWait)
	if cfg.AckDelay == 0 {
		cfg.AckDelay = DefaultAckDelay
	}
	if cfg.RdAtomic == 0 {
		cfg.RdAtomic = 128
	}
	m := &Machine{cfg: cfg, agent: cfg.Rand() << 32, conns: map[uint32]*Conn{}, byPeer: map[peerID]*Conn{},
		byQPN: map[peerQPN]*Conn{}, listeners: map[serviceKey]*Listener{}}
	m.SetMTU(cfg.MTU)
	return m
}

// SetMTU changes the largest path MTU that the device can do; 0 means 4096 bytes. Connections that
// exist keep theirs.
func (m *Machine) SetMTU(mtu wire.MTU) {
	if m.cfg.MTU = mtu; !mtu.Valid() {
		m.cfg.MTU = wire.MTU4096
	}
}

// HandleMAD takes a management datagram that came to queue pair 1, without its GRH. from is how the
// answer goes: its Remote is the address that sent it. The bytes are lent for the call. Whatever
// they are, the worst that comes of them is a counted drop.
func (m *Machine) HandleMAD(now Time, from Path, mad []byte) {
	m.now = now
	if len(mad) != wire.MADLen || !(*wire.MAD)(mad).IsCM() {
		m.drop(DropNotCM)
		return
	}
	in := (*wire.MAD)(mad)
	i := int(in.Attribute()) - int(wire.CMAttrREQ)
	if i < 0 || i >= len(handlers) {
		m.drop(DropNotCM)
		return
	}
	m.stats.Received[i]++
	from = from.back()
	m.in.from, m.in.tid, m.in.attr, m.in.options = from, in.TransactionID(), in.Attribute(), in.AttributeModifier()
	handlers[i](m, in)
}

// HandleTimeout does what is due; a call too many is harmless.
func (m *Machine) HandleTimeout(now Time) {
	m.now = now
	for c := m.timers.expired(now); c != nil; c = m.timers.expired(now) {
		if traits[c.state].wait != waitEnd && c.tries > 0 {
			m.step(c, timeAgain, nil)
		} else {
			m.step(c, timeOver, nil)
		}
	}
}

// PollTimeout returns when HandleTimeout is to be called next, or Never.
func (m *Machine) PollTimeout() Time { return m.timers.next() }

// PollTransmit takes the next message that is to leave; false if there is none.
func (m *Machine) PollTransmit(out *Message) bool {
	msg, ok := m.out.pop()
	if ok {
		out.Path, out.MAD = msg.path, *msg.mad
	}
	return ok
}

// PollEvent takes the next event; false if there is none. The caller owns all of it. Of a
// connection that was closed meanwhile there is none.
func (m *Machine) PollEvent() (Event, bool) {
	for {
		e, ok := m.events.pop()
		if !ok || !e.conn().closed {
			if ok {
				e.conn().heard = true
			}
			return e, ok
		}
	}
}

// HasEvents tells whether PollEvent may have an event.
func (m *Machine) HasEvents() bool { return m.events.len() > 0 }

// Len returns how many connections and queries the machine knows: those in use, and those that
// have ended and are remembered.
func (m *Machine) Len() (inUse, remembered int) {
	return len(m.conns) - m.held.Len(), m.held.Len()
}

// send queues a message of a connection.
func (m *Machine) send(c *Conn, mad *wire.MAD) { m.sendTo(c.path, mad) }

func (m *Machine) sendTo(path Path, mad *wire.MAD) {
	if m.out.len() >= maxQueued {
		m.drop(DropFull)
		return
	}
	m.stats.Sent[mad.Attribute()-wire.CMAttrREQ]++
	m.out.push(message{path, mad})
}

// tell queues an event of a connection.
func (m *Machine) tell(c *Conn, e Event) {
	e.Conn = c
	if c.query {
		e.Conn, e.Query = nil, (*Query)(c)
	}
	m.events.push(e)
}

// add gives a connection an unused communication ID, drawn at random: a forger that speaks for a
// peer without seeing our packets has to guess it, and the peer's own as soon as that is known
// (find). What can be said without our ID, by a REQ, ends nothing.
func (m *Machine) add(c *Conn, s State) {
	c.m = m
	for c.localID == 0 || m.conns[c.localID] != nil {
		if c.localID = uint32(m.cfg.Rand()); m.cfg.CommID != nil {
			c.localID = m.cfg.CommID(c.localID)
		}
	}
	m.conns[c.localID] = c
	m.enter(c, s)
}

// enter is how a connection changes its state: what a state is like (traits) begins to apply.
func (m *Machine) enter(c *Conn, next State) {
	m.oblige(c, next)
	c.state = next
	switch traits[next].wait {
	case waitNothing:
		m.timers.set(c, Never)
	case waitAnswer:
		m.timers.set(c, m.now+c.timeout)
	case waitService:
		m.timers.set(c, m.now+c.service+c.timeout)
	case waitEnd:
		m.timers.set(c, m.now+c.memory(next))
		if c.held == nil {
			c.held = m.held.PushBack(c)
		}
		for m.held.Len() > m.cfg.MaxTimeWait {
			m.step(m.held.Front().Value.(*Conn), timeOver, nil)
		}
	}
	switch next {
	case StateIdle:
		m.release(c)
	case StateRefused: // the peer may try again from the same queue pair
		m.freeQPN(c)
	}
}

// oblige gives a request its places at its listener, and takes them back when it is answered and
// when its peer has said the last word.
func (m *Machine) oblige(c *Conn, next State) {
	l := c.listener
	if l == nil {
		return
	}
	after := traits[next].owes
	if c.open == nil {
		c.open, c.asked = l.open.Take(c.path.Remote, c), l.asked.Take(c.path.Remote, c)
	}
	if after != owesApplication {
		c.asked.GiveBack()
		c.asked = nil
	}
	if after == owesNobody {
		c.open.GiveBack()
		c.open, c.listener = nil, nil
	}
}

// release forgets a connection.
func (m *Machine) release(c *Conn) {
	if c.held != nil {
		m.held.Remove(c.held)
		c.held = nil
	}
	c.sent = nil
	m.freeQPN(c)
	if m.byPeer[c.peer] == c {
		delete(m.byPeer, c.peer)
	}
	delete(m.conns, c.localID)
}

func (m *Machine) freeQPN(c *Conn) {
	if q := c.peerQPN(); m.byQPN[q] == c {
		delete(m.byQPN, q)
	}
}

// back is the path as an answer takes it: the hops that a packet has behind it say nothing about
// those of its answer.
func (p Path) back() Path {
	p.HopLimit = 64
	return p
}
