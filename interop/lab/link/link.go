// Package link is the protocol between the lab on the host and its agent in the guest.
//
// It carries many commands at once over one byte stream (a virtio-serial port), so that a server
// can run in the background while a client runs. Stages of this file:
//
//  1. the kinds of message and the structures that travel in them,
//  2. Conn: framing over a byte stream,
//  3. Window: how many bytes of one stream may be under way, so that a slow reader stops no other,
//  4. Queue: messages that arrived for one command and wait to be used.
package link

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// PortName is the name of the virtio-serial port on which the agent listens.
const PortName = "org.goroce.agent"

// MaxData is the largest payload of one message of a stream.
const MaxData = 16 << 10

// StreamWindow is how many bytes of one command's input, or of its two outputs together, may be
// under way unread.
const StreamWindow = 256 << 10

// Kind says what a message means. Host to guest: Start, Stdin, StdinEnd, Signal, Credit (output was
// read). Guest to host: Hello, Stdout, Stderr, Exit, Credit (input was read).
type Kind uint8

// The kinds of message.
const (
	Hello    Kind = iota + 1 // a HelloBody, once, with ID 0
	Start                    // a StartBody: run a command under this ID
	Stdin                    // bytes for the command's standard input
	StdinEnd                 // the end of its standard input
	Stdout                   // bytes from its standard output
	Stderr                   // bytes from its standard error
	Signal                   // one byte: send this signal to the command's process group
	Credit                   // four bytes, big endian: so many bytes were consumed
	Exit                     // an ExitBody: the command ended, nothing more follows under this ID
)

// HelloBody is the agent's first message: the guest is ready, or why it is not.
type HelloBody struct {
	Error  string        // what went wrong while the guest was set up; empty when all went well
	Kernel string        // the guest's kernel release
	GIDs   []GID         // the GID table of rxe0
	Stages []StageTiming // how long each stage of the set-up took
}

// GID is one entry of the GID table of rxe0, as sysfs prints it.
type GID struct {
	Index int
	Addr  string
	Type  string
}

// StageTiming is the duration of one stage of the guest's set-up.
type StageTiming struct {
	Stage  string
	Millis int64
}

// StartBody describes a command to run.
type StartBody struct {
	Argv  []string
	Env   []string // added to the agent's environment
	Dir   string
	Stdin bool // false: standard input is /dev/null
}

// ExitBody tells how a command ended.
type ExitBody struct {
	Error  string // it could not be started at all
	Code   int    // its exit status, -1 when a signal ended it
	Signal int    // the signal that ended it, or 0
}

// GuestSetup is what the host tells the guest at boot, in the file SetupPath of the initramfs.
type GuestSetup struct {
	MTU       int
	Addrs     []string          // with prefix length
	HostAddrs []string          // the host's addresses, made permanent neighbours with HostMAC
	HostMAC   string            // hardware address of the host's end
	WantGIDs  []string          // addresses that must stand in rxe0's GID table
	Modules   []string          // kernel modules to load, as paths, in this order
	Links     map[string]string // symbolic links to make: name to target
}

// SetupPath is where the guest finds its GuestSetup, as JSON.
const SetupPath = "/etc/goroce-lab.json"

// Frame is one message.
type Frame struct {
	ID   uint32
	Kind Kind
	Data []byte
}

// Conn sends and receives frames over a byte stream. Send may be called by many goroutines at once,
// Recv by one.
type Conn struct {
	r   *bufio.Reader
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewConn makes a Conn over rw.
func NewConn(rw io.ReadWriter) *Conn {
	return &Conn{r: bufio.NewReaderSize(rw, 64<<10), w: rw}
}

const headerLen = 9 // length of the payload (4), command (4), kind (1)

// Send sends one frame; data of a stream is at most MaxData bytes.
func (c *Conn) Send(id uint32, kind Kind, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = binary.BigEndian.AppendUint32(c.buf[:0], uint32(len(data)))
	c.buf = binary.BigEndian.AppendUint32(c.buf, id)
	c.buf = append(c.buf, byte(kind))
	c.buf = append(c.buf, data...)
	_, err := c.w.Write(c.buf)
	return err
}

// SendJSON sends one frame with body as JSON.
func (c *Conn) SendJSON(id uint32, kind Kind, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.Send(id, kind, data)
}

// SendCredit tells the other side that n bytes of command id were consumed.
func (c *Conn) SendCredit(id uint32, n int) error {
	return c.Send(id, Credit, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// CreditOf returns the number of bytes in a Credit frame.
func CreditOf(f Frame) int {
	if len(f.Data) != 4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(f.Data))
}

const maxFrame = 16 << 20

// Recv returns the next frame; its data belongs to the caller.
func (c *Conn) Recv() (Frame, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > maxFrame {
		return Frame{}, fmt.Errorf("message of %d bytes, at most %d are allowed: the stream is out of step",
			n, maxFrame)
	}
	f := Frame{ID: binary.BigEndian.Uint32(h[4:]), Kind: Kind(h[8]), Data: make([]byte, n)}
	_, err := io.ReadFull(c.r, f.Data)
	return f, err
}

// Window counts the bytes that may still be sent. The zero value is not usable: see NewWindow.
type Window struct {
	mu     sync.Mutex
	more   *sync.Cond
	free   int
	closed bool
}

// NewWindow returns a window of n bytes.
func NewWindow(n int) *Window {
	w := &Window{free: n}
	w.more = sync.NewCond(&w.mu)
	return w
}

// Take waits until n bytes may be sent and takes them; false: the window was closed.
func (w *Window) Take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free < n && !w.closed {
		w.more.Wait()
	}
	w.free -= n
	return !w.closed
}

// Give returns n bytes to the window.
func (w *Window) Give(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free += n
	w.more.Broadcast()
}

// Close lets every Take return false.
func (w *Window) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.more.Broadcast()
}

// Queue holds frames for one reader. It never blocks the writer: the windows bound it.
type Queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	frames []Frame
	closed bool
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

// Push adds a frame.
func (q *Queue) Push(f Frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.frames = append(q.frames, f)
	q.more.Signal()
}

// Pop waits for a frame; false: the queue was closed and is empty.
func (q *Queue) Pop() (Frame, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.frames) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.frames) == 0 {
		return Frame{}, false
	}
	f := q.frames[0]
	q.frames = q.frames[1:]
	return f, true
}

// Close lets Pop return false once the queue is empty.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
