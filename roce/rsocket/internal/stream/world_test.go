package stream

// A simulated world of two ends: their memory, two queue pairs that deliver in order and complete
// when they like, and applications that do what applications do. The oracle is the streams of
// bytes.

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var worldsFlag = flag.Int("rsocket.worlds", 1000, "simulated worlds of TestWorlds")

// posted is a work request on its way.
type posted struct {
	Request
	source []byte // bytes of the application's own
}

// Keys of the memory of an end.
const (
	tablesKey = 0x1000 + iota
	bufferKey
	directKey
)

// side is an end with its queue pair and its application.
type side struct {
	t     *testing.T
	rng   *rand.Rand
	name  string
	End   *End
	cfg   Config
	other *side

	send, receive, tables, direct []byte

	queue    []posted // posted and not delivered
	unacked  []posted // delivered and not acknowledged
	sent     []uint64 // completions of sends,
	received [][2]uint32
	receives int // receive requests that are posted

	stream  []byte // what the application writes
	wrote   int    // how much of it
	want    int    // how much it writes next, if there is room
	read    []byte // what it has read
	owning  uint64 // SendOwn is not over before Finished is this
	mayEnd  []func()
	refused int // messages that found no receive
	directs int // direct writes that it still makes
}

func newSide(t *testing.T, rng *rand.Rand, name string) *side {
	s := &side{t: t, rng: rng, name: name}
	half := 1 + rng.IntN(200)
	s.cfg = Config{SendBuffer: 1 + rng.IntN(400), ReceiveBuffer: 2 * half, SendDepth: ControlDepth + 1 + rng.IntN(20),
		Credits: 4 + rng.IntN(30), Maps: rng.IntN(3), BigEndian: rng.IntN(2) == 0,
		Packet: rng.IntN(2) * (1 + rng.IntN(50))}
	s.send, s.receive = make([]byte, s.cfg.SendBuffer), make([]byte, s.cfg.ReceiveBuffer)
	s.tables, s.direct = make([]byte, TablesSize(s.cfg.Maps)), make([]byte, 64)
	base := rng.Uint64() >> 8
	s.cfg.Tables, s.cfg.TablesAt, s.cfg.BufferAt = s.tables, SGE{base, tablesKey, 0}, SGE{base + 1<<20, bufferKey, 0}
	s.End = NewEnd(s.cfg)
	s.receives = ReceiveDepth(s.cfg.Credits)
	s.stream = make([]byte, rng.IntN(3000))
	for i := range s.stream {
		s.stream[i] = byte(rng.Uint32())
	}
	s.choose()
	s.directs = rng.IntN(30)
	return s
}

// start exchanges the connection data as bytes.
func (s *side) start() {
	data, err := ParseConnData(append(s.other.End.ConnData().Marshal(), 0, 0))
	require.NoError(s.t, err)
	s.End.Start(data)
	// 16 bits that count messages pass their end soon
	s.End.seq, s.other.End.seq16, s.other.End.told = 65500, 65500, 65500
	s.End.limit = 65500 + data.Credits&0xffff
}

// post is what the driver of an end does with a request; it may not have more than it said.
func (s *side) post(r *Request, source []byte) {
	p := posted{Request: *r, source: source}
	p.Inline = bytes.Clone(r.Inline)
	if n := r.Lead; n > 0 {
		lead := posted{Request: Request{From: r.From, Length: n, To: r.To, RKey: r.RKey}}
		if p.To, p.Length = p.To+uint64(n), p.Length-n; p.From >= 0 {
			p.From = (p.From + n) % len(s.send)
		} else {
			lead.source, p.source = p.source[:n], p.source[n:]
		}
		s.queue = append(s.queue, lead)
	}
	s.queue = append(s.queue, p)
	if n := len(s.queue) + len(s.unacked); n > s.cfg.SendDepth && !p.Signaled {
		unread := 0
		for _, q := range append(s.unacked, s.queue...) {
			if q.Signaled {
				unread++
			}
		}
		require.NotZero(s.t, unread, "the send queue is full of what never completes")
	}
}

// serve does what every call of the driver does.
func (s *side) serve() {
	var r Request
	for s.End.Control(&r) {
		s.post(&r, nil)
	}
	s.receives += s.End.Reposts()
}

// memory is what a remote address leads to.
func (s *side) memory(addr uint64, key uint32, n int) []byte {
	if n == 0 {
		return nil
	}
	base, mem := uint64(0), []byte(nil)
	switch key {
	case tablesKey:
		base, mem = s.cfg.TablesAt.Addr, s.tables
	case bufferKey:
		base, mem = s.cfg.BufferAt.Addr, s.receive
	case directKey:
		base, mem = 1000, s.direct
	}
	off := addr - base
	require.LessOrEqual(s.t, off+uint64(n), uint64(len(mem)), "%s: %d bytes to address 0x%x, key 0x%x", s.name, n, addr, key)
	return mem[off:][:n]
}

// deliver executes the oldest request of the other end.
func (s *side) deliver() {
	r := s.other.queue[0]
	source := r.source
	switch {
	case r.Inline != nil:
		source = r.Inline
	case r.From >= 0:
		source = append(bytes.Clone(s.other.send[r.From:]), s.other.send...)[:r.Length]
	}
	copy(s.memory(r.To, r.RKey, len(source)), source)
	if r.HasImm {
		s.receives--
		s.received = append(s.received, [2]uint32{r.Imm, uint32(len(source))})
	}
	s.other.queue, s.other.unacked = s.other.queue[1:], append(s.other.unacked, r)
}

func (s *side) canDeliver() bool {
	if len(s.other.queue) == 0 {
		return false
	}
	if s.other.queue[0].HasImm && s.receives == 0 { // an RNR NAK
		s.refused++
		return false
	}
	return true
}

