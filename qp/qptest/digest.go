package qptest

// One number for all that engines do: a change of the code that must not change behaviour leaves
// the digest of many worlds as it was.
//
//	go test ./qp/qptest -run TestWorlds -worlds=1000 -digest -v
//	go test ./qp/qptest/lives -run TestLives -lives=1000 -digest -v
//
// Stages: each packet that leaves and each completion that is polled goes into the digest of its
// world, with its time and its node → worlds are played side by side, on all processors → their
// digests, in the order of their seeds, make one.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Digest is a hash over the packets and completions of one world, in their order. A nil Digest
// takes no notice of anything.
type Digest struct {
	hash hash.Hash
	buf  []byte
}

// NewDigest returns the digest of a world in which nothing has happened.
func NewDigest() *Digest { return &Digest{hash: sha256.New()} }

// begin starts a record: what it is of, when, and on which node.
func (d *Digest) begin(kind byte, now qp.Time, n *Node) {
	d.buf = append(d.buf[:0], kind, byte(n.Index))
	d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(now))
}

// packet records a frame that node n sends, from its IP header on. Source and destination are in
// it.
func (d *Digest) packet(now qp.Time, n *Node, f *wire.Frame) {
	if d == nil {
		return
	}
	d.begin('p', now, n)
	d.buf = binary.LittleEndian.AppendUint32(d.buf, uint32(f.Len()))
	d.hash.Write(wire.AppendFrame(d.buf, f))
}

// Completion records a completion that an application of node n has polled.
func (d *Digest) Completion(now qp.Time, n *Node, wc *qp.WC) {
	if d == nil {
		return
	}
	d.begin('c', now, n)
	le := binary.LittleEndian
	d.buf = le.AppendUint64(d.buf, wc.WRID)
	for _, field := range [...]uint32{wc.ByteLen, wc.Imm | wc.InvalidatedRKey, wc.QPN, wc.SrcQP} {
		d.buf = le.AppendUint32(d.buf, field)
	}
	d.hash.Write(append(d.buf, byte(wc.Status), byte(wc.Opcode), byte(wc.Flags)))
}

// Seeds are worlds to be played: so many, from the first on. With Digest they have one number.
type Seeds struct {
	First  uint64
	Worlds int
	Digest bool
}

// Play plays a world of each seed, on all processors, until one fails: it returns that one's seed
// and error. play draws the world of a seed and plays it; it is called by several goroutines.
// Otherwise the digest of all is returned in hexadecimal digits, if it was asked for.
func (s Seeds) Play(play func(seed uint64, d *Digest) error) (digest string, failed uint64, err error) {
	sums := make([][sha256.Size]byte, s.Worlds)
	var next atomic.Int64
	var once sync.Once
	var over atomic.Bool
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < s.Worlds && !over.Load(); n = int(next.Add(1)) - 1 {
				var d *Digest
				if s.Digest {
					d = NewDigest()
				}
				seed := s.First + uint64(n)
				if e := play(seed, d); e != nil {
					once.Do(func() { failed, err = seed, e })
					over.Store(true)
				}
				if s.Digest {
					d.hash.Sum(sums[n][:0])
				}
			}
		})
	}
	all.Wait()
	if s.Digest {
		whole := sha256.New()
		for i := range sums {
			whole.Write(sums[i][:])
		}
		digest = hex.EncodeToString(whole.Sum(nil))
	}
	return digest, failed, err
}
