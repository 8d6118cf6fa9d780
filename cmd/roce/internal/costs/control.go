package costs

// How the two ends meet and tell each other what is next: lines of JSON over TCP. The client
// orders, the server answers each order once.
//
//	client  hello{table, size}                server  hello{}
//	client  order{way, place}                 server  reply{place}        the way is open
//	client  order{stop}                       server  reply{cpu, packets} the way is closed
//	client  closes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace"
)

// place is where an end of a way can be reached.
type place struct {
	Port     int            `json:"port,omitempty"` // sockets
	Endpoint *roce.Endpoint `json:"endpoint,omitempty"`
	Addr     uint64         `json:"addr,omitempty"` // RDMA: of the memory to write
	RKey     uint32         `json:"rkey,omitempty"`
}

type hello struct {
	Program string `json:"program"`
	Table   string `json:"table,omitempty"`
	Size    int    `json:"size,omitempty"`
}

type order struct {
	Way   int   `json:"way"` // its number in the table
	Stop  bool  `json:"stop,omitempty"`
	Place place `json:"place"`
}

type reply struct {
	Error   string        `json:"error,omitempty"`
	Place   place         `json:"place"`
	CPU     time.Duration `json:"cpu,omitempty"`
	Packets uint64        `json:"packets,omitempty"`
}

// program says who is at the other end; the number counts versions of these messages.
const program = "goroce costs 1"

// link is the connection on which orders go.
type link struct {
	net.Conn
	in *bufio.Reader
}

// maxLine is more than any message has; what is longer is not ours.
const maxLine = 4096

func newLink(c net.Conn) *link { return &link{c, bufio.NewReaderSize(c, maxLine)} }

func listen(ctx context.Context, at string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen for the other end on TCP %s: %w; choose another with --port", at, err)
	}
	return l, nil
}

// accept waits for one peer.
func accept(ctx context.Context, l net.Listener) (*link, error) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("wait for the other end: %w", err)
	}
	return newLink(c), nil
}

func dial(ctx context.Context, host string, port int) (*link, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp",
		net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w; does it run with --server and the same --port (%d)?",
			err, port)
	}
	return newLink(c), nil
}

func (l *link) send(message any) error {
	text, err := json.Marshal(message)
	if err == nil {
		_, err = l.Write(append(text, '\n'))
	}
	return err
}

// receive reads one message. The error is io.EOF if the peer has left in good order.
func (l *link) receive(message any) error {
	line, err := l.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("the other end sent more than %d bytes without an end of line: is it this program?", maxLine)
	case err == io.EOF && len(line) > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	if err := json.Unmarshal(line, message); err != nil {
		return fmt.Errorf("the other end sent %.80q: %w; is it this program?", line, err)
	}
	return nil
}

// exchange sends an order and waits for the reply to it.
func (l *link) exchange(o order) (r reply, err error) {
	if err = l.send(o); err == nil {
		err = l.receive(&r)
	}
	if err == nil && r.Error != "" {
		err = fmt.Errorf("the server: %s", trace.Printable(r.Error))
	}
	return r, err
}

func (l *link) ends() (local, remote netip.Addr) {
	of := func(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }
	return of(l.LocalAddr()), of(l.RemoteAddr())
}
