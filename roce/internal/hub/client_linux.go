package hub

// A process that has a slot. What it sends and receives goes by its own sockets: of the hub it
// needs queue pair 1 (qp1.go), and that somebody keeps the sockets of all. So it goes on when the
// hub ends, and calls until there is another one, to which it brings what it has.
//
// Stages: joining; the slot; what comes; a new hub; listeners; the end.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

const (
	// joinTime is how long a hub may take to make sockets and answer. It only ends what would hang.
	joinTime = 30 * time.Second
	// listenTime is how long a listener waits for a hub's word.
	listenTime = 5 * time.Second
	// unlistenTime is how long the end of one, or of the device, does.
	unlistenTime = time.Second
	// soonest and latest are how long to wait until a hub that is gone is called again.
	soonest, latest = 20 * time.Millisecond, time.Second
	// lookTime is how long a hub may take to say which addresses it has.
	lookTime = time.Second
	// maxCome is how many messages wait for the application. What comes on top is lost, and
	// repeated by its sender.
	maxCome = 4096
)

// Client is such a process, of one address. Any goroutine may call it.
type Client struct {
	join   Join
	report func() Report
	ready  chan struct{} // holds a token when something has come
	ended  chan struct{} // closed when the goroutine has ended
	ctx    context.Context
	end    context.CancelFunc

	asking  sync.Mutex // questions, one at a time; taken before mu
	number  uint64     // of the last one
	answers chan Answer

	mu       sync.Mutex
	conn     *Conn // nil: the hub is gone
	has      Joined
	files    Files // sockets, deck and shelf
	deck     []byte
	ledger   *Ledger
	services []Service
	come     []cm.Message
	lost     uint64

	foreignLost atomic.Uint64

	taking          sync.Mutex // for what follows
	takesIn         func(f *wire.Frame) bool
	brought, noRoom uint64
}

// Open joins the hub, which is started if there is none and start says so. where is an address, or
// an interface for all that it has; lanes and port are those of the sockets.
func Open(ctx context.Context, where string, lanes, port int, start bool) (*Client, error) {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	c := &Client{
		join: Join{Version: Version, Where: where, Lanes: lanes, UDPPort: port, Program: filepath.Base(program),
			Since: time.Now().Unix()},
		ready:   make(chan struct{}, 1),
		ended:   make(chan struct{}),
		answers: make(chan Answer, 1),
		ledger:  NewLedger(),
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	for {
		conn, err := Dial(ctx, start)
		if err != nil {
			return nil, err
		}
		if err = c.first(ctx, conn); err == nil {
			c.conn = conn
			go c.run(conn)
			return c, nil
		}
		conn.Close()
		// It may have ended just then, because nobody had anything for it to do.
		if ended := errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.EOF); !ended {
			return nil, err
		}
	}
}

// Has tells whether a hub of this user, which it does not start, has an address, or one of an
// interface.
func Has(ctx context.Context, where string, port int) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	conn, err := Dial(ctx, false)
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	h, err := ask(conn, KindShared, nil)
	if err != nil {
		return false
	}
	defer h.Close()
	var s Status
	rows, err := udp.Addresses(where)
	if err != nil || h.Get(&s) != nil {
		return false
	}
	return slices.ContainsFunc(append(s.Addresses, s.Awaited...), func(a AddressStatus) bool {
		shared := func(r netip.Addr) bool { return slices.Contains(a.Addrs, r) }
		return a.Port == port && slices.ContainsFunc(rows, shared)
	})
}