// write sends a piece of the stream out of the send buffer.
func (s *side) write() {
	var r Request
	n := s.End.Send(s.want, &r)
	require.NotZero(s.t, n)
	for i := range n {
		s.send[(r.From+i)%len(s.send)] = s.stream[s.wrote+i]
	}
	s.wrote += n
	s.post(&r, nil)
	s.choose()
}

// exposed is memory that is written directly, and mark the byte that is written to a place there.
var exposed = Map{Offset: 7, SGE: SGE{1000, directKey, 64}}

func mark(at int) byte { return byte(at*3 + 1) }

// writeDirect sends marks out of the send buffer.
func (s *side) writeDirect() {
	s.directs--
	var r Request
	at := s.rng.IntN(64)
	n := s.End.SendAt(exposed.Offset+uint64(at), 1+s.rng.IntN(64), &r)
	if n == 0 {
		return // so many have no room
	}
	for i := range n {
		s.send[(r.From+i)%len(s.send)] = mark(at + i)
	}
	s.post(&r, nil)
}

// choose decides how much the application writes next.
func (s *side) choose() { s.want = 1 + s.rng.IntN(max(len(s.stream)-s.wrote, 1)) }

// writeOwn sends a piece of the stream from where it is.
func (s *side) writeOwn() {
	var r Request
	n := s.End.SendOwn(s.want, &r)
	require.NotZero(s.t, n)
	s.post(&r, s.stream[s.wrote:][:n])
	s.wrote += n
	s.owning = s.End.Begun()
	s.choose()
}

func (s *side) readSome() {
	from, n := s.End.Pending()
	n = 1 + s.rng.IntN(n)
	s.read = append(s.read, s.receive[from:][:n]...)
	for i := range n { // what was read may be used again
		s.receive[from+i] = 0xee
	}
	s.End.Consume(n)
}

// deeds are what may happen at this end now.
func (s *side) deeds() (all []func()) {
	may := func(yes bool, f func()) {
		if yes {
			all = append(all, f)
		}
	}
	more := s.wrote < len(s.stream)
	may(s.canDeliver(), s.deliver)
	may(len(s.unacked) > 0, func() {
		if r := s.unacked[0]; r.Signaled {
			s.sent = append(s.sent, r.ID)
		}
		s.unacked = s.unacked[1:]
	})
	may(len(s.sent) > 0, func() { s.End.Sent(s.sent[0]); s.sent = s.sent[1:] })
	may(len(s.received) > 0, func() {
		s.End.Received(s.received[0][0], s.received[0][1])
		s.received = s.received[1:]
	})
	may(more && s.End.CanSend(s.want) && s.owning <= s.End.Finished(), s.write)
	may(more && s.End.CanSend(s.want), s.writeOwn)
	may(s.End.Readable() > 0, s.readSome)
	may(s.End.MapsLeft() > 0 && s.End.canSendMessage(), func() {
		var r Request
		require.True(s.t, s.End.Tell(exposed, &r))
		s.post(&r, nil)
	})
	may(s.directs > 0 && s.End.Find(exposed.Offset).Length > 0 && s.End.CanSendAt(1), s.writeDirect)
	may(!more && s.End.State().MayWrite(), s.End.EndWrite)
	may(s.rng.IntN(50) == 0, s.End.KeepAlive)
	for i, f := range s.mayEnd {
		may(s.rng.IntN(100) == 0, func() { f(); s.mayEnd = append(s.mayEnd[:i:i], s.mayEnd[i+1:]...) })
	}
	return all
}

// world plays one world to its end.
func world(t *testing.T, seed uint64, rude bool) {
	rng := rand.New(rand.NewPCG(seed, 17))
	a, b := newSide(t, rng, "a"), newSide(t, rng, "b")
	a.other, b.other = b, a
	a.start()
	b.start()
	if rude {
		a.mayEnd = []func(){a.End.EndRead, a.End.EndWrite}
		b.mayEnd = []func(){b.End.EndRead, b.End.EndBoth}
	}
	for step := 0; ; step++ {
		require.Less(t, step, 1_000_000, "seed %d does not end", seed)
		a.serve()
		b.serve()
		deeds := append(a.deeds(), b.deeds()...)
		if len(deeds) == 0 {
			break
		}
		deeds[rng.IntN(len(deeds))]()
		for _, s := range []*side{a, b} {
			require.NoError(t, s.End.Err(), "seed %d", seed)
			require.True(t, bytes.HasPrefix(s.other.stream[:s.other.wrote], s.read), "seed %d: %s reads what was not written", seed, s.name)
		}
	}
	for _, s := range []*side{a, b} {
		if !rude {
			require.Equal(t, len(s.stream), s.wrote, "seed %d: %s could not write", seed, s.name)
			require.True(t, bytes.Equal(s.other.stream, s.read), "seed %d: %s has read %d of %d bytes: %+v", seed, s.name, len(s.read),
				len(s.other.stream), s.End)
		}
		require.Equal(t, Disconnected, s.End.State(), "seed %d: %s: %+v", seed, s.name, s.End)
		for at, b := range s.direct {
			require.True(t, b == 0 || b == mark(at), "seed %d: byte %d is 0x%02x", seed, at, b)
		}
		require.Zero(t, s.refused, "seed %d: %s had no receive", seed, s.name)
	}
}

// TestWorlds: whatever the sizes, the byte orders, and who is slow, the bytes arrive in their
// order, none is lost when nobody gives up, and both ends come to their end.
func TestWorlds(t *testing.T) {
	n := *worldsFlag
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		world(t, uint64(seed), seed%3 == 2)
	}
}
