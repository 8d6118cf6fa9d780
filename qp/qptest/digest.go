package qptest

// One number for all that engines do: a change of the code that must not change behaviour leaves
// the digest of many worlds as it was.
//
//	go test ./qp/qptest -run TestWorlds -worlds=1000 -digest -v
//	go test ./qp/qptest/lives -run TestLives -lives=1000 -digest -v
//
// Stages: each packet that leaves and each completion that is polled goes into the digest of its
// world, with its time and its node → the digests of the worlds, in the order of their seeds, make
// one, so that worlds may run side by side.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

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

// Digests are those of many worlds: entry i is of the i-th seed. Its entries may be set at the same
// time.
type Digests [][sha256.Size]byte

// Set gives world i the digest d, which is complete.
func (s Digests) Set(i int, d *Digest) { d.hash.Sum(s[i][:0]) }

// String is the digest of all of them in hexadecimal digits.
func (s Digests) String() string {
	all := sha256.New()
	for i := range s {
		all.Write(s[i][:])
	}
	return hex.EncodeToString(all.Sum(nil))
}