// first joins a hub as one that has nothing yet.
func (c *Client) first(ctx context.Context, conn *Conn) error {
	if d, ok := ctx.Deadline(); ok {
		conn.SetDeadline(d)
	}
	h, err := ask(conn, KindJoin, c.join)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := c.joined(&h); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// ask waits for the answer to a message, which is the next one of its kind.
func ask(conn *Conn, k Kind, what any, files ...int) (h Heard, err error) {
	if err := conn.Say(k, what, files...); err != nil {
		return h, err
	}
	for {
		if h, err = conn.Hear(); err != nil || h.Kind == k {
			return h, err
		}
		h.Close()
	}
}

// joined takes in the hub's answer.
func (c *Client) joined(h *Heard) error {
	if err := h.Get(&c.has); err != nil {
		return fmt.Errorf("the hub's answer: %w", err)
	}
	switch want := len(c.has.Addrs)*c.join.Lanes + 2; {
	case c.has.Error != "":
		return errors.New(c.has.Error)
	case len(h.Files) != want || c.has.Files != want:
		return fmt.Errorf("%d descriptors came of the hub, want %d", len(h.Files), want)
	}
	deck, err := unix.Mmap(h.Files[len(h.Files)-2], 0, soft.DealtSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("the memory of queue pair numbers: %w", err)
	}
	c.files, c.deck, h.Files = h.Files, deck, nil
	c.join.Where = c.has.Where
	return nil
}

// Ports opens the slot, a port for each lane; name is what they are called. The error is an
// *transport.OpenError.
func (c *Client) Ports(name string, o transport.Options) ([]transport.Port, error) {
	s := udp.Slot{Addrs: slices.Clone(c.has.Addrs), QPNs: c.has.QPNs}
	for row := range c.has.Addrs {
		s.FDs = append(s.FDs, slices.Clone(c.files[row*c.join.Lanes:][:c.join.Lanes]))
	}
	o.UDPPort = c.join.UDPPort
	return udp.OpenSlot(name, s, o)
}

// Deck is the memory of the numbers that the slot has dealt (roce.Config.Dealt), until Close.
func (c *Client) Deck() []byte { return c.deck }

func (c *Client) shelf() int { return c.files[len(c.files)-1] }

// Reports has f say what runs on the device. It is called by another goroutine.
func (c *Client) Reports(f func() Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = f
}

// run takes in what comes, of one hub after the other.
func (c *Client) run(conn *Conn) {
	defer close(c.ended)
	for conn != nil {
		c.hear(conn)
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
		conn.Close()
		select {
		case c.answers <- Answer{To: ended}:
		default:
		}
		conn = c.again()
	}
}

// hear takes in what a hub says, until it ends.
func (c *Client) hear(conn *Conn) {
	for {
		h, err := conn.Hear()
		if err != nil {
			return
		}
		switch h.Kind {
		case KindMAD:
			if from, mad, ok := h.MAD(); ok {
				c.take(from, mad)
			}
		case KindFrame:
			if f, ok := h.Frame(); ok {
				c.takeFrame(&f)
			}
		case KindListen:
			var a Answer
			if h.Get(&a) != nil {
				a.Error = "the hub's answer is none"
			}
			select {
			case c.answers <- a:
			default: // nobody waits any more
			}
		case KindReport:
			c.mu.Lock()
			report := c.report
			c.mu.Unlock()
			var r Report
			if report != nil {
				r = report()
			}
			c.mu.Lock()
			r.Lost = c.lost
			c.mu.Unlock()
			c.taking.Lock()
			r.Brought, r.BroughtLost, r.ForeignLost = c.brought, c.noRoom, c.foreignLost.Load()
			c.taking.Unlock()
			conn.Offer(KindReport, r)
		}
		h.Close()
	}
}

// take keeps a message for the application.
func (c *Client) take(from cm.Path, mad *wire.MAD) {
	c.mu.Lock()
	if len(c.come) < maxCome {
		c.ledger.Received(&from, mad)
		c.come = append(c.come, cm.Message{Path: from, MAD: *mad})
	} else {
		c.lost++
	}
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// again calls until there is another hub, and brings it what there is; nil: the client has ended.
func (c *Client) again() *Conn {
	for wait := soonest; c.ctx.Err() == nil; wait = min(2*wait, latest) {
		if conn, err := c.rejoin(); err == nil {
			return conn
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// rejoin calls a hub, which is another one, and brings it what there is.
func (c *Client) rejoin() (*Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, joinTime)
	defer cancel()
	conn, err := Dial(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := c.bring(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Client) bring(ctx context.Context, conn *Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	join := c.join
	join.Again = &Again{Joined: c.has}
	h, err := ask(conn, KindJoin, join, c.shelf())
	if err != nil {
		return err
	}
	defer h.Close()
	var a Answer
	if err := h.Get(&a); err != nil || a.Error != "" {
		return errors.Join(err, errors.New(a.Error))
	}
	if !stop() { // it has stood still for long, and the hub may be another one by now
		return ctx.Err()
	}
	conn.SetWriteDeadline(time.Now().Add(listenTime))
	defer conn.SetWriteDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return c.ctx.Err() // Close looks for a call under this lock
	}
	known := c.ledger.All()
	known.Services = c.services
	for some := range known.parts() {
		if err := conn.Say(KindKnown, some); err != nil {
			return err
		}
	}
	c.conn = conn
	return nil
}

// parts are what fits into messages.
func (k *Known) parts() iter.Seq[Known] {
	return func(yield func(Known) bool) {
		most := max(len(k.Services), len(k.Estates), len(k.Asked))
		for at := 0; ; at += KnownAtOnce {
			last := at+KnownAtOnce >= most
			some := Known{part(k.Services, at), part(k.Estates, at), part(k.Asked, at), last}
			if !yield(some) || last {
				return
			}
		}
	}
}

// part is that of a list which begins at a place.
func part[T any](list []T, at int) []T {
	return list[min(at, len(list)):min(at+KnownAtOnce, len(list))]
}

// Listen has requests for a service come here. The error says that another process listens there
// (taken), or that there is no hub.
func (c *Client) Listen(s Service) (taken bool, err error) {
	c.mu.Lock()
	c.services = append(c.services, s) // first: a hub that ends after its answer is told by it
	c.mu.Unlock()
	a := c.asks(Listen{Service: s})
	if a.Error != "" {
		c.Unlisten(s)
		return a.Taken, errors.New(a.Error)
	}
	return false, nil
}

// Unlisten ends that. When it returns another process may listen there, unless the hub stands
// still.
func (c *Client) Unlisten(s Service) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	if i := slices.Index(c.services, s); i >= 0 {
		c.services = slices.Delete(c.services, i, i+1)
	}
	conn := c.conn
	c.mu.Unlock()
	c.ask()
	if conn != nil && conn.Offer(KindListen, Listen{Service: s, End: true, Number: c.number}) {
		ctx, cancel := context.WithTimeout(c.ctx, unlistenTime)
		defer cancel()
		c.answer(ctx)
	}
}

// ask is the number of the next question. What has come of earlier ones is nobody's any more.
func (c *Client) ask() uint64 {
	for len(c.answers) > 0 {
		<-c.answers
	}
	c.number++
	return c.number
}

// answer waits for that to the last question; false: it does not come, from this hub at least.
func (c *Client) answer(ctx context.Context) (a Answer, ok bool) {
	for {
		select {
		case a := <-c.answers:
			if a.To == c.number || a.To == ended {
				return a, a.To != ended
			} // others are of what nobody waits for any more
		case <-ctx.Done():
			return a, false
		}
	}
}

// ended is the number of the answer that a hub which has ended does not give.
const ended = 0

// asks waits for the hub's answer, and if the hub has gone, for the next one's.
func (c *Client) asks(what Listen) Answer {
	c.asking.Lock()
	defer c.asking.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, listenTime)
	defer cancel()
	what.Number = c.ask()
	for {
		c.mu.Lock()
		conn := c.conn
		c.mu.Unlock()
		if conn != nil && conn.Offer(KindListen, what) {
			if a, ok := c.answer(ctx); ok {
				return a
			}
		}
		select {
		case <-time.After(soonest):
		case <-ctx.Done():
			return Answer{Error: "the hub does not answer, or has ended and there is no other"}
		}
	}
}

// Close leaves the hub. The device is closed before.
func (c *Client) Close() error {
	c.end()
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil && conn.Poke(KindLeave) {
		select { // the hub ends the call when the slot is another's to have
		case <-c.ended:
		case <-time.After(unlistenTime):
		}
	}
	if conn != nil {
		conn.Close()
	}
	<-c.ended
	c.files.Close()
	return unix.Munmap(c.deck)
}
