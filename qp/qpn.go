package qp

import (
	"sync/atomic"

	"github.com/goroce/goroce/wire"
)

// qpnTable finds queue pairs by number. It uses open addressing with linear probing, because the
// numbers are random (predictable ones invite spoofing) and a lookup happens for every packet. It
// is at most half full. Deletion moves the rest of the run back.
type qpnTable struct {
	cells []*QP
	n     int
}

// goldenRatio is the prime next to 2^32 divided by the golden ratio.
const goldenRatio = 0x9e3779b1

func (t *qpnTable) slot(qpn uint32) int {
	// Fibonacci hashing spreads numbers whose low bits are the same.
	return int((qpn*goldenRatio)>>8) & (len(t.cells) - 1)
}

func (t *qpnTable) find(qpn uint32) *QP {
	if t.n == 0 {
		return nil
	}
	for i := t.slot(qpn); ; i = (i + 1) & (len(t.cells) - 1) {
		q := t.cells[i]
		if q == nil || q.qpn == qpn {
			return q
		}
	}
}

func (t *qpnTable) insert(q *QP) {
	if 2*(t.n+1) > len(t.cells) {
		old := t.cells
		t.cells = make([]*QP, max(16, 2*len(old)))
		for _, o := range old {
			if o != nil {
				t.place(o)
			}
		}
	}
	t.place(q)
	t.n++
}

func (t *qpnTable) place(q *QP) {
	i := t.slot(q.qpn)
	for t.cells[i] != nil {
		i = (i + 1) & (len(t.cells) - 1)
	}
	t.cells[i] = q
}

func (t *qpnTable) remove(qpn uint32) {
	mask := len(t.cells) - 1
	i := t.slot(qpn)
	for t.cells[i].qpn != qpn {
		i = (i + 1) & mask
	}
	t.cells[i] = nil
	t.n--
	for j := (i + 1) & mask; t.cells[j] != nil; j = (j + 1) & mask {
		q := t.cells[j]
		t.cells[j] = nil
		t.place(q)
	}
}

// each calls f for every queue pair; f must not insert or remove.
func (t *qpnTable) each(f func(*QP)) {
	for _, q := range t.cells {
		if q != nil {
			f(q)
		}
	}
}

// qpnDeck deals the numbers of a space in an order that nobody can predict, as who spoofs packets
// must guess them, and each one only after all others: a peer that still remembers a connection
// refuses another one of the same number as stale (section 9.8).
type qpnDeck struct {
	space wire.QPNSpace
	keys  [6]uint64
	*Deck
}

// Deck is which numbers have been dealt. The zero Deck is none. It may lie in memory that outlives
// the process: then who takes its place, with the same space, deals those that it has not.
type Deck struct {
	seed atomic.Uint64 // of the order; 0: nothing was dealt
	next atomic.Uint64 // place in it
}

// newQPNDeck goes on with dealt; nil: it begins.
func newQPNDeck(space wire.QPNSpace, dealt *Deck, random func() uint64) *qpnDeck {
	d := &qpnDeck{space: space, Deck: dealt}
	if dealt == nil {
		d.Deck = new(Deck)
		for i := range d.keys {
			d.keys[i] = random()
		}
		return d
	}
	dealt.seed.CompareAndSwap(0, random()|1)
	seed := dealt.seed.Load()
	for i := range d.keys {
		seed += 0x9e3779b97f4a7c15
		d.keys[i] = splitmix(seed)
	}
	return d
}

// deal returns the next number. It is a Feistel network over the space's bits: each round changes
// one half of them by a function of the other half and a key, so no two counts meet.
func (d *qpnDeck) deal() uint32 {
	low := d.space.Bits() / 2
	at := uint32(d.next.Add(1) - 1)
	left, right := at>>low&(1<<(d.space.Bits()-low)-1), at&(1<<low-1)
	for i := 0; i < len(d.keys); i += 2 {
		left ^= mix(d.keys[i], right) & (1<<(d.space.Bits()-low) - 1)
		right ^= mix(d.keys[i+1], left) & (1<<low - 1)
	}
	return d.space.Number(left<<low | right)
}

// mix is a key's function of half a number.
func mix(key uint64, half uint32) uint32 {
	return uint32(splitmix(key+uint64(half)*0x9e3779b97f4a7c15) >> 32)
}

// splitmix is the finalizer of splitmix64.
func splitmix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
