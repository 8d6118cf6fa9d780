package hub

// What a process and its hub say to each other over a Unix socket that keeps messages apart
// (SOCK_SEQPACKET): a byte that says what it is, and JSON, or for what is frequent bytes in their
// places. Descriptors travel beside.
//
// Stages: what there is to say; sending; receiving; a message of the connection manager.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// Version is that of this protocol. A hub refuses another one.
const Version = 1

// Kind is what a message is.
type Kind byte

// What a process says, and what the hub answers with the same kind.
const (
	KindJoin    Kind = 'J' // Join; answered by KindFiles, as often as it takes, and Joined
	KindFiles   Kind = 'F' // descriptors: those of an answer that are too many for one message
	KindListen  Kind = 'L' // Listen; Answer
	KindMAD     Kind = 'M' // from or for queue pair 1; not answered
	KindEstates Kind = 'E' // connections that the process had before, []cm.Estate; not answered
	KindStatus  Kind = 'S' // nothing; Status, and a KindProcess of each process
	KindProcess Kind = 'P' // ProcessStatus
	KindReport  Kind = 'R' // the hub asks, and the process says what runs on it: Report
)

// Join asks for a slot of an address, or says which one the process has.
type Join struct {
	Version int
	Where   string // address or interface
	Lanes   int
	UDPPort int
	Program string
	// Again is what the process has of a hub that is gone; nil: it is new. The shelf is beside.
	Again *Again `json:",omitempty"`
}

// Again is a process at a hub that is not the one that it has its slot from.
type Again struct {
	Joined
	Services []Service
}

// EstatesAtOnce is how many connections go with a message of KindEstates.
const EstatesAtOnce = 200

// Joined is what a process has of an address.
type Joined struct {
	Answer
	Addrs []netip.Addr
	Slot  int
	Slots int
	QPNs  wire.QPNSpace
	// Files is how many descriptors came, with those of KindFiles: the sockets, row by row, each
	// with all lanes; the memory of the deck; the shelf.
	Files int
}

// Answer says that something is done, or why not.
type Answer struct {
	Error string `json:",omitempty"`
	Taken bool   `json:",omitempty"` // the error is that somebody has it
}

// Service is what a listener listens on.
type Service struct {
	ID      uint64
	Address wire.GID // the zero GID: all
	Only    int      // 4, 6: of all addresses those of the IP version
}

// Listen begins or ends that.
type Listen struct {
	Service
	End bool
}

// Report is what runs on a process's device.
type Report struct {
	QPs                  int
	QueuePairs           []QueuePair // of these the first MaxQueuePairs
	SentBytes, RecvBytes uint64
	SentPkts, RecvPkts   uint64
	Foreign              uint64 // packets that came to it and were another's
}

// MaxQueuePairs is how many queue pairs a Report lists.
const MaxQueuePairs = 256

// QueuePair is one of them.
type QueuePair struct {
	QPN   uint32
	Type  string
	State string
	Peer  string `json:",omitempty"`
	To    uint32 `json:",omitempty"`
}

// Status is what a hub knows.
type Status struct {
	PID       int
	Addresses []AddressStatus
	Processes int // that follow
}

// AddressStatus is what is shared.
type AddressStatus struct {
	Where string
	Addrs []netip.Addr
	Slots int
	Lanes int
	// Messages are those of the connection manager: to processes, from them, to nobody that is here
	// (which the hub answers), and such as found no room.
	In, Out, Nobodys, NoRoom uint64
	Left                     uint64 // processes that have ended
	Inherited                uint64 // connections whose peers were told for them
}

// ProcessStatus is one that shares it.
type ProcessStatus struct {
	Where    string
	PID      int
	Program  string
	Slot     int
	Since    int64 // Unix time, seconds
	Services []Service
	Conns    int // of the connection manager
	Report   *Report
}

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

// Hear waits for the next message. Descriptors that came by KindFiles are with the one that follows.
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
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), b[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) == nil
		return true
	})
	return sent && err == nil
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
