package qptest

// What happened, as a pcapng file of raw IP packets: one interface per node, nanoseconds of virtual
// time.

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
	"github.com/goroce/goroce/wire/pcapng"
)

// Capture records the packets of a world in memory.
type Capture struct {
	buf    bytes.Buffer
	w      *pcapng.Writer
	packet []byte
}

// add records a frame that a node sends.
func (c *Capture) add(now qp.Time, n *Node, f *wire.Frame) {
	if c.w == nil {
		c.w = pcapng.NewWriter(&c.buf)
	}
	c.packet = wire.AppendFrame(c.packet[:0], f)
	_ = c.w.Packet(&pcapng.Packet{
		On:   pcapng.Interface{Name: n.Name, Link: pcapng.LinkRaw},
		Time: int64(now),
		Data: c.packet,
	})
}

// Bytes is what was recorded, as a pcapng file.
func (c *Capture) Bytes() []byte {
	if c.w != nil {
		_ = c.w.Flush() // there is room in memory
	}
	return c.buf.Bytes()
}

// WriteFile writes what was recorded to dir/name.pcapng and returns the path.
func (c *Capture) WriteFile(dir, name string) (string, error) {
	path := filepath.Join(dir, name+".pcapng")
	return path, os.WriteFile(path, c.Bytes(), 0o644)
}
