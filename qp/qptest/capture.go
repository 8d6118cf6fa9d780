package qptest

// What happened, as a pcapng file of raw IP packets: one interface per node, nanoseconds of virtual
// time.

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Capture records the packets of a world in memory.
type Capture struct {
	buf   []byte
	nodes []*Node // the interfaces, in order of appearance
}

// Block types and options of the pcapng format.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6
	linkTypeRaw    = 101
	optIfName      = 2
	optIfTsResol   = 9
)

// block appends one pcapng block.
func (c *Capture) block(kind uint32, body []byte) {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	le := binary.LittleEndian
	n := uint32(len(body) + 12)
	c.buf = le.AppendUint32(le.AppendUint32(c.buf, kind), n)
	c.buf = le.AppendUint32(append(c.buf, body...), n)
}

// add records a frame that a node sends.
func (c *Capture) add(now qp.Time, n *Node, f *wire.Frame) {
	le := binary.LittleEndian
	if len(c.buf) == 0 {
		c.block(blockSection, []byte{0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})
	}
	id := -1
	for i, known := range c.nodes {
		if known == n {
			id = i
		}
	}
	if id < 0 {
		id = len(c.nodes)
		c.nodes = append(c.nodes, n)
		body := []byte{linkTypeRaw, 0, 0, 0, 0, 0, 0, 0}
		body = le.AppendUint16(le.AppendUint16(body, optIfName), uint16(len(n.Name)))
		body = append(body, n.Name...)
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		body = append(le.AppendUint16(le.AppendUint16(body, optIfTsResol), 1), 9, 0, 0, 0)
		c.block(blockInterface, append(body, 0, 0, 0, 0))
	}
	body := le.AppendUint32(nil, uint32(id))
	body = le.AppendUint32(le.AppendUint32(body, uint32(now>>32)), uint32(now))
	body = le.AppendUint32(le.AppendUint32(body, uint32(f.Len())), uint32(f.Len()))
	c.block(blockPacket, wire.AppendFrame(body, f))
}

// Bytes is what was recorded, as a pcapng file.
func (c *Capture) Bytes() []byte { return c.buf }

// WriteFile writes what was recorded to dir/name.pcapng and returns the path.
func (c *Capture) WriteFile(dir, name string) (string, error) {
	path := filepath.Join(dir, name+".pcapng")
	return path, os.WriteFile(path, c.buf, 0o644)
}
