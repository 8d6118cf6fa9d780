package stream

// A simulated world of one end whose other end keeps to no rule: it writes the tables at any time,
// also while they are read, says what it likes, and acknowledges what it likes. The oracle is what
// the end may ask of its own side whatever the other one does: its memory, its queue, its turns.

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// fickle is the byte order of memory that changes as soon as it was read: who reads twice, to check
// and then to use, has other bytes the second time.
type fickle struct {
	binary.ByteOrder
	rng  *rand.Rand
	seen map[*byte]bool // in this call of the end
	t    *testing.T
}

func (f *fickle) read(b []byte) {
	require.False(f.t, f.seen[unsafe.SliceData(b)], "the end reads twice what its peer can write in between")
	f.seen[unsafe.SliceData(b)] = true
	for i := range b {
		b[i] = byte(f.rng.Uint32())
	}
}

func (f *fickle) Uint32(b []byte) uint32 {
	defer f.read(b[:4])
	return f.ByteOrder.Uint32(b)
}

func (f *fickle) Uint64(b []byte) uint64 {
	defer f.read(b[:8])
	return f.ByteOrder.Uint64(b)
}

// flight is a request that was posted.
type flight struct {
	id       uint64
	signaled bool
	slots    int // of the send queue
	from, n  int // of the send buffer
}

// besieged is an end in the hands of its peer.
type besieged struct {
	*side
	order   *fickle
	flights []flight // posted and not given back
	said    int      // bytes of the stream, by messages that were taken
	taken   int      // bytes that the application has read
	posted  int      // receives
}

func besiege(t *testing.T, rng *rand.Rand) *besieged {
	b := &besieged{side: newSide(t, rng, "besieged")}
	b.order = &fickle{b.End.order, rng, map[*byte]bool{}, t}
	b.End.order = b.order
	b.posted = ReceiveDepth(b.cfg.Credits)
	data, err := ParseConnData(ConnData{BigEndian: b.any(2) == 0, Credits: uint16(b.any(40)), Maps: b.any(3),
		SGL:    SGE{rng.Uint64(), rng.Uint32(), 2 + uint32(b.any(3))},
		Buffer: SGE{rng.Uint64(), rng.Uint32(), b.length()}}.Marshal())
	require.NoError(t, err)
	b.End.Start(data)
	return b
}

func (b *besieged) any(n int) int { return b.rng.IntN(n) }

// length is of a buffer that the peer tells of: one byte, some, or all that can be said.
func (b *besieged) length() uint32 {
	return [...]uint32{1, 1 + uint32(b.any(300)), 1<<32 - 1}[b.any(3)]
}

// offset is one that the peer has told of, if it has told of any.
func (b *besieged) offset() uint64 {
	if n := len(b.End.theirs); n > 0 {
		return b.End.theirs[b.any(n)].Offset + uint64(b.any(2))
	}
	return b.rng.Uint64()
}

// take notes a request, and holds it against what is under way.
func (b *besieged) take(r *Request) {
	f := flight{id: r.ID, signaled: r.Signaled, slots: 1, from: r.From, n: r.Length}
	if r.Lead > 0 {
		f.slots++
	}
	require.Less(b.t, r.Lead, max(r.Length, 1))
	require.LessOrEqual(b.t, r.Length, MaxOwn)
	if f.from < 0 { // not of the send buffer
		f.n = 0
	}
	slots, bytes := f.slots, f.n
	for _, g := range b.flights {
		slots += g.slots
		bytes += g.n
		if f.n > 0 && g.n > 0 { // the later one begins behind the earlier one, round the ring
			require.GreaterOrEqual(b.t, (f.from-g.from+b.cfg.SendBuffer)%b.cfg.SendBuffer, min(g.n, b.cfg.SendBuffer-f.n),
				"bytes on their way are overwritten")
		}
	}
	require.LessOrEqual(b.t, slots, b.cfg.SendDepth, "the send queue")
	require.LessOrEqual(b.t, bytes, b.cfg.SendBuffer, "the send buffer")
	b.flights = append(b.flights, f)
}

