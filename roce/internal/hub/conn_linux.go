package hub

// The connection of a process and its hub, over a Unix socket that keeps messages apart
// (SOCK_SEQPACKET). Descriptors travel beside them.
//
// Stages: sending; receiving; a message of the connection manager; a packet.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// maxFiles is how many descriptors go with one message: the kernel's SCM_MAX_FD is 253.
const maxFiles = 250

// maxMessage is the longest message in bytes: what a socket of Linux takes unless told otherwise is
// more.
const maxMessage = 128 << 10

// Conn is a connection between the two. One goroutine receives; any may send.
type Conn struct {
	*net.UnixConn
	room []byte
	oob  []byte
}

// NewConn is a connection that is open.
func NewConn(c *net.UnixConn) *Conn {
	return &Conn{UnixConn: c, room: make([]byte, maxMessage), oob: make([]byte, unix.CmsgSpace(4*maxFiles))}
}

// Say sends a message, with descriptors beside it, which stay the caller's.
func (c *Conn) Say(k Kind, what any, files ...int) error {
	var body []byte
	if what != nil {
		var err error
		if body, err = json.Marshal(what); err != nil {
			return err
		}
	}
	for ; len(files) > maxFiles; files = files[maxFiles:] {
		if _, _, err := c.WriteMsgUnix([]byte{byte(KindFiles)}, unix.UnixRights(files[:maxFiles]...), nil); err != nil {
			return err
		}
	}
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	if len(body) >= maxMessage {
		return fmt.Errorf("a message of %d bytes", len(body))
	}
	_, _, err := c.WriteMsgUnix(append([]byte{byte(k)}, body...), oob, nil)
	return err
}

// Heard is a message that came. What has descriptors closes them.
type Heard struct {
	Kind  Kind
	Body  []byte // lent until the next Hear
	Files Files
}

// Files are descriptors, not of package os: that would change whether calls on them wait, for all
// who have them.
type Files []int

// Close closes them.
func (f *Files) Close() {
	for _, fd := range *f {
		unix.Close(fd)
	}
	*f = nil
}

// Close closes what came beside.
func (h *Heard) Close() { h.Files.Close() }

// Get fills what the message says.
func (h *Heard) Get(what any) error { return json.Unmarshal(h.Body, what) }

// Hear waits for the next message. Descriptors that came by KindFiles are with the one that
// follows.
func (c *Conn) Hear() (h Heard, err error) {
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	for {
		n, oobn, flags, _, err := c.ReadMsgUnix(c.room, c.oob)
		if err != nil {
			return h, err
		}
		files, err := rights(c.oob[:oobn])
		h.Files = append(h.Files, files...)
		switch {
		case err != nil:
			return h, err
		case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			return h, errors.New("a message that is too long, or descriptors for which there is no room (ulimit -n)")
		case n == 0:
			return h, net.ErrClosed
		}
		if h.Kind, h.Body = Kind(c.room[0]), c.room[1:n]; h.Kind != KindFiles {
			return h, nil
		}
	}
}

// rights are the descriptors that came with a message.
func rights(oob []byte) (files Files, err error) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue // something else came beside
		}
		files = append(files, fds...)
	}
	return files, nil
}

// madLen is how long a message of KindMAD is.
const madLen = 1 + 16 + 16 + 1 + 1 + 1 + 4 + wire.MADLen

// Poke sends a message that says nothing but what it is, unless there is no room. It does not wait.
func (c *Conn) Poke(k Kind) (sent bool) { return c.offer([]byte{byte(k)}) }

// Offer is Say without descriptors, unless there is no room. It does not wait.
func (c *Conn) Offer(k Kind, what any) (sent bool) {
	body, err := json.Marshal(what)
	return err == nil && c.offer(append([]byte{byte(k)}, body...))
}

// offer sends a message unless there is no room.
func (c *Conn) offer(b []byte) (sent bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	// Control, as Write waits for a message that is being sent.
	err = raw.Control(func(fd uintptr) {
		sent = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) == nil
	})
	return sent && err == nil
}

// SayMAD sends a message of the connection manager and its path, unless there is no room. It does
// not wait.
func (c *Conn) SayMAD(p *cm.Path, mad []byte) (sent bool) {
	var b [madLen]byte
	b[0] = byte(KindMAD)
	copy(b[1:], p.Local[:])
	copy(b[17:], p.Remote[:])
	b[33], b[34], b[35] = p.TrafficClass, p.HopLimit, p.SL
	binary.BigEndian.PutUint32(b[36:], p.FlowLabel)
	copy(b[40:], mad)
	return c.offer(b[:])
}

// MAD is what SayMAD has sent; its bytes are lent as the message's.
func (h *Heard) MAD() (p cm.Path, mad *wire.MAD, ok bool) {
	b := h.Body
	if h.Kind != KindMAD || len(b) != madLen-1 {
		return p, nil, false
	}
	copy(p.Local[:], b)
	copy(p.Remote[:], b[16:])
	p.TrafficClass, p.HopLimit, p.SL = b[32], b[33], b[34]
	p.FlowLabel = binary.BigEndian.Uint32(b[35:])
	return p, (*wire.MAD)(b[39:]), true
}

// unread is how much of what was sent is on its way, in bytes.
func (c *Conn) unread() (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return framesRoom + 1
	}
	err = raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err != nil {
			n = framesRoom + 1
		}
	})
	return n
}

// frameHead is what is in front of a packet: its flags, and how long its IP and UDP headers are.
const frameHead = 4 + 1

// framesRoom is how much may be on its way that nobody has read, in bytes, for a packet to follow:
// a third of what a socket of Linux takes. The rest is for all other messages.
const framesRoom = 64 << 10

// SayFrame sends a packet, unless there is no room. It does not wait.
func (c *Conn) SayFrame(f *wire.Frame) (sent bool) {
	if c.unread() > framesRoom {
		return false
	}
	b := make([]byte, 1+frameHead, 1+frameHead+f.Len())
	b[0] = byte(KindFrame)
	binary.BigEndian.PutUint32(b[1:], uint32(f.Flags))
	b[5] = byte(len(f.Head))
	return c.offer(append(append(b, f.Head...), f.Body...))
}

// Frame is what SayFrame has sent; its bytes are lent as the message's.
func (h *Heard) Frame() (f wire.Frame, ok bool) {
	b := h.Body
	if h.Kind != KindFrame || len(b) < frameHead {
		return f, false
	}
	flags, head, b := binary.BigEndian.Uint32(b), int(b[4]), b[frameHead:]
	if head != wire.Head4Len && head != wire.Head6Len || len(b) < head+wire.MinBody || len(b) > head+wire.FullBody {
		return f, false
	}
	return wire.Frame{Head: b[:head:head], Body: b[head:], Flags: wire.FrameFlags(flags) & wire.FrameSynthHead}, true
}
