package qptest

// Registered memory. Every region lies between canaries, and beside it lies the memory as it should
// be: only the oracle writes there, and after every event both must be equal, but for READ replies
// that are arriving.

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
)

const (
	guard     = 64 // bytes of canary on each side
	guardByte = 0xa5
)

// Region is registered memory of a node.
type Region struct {
	*mr.Region
	Node  *Node
	Name  string
	Bytes []byte // what is registered

	arena []byte // guard, Bytes, guard
	want  []byte // arena as it should be
	// loose says that the oracle does not know the contents: they are a raw peer's, or an error may
	// have left a part of a message.
	loose bool
}

// NewRegion registers n random bytes. The remote address of the first one is iova.
func (n *Node) NewRegion(name string, size int, iova uint64, a mr.Access) *Region {
	r := &Region{Node: n, Name: name, arena: make([]byte, size+2*guard)}
	rnd := n.W.rand("memory", n.Index, len(n.regions))
	for i := range guard {
		r.arena[i], r.arena[guard+size+i] = guardByte, guardByte
	}
	r.Bytes = r.arena[guard : guard+size : guard+size]
	rest := r.Bytes
	for ; len(rest) >= 8; rest = rest[8:] {
		binary.LittleEndian.PutUint64(rest, rnd.Uint64())
	}
	if len(rest) > 0 {
		copy(rest, binary.LittleEndian.AppendUint64(nil, rnd.Uint64()))
	}
	var err error
	if r.Region, err = n.Memory.Register(n.PD, r.Bytes, iova, a); err != nil {
		panic(fmt.Sprintf("qptest: %v", err))
	}
	r.want = bytes.Clone(r.arena)
	n.memory += size
	n.regions = append(n.regions, r)
	return r
}

// Addr returns the address of a byte of the region.
func (r *Region) Addr(off int) uint64 { return r.IOVA() + uint64(off) }

// Set is the application writing its own memory.
func (r *Region) Set(off int, b []byte) {
	copy(r.Bytes[off:], b)
	copy(r.want[guard+off:], b)
}

// String names the region.
func (r *Region) String() string { return r.Node.Name + "." + r.Name }

// find returns the region with a key, whatever may be done with it.
func (n *Node) find(key uint32) *Region {
	for _, r := range n.regions {
		if r.LKey() == key {
			return r
		}
	}
	return nil
}

// span returns the memory as it should be under a key, if the range is inside and the rights
// suffice.
func (n *Node) span(pd mr.PD, key uint32, addr uint64, size int, need mr.Access) []byte {
	r := n.find(key)
	if r == nil || r.PD() != pd || r.Access()&need != need || addr < r.IOVA() {
		return nil
	}
	off := addr - r.IOVA()
	if off > r.Len() || uint64(size) > r.Len()-off {
		return nil
	}
	return r.want[guard+off : guard+off+uint64(size) : guard+off+uint64(size)]
}

// checkMemory compares every region with what it should be: after every event, in worlds of large
// memory after every few.
func (n *Node) checkMemory() {
	if n.W.Unchecked {
		n.checkCanaries()
		return
	}
	if n.unchecked++; n.unchecked < n.memory>>16 {
		return
	}
	n.unchecked = 0
	for _, r := range n.regions {
		if bytes.Equal(r.arena, r.want) {
			continue
		}
		if r.loose {
			copy(r.want[guard:guard+len(r.Bytes)], r.Bytes)
			if bytes.Equal(r.arena, r.want) {
				continue
			}
		}
		if i := r.explain(); i >= 0 {
			n.W.Fail("%s: byte %d (of %d) is %#02x, should be %#02x; nothing that happened may change it so",
				r, i-guard, len(r.Bytes), r.arena[i], r.want[i])
			return
		}
	}
}

// checkCanaries looks at what lies around the regions only.
func (n *Node) checkCanaries() {
	for _, r := range n.regions {
		end := guard + len(r.Bytes)
		if !bytes.Equal(r.arena[:guard], r.want[:guard]) || !bytes.Equal(r.arena[end:], r.want[end:]) {
			n.W.Fail("%s: bytes beside the region have changed", r)
		}
	}
}

// explain takes over what READ replies and atomic results may have changed and returns the first
// byte they do not explain.
func (r *Region) explain() int {
	for _, q := range r.Node.order() {
		for _, o := range q.fetching {
			o.landed(r)
		}
	}
	for i := range r.arena {
		if r.arena[i] != r.want[i] {
			return i
		}
	}
	return -1
}

// landed takes over bytes of r that a READ or atomic has brought, where they are what it had to
// bring.
func (o *op) landed(r *Region) {
	done := 0
	for _, s := range o.wr.SGL {
		if s.LKey == r.LKey() {
			at := int(s.Addr-r.IOVA()) + guard
			for i := 0; i < int(s.Length) && done+i < len(o.result); i++ {
				if r.arena[at+i] == o.result[done+i] {
					r.want[at+i] = o.result[done+i]
				}
			}
		}
		done += int(s.Length)
	}
}

// landedAll does that for all regions of its node.
func (o *op) landedAll(n *Node) {
	for _, r := range n.regions {
		o.landed(r)
	}
}

// fetched says whether everything that the READ or atomic had to bring has been seen in memory.
func (o *op) fetched(n *Node) bool {
	done := 0
	for _, s := range o.wr.SGL {
		if s.Length == 0 { // its key means nothing
			continue
		}
		r := n.find(s.LKey)
		o.landed(r)
		at := int(s.Addr-r.IOVA()) + guard
		if !bytes.Equal(r.want[at:at+int(s.Length)], o.result[done:done+int(s.Length)]) {
			return false
		}
		done += int(s.Length)
	}
	return true
}

// gather reads what a scatter/gather list names, as it should be; good is how much of it is
// readable.
func (n *Node) gather(pd mr.PD, sgl []qp.SGE) (data []byte, good bool) {
	good = true
	for _, s := range sgl {
		b := n.span(pd, s.LKey, s.Addr, int(s.Length), 0)
		if b == nil && s.Length > 0 {
			good = false
			b = make([]byte, s.Length)
		}
		data = append(data, b...)
	}
	return data, good
}

// scatter writes data behind the first skip bytes of a scatter/gather list; false if some of it
// cannot be written.
func (n *Node) scatter(pd mr.PD, sgl []qp.SGE, skip int, data []byte) bool {
	for _, s := range sgl {
		size := int(s.Length)
		if skip >= size {
			skip -= size
			continue
		}
		k := min(size-skip, len(data))
		if k == 0 {
			break
		}
		b := n.span(pd, s.LKey, s.Addr, size, mr.LocalWrite)
		if b == nil {
			return false
		}
		copy(b[skip:], data[:k])
		data, skip = data[k:], 0
	}
	return true
}