// says is a message of the peer: mostly one that the end might take.
func (b *besieged) says() {
	if b.posted == 0 {
		return // its device refuses it
	}
	b.posted--
	n := uint32(b.any(1 + b.End.open + b.any(50)/49))
	update := opUpdate.with(b.rng.Uint32())
	control := opControl.with([...]uint32{sayDisconnect, sayShutdown, sayShutdown, sayKeepalive, 9}[min(b.any(20), 4)])
	m := [...][2]uint32{{opData.with(n), n - uint32(b.any(2)*b.any(int(n+1)))}, {opData.with(0), 0}, {update, SGESize}, {update, 0},
		{opIOMap.with(uint32(b.any(max(b.cfg.Maps, 1)))), MapSize}, {control, 0}, {b.rng.Uint32(), b.rng.Uint32() >> b.any(32)}}
	k := [...]int{0, 0, 0, 1, 2, 3, 3, 4, 5, 6}[b.any(9)+b.any(50)/49]
	if k == 2 && b.End.published-b.End.taken == Entries && b.any(20) > 0 || k == 4 && b.cfg.Maps == 0 && b.any(20) > 0 {
		k = 0 // it would be the end
	}
	there, read := b.End.there, b.End.read
	b.End.Received(m[k][0], m[k][1])
	b.said += b.End.there + b.End.read - there - read
}

// acknowledges completes the oldest request that is signaled, and with it those before.
func (b *besieged) acknowledges() {
	for i, f := range b.flights {
		if f.signaled {
			b.flights = b.flights[i+1:]
			b.End.Sent(f.id)
			return
		}
	}
}

// reads is the application.
func (b *besieged) reads() {
	if from, n := b.End.Pending(); n > 0 {
		require.LessOrEqual(b.t, from+n, b.cfg.ReceiveBuffer)
		n = 1 + b.any(n)
		b.End.Consume(n)
		b.taken += n
	}
}

// sends is a deed of the application that makes a request, or has to wait.
func (b *besieged) sends(deed func(r *Request) bool) func() {
	return func() {
		var r Request
		full := b.End.seq == b.End.limit
		if seq := b.End.seq; deed(&r) {
			require.False(b.t, full && b.End.seq != seq, "a message without a credit")
			b.take(&r)
		}
	}
}

// TestHostileWorlds: whatever the peer does, an end keeps to its memory and its queue, reads each
// thing that the peer can change once, owes no endless answers, and is not over twice.
func TestHostileWorlds(t *testing.T) {
	n := *worldsFlag / 2
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 23))
		b := besiege(t, rng)
		deeds := []func(){
			b.says, b.says, b.says, b.says, b.acknowledges, b.acknowledges, b.reads, b.reads,
			func() { b.tables[b.any(len(b.tables))] = byte(rng.Uint32()) },
			func() { clear(b.tables) },
			b.sends(func(r *Request) bool { return b.End.Send(1+b.any(500), r) > 0 }),
			b.sends(func(r *Request) bool { return b.End.SendOwn(1+b.any(1<<30), r) > 0 }),
			b.sends(func(r *Request) bool { return b.End.WriteAt(b.offset(), 1+b.any(1<<30), r) > 0 }),
			b.sends(func(r *Request) bool { return b.End.Tell(Map{}, r) }),
			b.End.KeepAlive,
			func() {
				if b.any(30) == 0 {
					[]func(){b.End.EndWrite, b.End.EndRead, b.End.EndBoth, func() { b.End.Gone(ErrProtocol) }}[b.any(4)]()
				}
			},
		}
		for range 300 {
			was := b.End.State()
			clear(b.order.seen)
			deeds[b.any(len(deeds))]()
			b.holds(seed, was)
		}
	}
}

// holds is what is true after each step.
func (b *besieged) holds(seed int, was State) {
	var r Request
	for turns := 0; b.End.Control(&r); turns++ {
		require.Less(b.t, turns, ControlDepth, "seed %d: control messages without an end", seed)
		b.take(&r)
	}
	b.posted += b.End.Reposts()
	require.LessOrEqual(b.t, b.posted, ReceiveDepth(b.cfg.Credits), "seed %d: receives", seed)
	require.LessOrEqual(b.t, b.End.Finished(), b.End.Begun(), "seed %d", seed)
	e := b.End
	require.Equal(b.t, b.cfg.ReceiveBuffer, e.open+e.there+e.read, "seed %d: each byte of the buffer is the peer's, here, or read", seed)
	require.GreaterOrEqual(b.t, min(e.open, e.there, e.read), 0, "seed %d", seed)
	require.LessOrEqual(b.t, b.taken, b.said, "seed %d: bytes that nobody has sent", seed)
	if is := b.End.State(); was.Over() {
		require.Equal(b.t, was, is, "seed %d", seed)
		require.Zero(b.t, b.End.Send(1, &r), "seed %d", seed)
	}
}
