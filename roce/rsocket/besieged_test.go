package rsocket

// Any call at any time, of an end whose peer keeps to no rule: it writes wherever it may at any
// moment, says what it likes, takes nothing or everything, and takes the connection down or not.
// Whatever the calls return, each returns, and Close is the end of all.

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// besieger is the peer of a: the queue pair of b, which is no end of a stream.
type besieger struct {
	a, b *Conn
	rng  *rand.Rand
	at   int   // where in a's receive buffer it writes on
	room int   // as a sees it
	slot int   // of a's target SGL
	told []int // the room in the buffers that it has told of, and that a has not filled
}

// looks takes what a says.
func (p *besieger) looks() {
	n, _ := p.b.cq.Poll(p.b.wait.wcs[:])
	for _, wc := range p.b.wait.wcs[:n] {
		switch {
		case wc.WRID&receiveID == 0 || wc.Status != roce.WCSuccess:
		case wc.Imm>>29 == 4 && wc.ByteLen > 0:
			p.room += len(p.a.receive) / 2
		case wc.Imm>>29 == 0 && len(p.told) > 0:
			if p.told[0] -= int(wc.Imm); p.told[0] <= 0 {
				p.told = p.told[1:]
			}
		}
	}
}

func (p *besieger) write(imm uint32, off int, data []byte) {
	wr := roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: imm, Inline: data, RemoteAddr: p.a.exposed.Addr() + uint64(off),
		RKey: p.a.exposed.RKey(), Flags: roce.SendSignaled | roce.SendInline}
	p.b.qp.PostSend(wr) // which may fail: the queue is full, or a has had enough
}

// entry is memory of its own, or of nobody's, as an entry of a table.
func (p *besieger) entry() []byte {
	at := p.b.exposed.Addr()
	if p.rng.IntN(50) == 0 {
		at = p.rng.Uint64()
	}
	b := binary.NativeEndian.AppendUint64(nil, at)
	b = binary.NativeEndian.AppendUint32(b, p.b.exposed.RKey())
	return binary.NativeEndian.AppendUint32(b, uint32(1+p.rng.IntN(len(p.b.receive))))
}

// seldom is for what a will not take.
func (p *besieger) seldom() bool { return p.rng.IntN(300) == 0 }

// besieges are what it does, but for sneaks.
var besieges = []func(p *besieger){
	func(p *besieger) { // data: all that it says, or less
		n := min(p.rng.IntN(inline+1), len(p.a.receive)-p.at, p.room)
		says := min(n+p.rng.IntN(2), p.room)
		p.write(uint32(says), p.at, make([]byte, n))
		p.at, p.room = (p.at+says)%len(p.a.receive), p.room-says
	},
	func(p *besieger) { p.write(0, 0, nil) },
	func(p *besieger) { // a receive buffer, and credits
		// One more than these may overwrite an entry that a is reading: the same as sneaks.
		if len(p.told) < stream.Entries || !step.Raced && (len(p.told) == stream.Entries || p.seldom()) {
			entry := p.entry()
			p.told = append(p.told, int(binary.NativeEndian.Uint32(entry[12:])))
			p.write(4<<29|p.rng.Uint32()>>16, len(p.a.receive)+p.slot*stream.SGESize, entry)
			p.slot = (p.slot + 1) % stream.Entries
		}
	},
	func(p *besieger) { p.write(4<<29|p.rng.Uint32()>>16, 0, nil) },
	func(p *besieger) { p.b.qp.PostRecv(p.b.receives...) },
	func(p *besieger) {
		if p.seldom() {
			p.write(7<<29|uint32(p.rng.IntN(3)), 0, nil)
		}
	},
	func(p *besieger) {
		if p.seldom() && p.seldom() {
			p.b.qp.PostSend(roce.SendWR{Opcode: roce.WRSend})
		}
	},
	func(p *besieger) {
		if p.seldom() && p.seldom() { // as ended does
			p.a.mu.Lock()
			p.a.life.on(goesBelow)
			p.a.wakeAll()
			p.a.mu.Unlock()
		}
	},
}

// sneaks write memory that a may be reading just then, which the race detector rightly reports.
var sneaks = []func(p *besieger){
	func(p *besieger) { // writes into the receive buffer, and says nothing
		p.b.qp.PostSend(roce.SendWR{Opcode: roce.WRWrite, Inline: p.entry(), Flags: roce.SendSignaled | roce.SendInline,
			RemoteAddr: p.a.exposed.Addr() + uint64(p.rng.IntN(len(p.a.receive)-stream.SGESize)), RKey: p.a.exposed.RKey()})
	},
	func(p *besieger) { // exposed memory
		p.write(6<<29|p.rng.Uint32()%2, len(p.a.receive)+stream.Entries*stream.SGESize, append(make([]byte, 8), p.entry()...))
	},
	func(p *besieger) {
		if p.seldom() {
			p.write(p.rng.Uint32(), p.rng.IntN(p.a.exposed.Len()), p.entry())
		}
	},
}

// TestBesieged: see above.
func TestBesieged(t *testing.T) {
	worlds, does := uint64(200), besieges
	if !step.Raced {
		does = append(slices.Clone(besieges), sneaks...)
	}
	if testing.Short() {
		worlds = 25
	}
	for seed := range worlds {
		rng := rand.New(rand.NewPCG(seed, 29))
		a, b := mute(t, &Config{SendBuffer: 4096, ReceiveBuffer: 4096, Depth: 16 + rng.IntN(20), Maps: 2,
			Polling: rng.IntN(4) == 0, Linger: time.Duration(rng.IntN(3)) * time.Millisecond})
		b.receives = []roce.RecvWR{{WRID: receiveID}, {WRID: receiveID}, {WRID: receiveID}}
		buf, err := a.Alloc(20000)
		require.NoError(t, err)
		var all sync.WaitGroup
		var over atomic.Bool
		all.Go(func() {
			p := &besieger{
				a:    a,
				b:    b,
				rng:  rand.New(rand.NewPCG(seed, 31)),
				room: len(a.receive) / 2,
				slot: 1,
				told: []int{len(b.receive) / 2},
			}
			for !over.Load() {
				does[p.rng.IntN(len(does))](p)
				p.looks()
				runtime.Gosched()
			}
		})
		var calls sync.WaitGroup
		for range hands {
			r := rand.New(rand.NewPCG(rng.Uint64(), 29))
			calls.Go(func() {
				for {
					deed := func(c *Conn, b *Buffer, r *rand.Rand) error {
						_, err := c.WriteBufferAt(b, r.IntN(10000), r.IntN(10000), uint64(r.IntN(4096)))
						return err
					}
					if i := r.IntN(len(deeds) + 1); i > 0 {
						deed = deeds[i-1]
					}
					if errors.Is(deed(a, buf, r), net.ErrClosed) {
						return
					}
				}
			})
		}
		for range rng.IntN(3000) {
			runtime.Gosched()
		}
		a.Close()
		calls.Wait()
		over.Store(true)
		all.Wait()
		require.True(t, a.life == freed, "seed %d", seed)
	}
}
