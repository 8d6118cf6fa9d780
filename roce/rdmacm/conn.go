package rdmacm

// Connections for Go programs: a queue pair in RTS, and what belongs to it.
//
// Stages: what is asked for; making the queue pair; what happens to the connection; draining and
// closing it.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// ErrIncomplete is matched by the error of a Conn.Close that could not do all: requests that were
// posted are not known to have been carried out, or the peer did not answer.
var ErrIncomplete = errors.New("not everything was done before the connection was closed")

// ConnConfig says what connections are made of. The zero value is right for most uses.
type ConnConfig struct {
	Config

	// Local is the address that Dial connects from; the zero Addr: the system chooses.
	Local netip.Addr

	// Bound, if not nil, is an ID of PSTCP that Dial or Listen uses in place of a new one: bound,
	// for Listen in place of its address, or with options that have no place here. It is theirs
	// from then on, and closed if they fail; ErrBusy if it was another one's already. Of several
	// addresses Dial tries the first alone.
	Bound *ID

	// Setup, if not nil, says in which protection domain and from what a connection's queue pair is
	// made; of the connection it may use Device, PrivateData and AtClose. They are the
	// application's: what is the connection's alone it closes by Conn.AtClose, and completions are
	// its own affair, also those of Close, which does not drain. If it is nil each connection has a
	// domain and a completion queue of its own.
	Setup func(*Conn) (*roce.PD, roce.QPInitAttr, error)
	Cap   roce.QPCap // sizes if Setup is nil; zero: roce.DefaultQPCap

	// Prepare, if not nil, is called when the queue pair is there and the peer cannot send yet: the
	// place to register memory and to post receives. An error ends the attempt.
	Prepare func(*Conn) error

	// Ended, if not nil, is called when Done is closed, on a goroutine of its own.
	Ended func(*Conn)

	// Param is what the peer is told; nil is what Connect and Accept make of it. QPN and SRQ do not
	// count.
	Param *ConnParam

	TOS        uint8 // IPv4 TOS or IPv6 traffic class
	AckTimeout uint8 // see ID.SetAckTimeout; 0: as the path has it
}

// Conn is a connection. All methods may be called from any goroutine.
type Conn struct {
	// Context is the application's own: at first the QPInitAttr.Context that Setup has returned.
	// Prepare may set it, for the caller of Listener.Accept.
	Context any

	id      *ID
	ch      *EventChannel // that is closed with it; nil: that of a listener
	dev     *roce.Device
	pd      *roce.PD
	ownPD   bool
	cq      *roce.CQ // nil if the application has made it (Setup)
	qp      *roce.QP
	private []byte                     // what the peer has said
	says    []byte                     // what it is told, if Prepare has said that
	cfg     atomic.Pointer[ConnConfig] // nil until Setup has returned

	steps chan *Event   // until the connection is established
	done  chan struct{} // closed when it is over

	mu      sync.Mutex
	over    chan struct{} // made by the first Close, closed when all is given back
	closed  bool          // so far that atClose has been taken
	atClose []func() error
	why     error // set before done is closed
	ended   sync.Once
}

// maxSteps is more than there are events before a connection is established, and after it.
const maxSteps = 8

func newConn() *Conn {
	return &Conn{steps: make(chan *Event, maxSteps), done: make(chan struct{})}
}

// happens takes in an event. It is the sink of the connection's channel.
func (c *Conn) happens(e *Event) {
	switch e.Type {
	case EventDisconnected, EventDeviceRemoval:
		c.ended.Do(func() {
			c.why = e.Err
			cfg := c.cfg.Load() // before a Setup that waits for done returns
			close(c.done)
			if cfg != nil && cfg.Ended != nil {
				go cfg.Ended(c)
			}
		})
	}
	select {
	case c.steps <- e:
	default: // nobody waits for it any more
	}
}

// await waits for an event of a type. Another one is the error.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	for {
		select {
		case e := <-c.steps:
			switch {
			case e.Type == want:
				return e, nil
			case e.Type == EventTimewaitExit:
			case e.Type == EventRejected:
				return nil, &RejectedError{Reason: e.Status, PrivateData: e.Param.PrivateData}
			case e.Err != nil:
				return nil, e.Err
			default:
				return nil, fmt.Errorf("%w: %v while waiting for %v", ErrUnreachable, e.Type, want)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// RejectedError is the error of a Dial that the peer has refused. It matches ErrUnreachable, and as
// that of librdmacm and of TCP, syscall.ECONNREFUSED.
type RejectedError struct {
	// Reason is one of section 9.3: 8 nobody listens there, 28 the application refuses, and so on.
	Reason      int
	PrivateData []byte // what the peer's application says, MaxRejectData bytes; nil if nothing
}

// Error says the reason.
func (e *RejectedError) Error() string { return refuses(wire.CMRejReason(e.Reason)) }

// refuses says the reason, a CMRejReason or a CMSidrStatus, in the words of the specification, and
// the usual ones in plain words too.
func refuses(reason fmt.Stringer) string {
	said := fmt.Sprintf("the peer refuses: %v", reason)
	switch reason {
	case wire.CMRejInvalidService, wire.CMSidrUnsupported:
		said += " (nobody listens on that port there)"
	case wire.CMRejConsumer:
		said += " (its program said no)"
	}
	return said
}

// Is says that the peer cannot be reached, for it refuses.
func (e *RejectedError) Is(target error) bool {
	return target == ErrUnreachable || target == syscall.ECONNREFUSED
}

// build makes the queue pair on the ID's device.
func (c *Conn) build(cfg *ConnConfig) error {
	c.dev = c.id.Device()
	attr := roce.QPInitAttr{Cap: cfg.Cap}
	var err error
	if cfg.Setup != nil {
		c.pd, attr, err = cfg.Setup(c)
	} else {
		err = c.buildOwn(&attr)
	}
	if err != nil {
		return err
	}
	c.Context = attr.Context
	c.cfg.Store(cfg)
	if c.qp, err = c.id.CreateQP(c.pd, attr); err != nil {
		return err
	}
	if err = c.fitOwn(); err != nil {
		return err
	}
	if cfg.Prepare != nil {
		return cfg.Prepare(c)
	}
	return nil
}

// buildOwn makes a protection domain and a completion queue as large as the queue pair's two
// queues.
func (c *Conn) buildOwn(attr *roce.QPInitAttr) (err error) {
	if attr.Cap == (roce.QPCap{}) {
		attr.Cap = roce.DefaultQPCap()
	}
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return err
	}
	c.ownPD = true
	c.cq, err = c.dev.CreateCQ(roce.CQInitAttr{CQE: int(max(attr.Cap.MaxSendWR+attr.Cap.MaxRecvWR, 1))})
	attr.SendCQ = c.cq
	return err
}

// fitOwn gives the completion queue room for all that the queue pair has room for, which may be
// more than was asked for.
func (c *Conn) fitOwn() error {
	has, err := c.qp.Query()
	if err != nil || c.cq == nil {
		return err
	}
	if n := int(has.Cap.MaxSendWR + has.Cap.MaxRecvWR); n > c.cq.Cap() {
		return c.cq.Resize(n)
	}
	return nil
}

// abandon gives back a connection that nobody gets.
func (c *Conn) abandon() error {
	if _, first := c.ends(); !first {
		return nil
	}
	return c.giveBack()
}

// ends says whether this is the first call that ends the connection, and what is closed when that
// one is done.
func (c *Conn) ends() (over chan struct{}, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first = c.over == nil; first {
		c.over = make(chan struct{})
	}
	return c.over, first
}

// told is what the peer is told: what Prepare has said, or the configuration.
func (c *Conn) told(param *ConnParam) *ConnParam {
	if c.says == nil {
		return param
	}
	p := defaultParam(param)
	p.PrivateData = c.says
	return &p
}

// Say is for Prepare: data is what the peer is told, in place of ConnConfig.Param's PrivateData or
// the reply of ListenConfig.Decide.
func (c *Conn) Say(data []byte) { c.says = data }

// QP is the queue pair, in RTS.
func (c *Conn) QP() *roce.QP { return c.qp }

// PD is the queue pair's protection domain.
func (c *Conn) PD() *roce.PD { return c.pd }

// CQ is where all of the queue pair's requests complete; nil if ConnConfig.Setup has made the queue
// pair's own.
func (c *Conn) CQ() *roce.CQ { return c.cq }

// Device is the device that the connection is on.
func (c *Conn) Device() *roce.Device { return c.dev }

// LocalAddr is this side's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.id.LocalAddr() }

// RemoteAddr is the peer's address and port.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.id.PeerAddr() }

// PrivateData is what the peer has said when the connection was made: MaxConnectData or
// MaxAcceptData bytes, with zeros behind. In Prepare of Dial it is nil.
func (c *Conn) PrivateData() []byte { return c.private }

// Done is closed when the connection is over, whoever has ended it. What had completed can still be
// polled. Close gives back what the connection has.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection is over, when Done is closed: nil if one of the two sides has
// disconnected.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.why
	default:
		return nil
	}
}

// Close ends the connection. First it waits until all that was posted to the send queue has been
// carried out, if the completion queue is the connection's own: it takes over polling that queue,
// and throws away what it finds. Then it disconnects, and waits for the peer's answer. Whatever
// comes of that, and when ctx ends, everything is given back, and the error matches ErrIncomplete
// and says what is not known to have been done. What the peer has sent and nobody has received is
// lost: programs agree on the end of their talk by messages of their own. Regions of Conn.PD that
// AtClose does not close must be closed before, or are an ErrBusy. A second Close does nothing but
// wait for the first; if ctx ends before, it returns its error.
func (c *Conn) Close(ctx context.Context) error {
	if over, first := c.ends(); !first {
		select {
		case <-over:
		case <-ctx.Done():
			select {
			case <-over:
			default:
				return fail("Close", ctx.Err())
			}
		}
		return nil
	}
	var errs []error
	if err := c.drain(ctx); err != nil {
		errs = append(errs, fmt.Errorf("rdmacm: Close: %w: %w", ErrIncomplete, err))
	}
	if err := c.disconnect(ctx); err != nil {
		errs = append(errs, fmt.Errorf("rdmacm: Close: %w: %w", ErrIncomplete, err))
	}
	return errors.Join(append(errs, c.giveBack())...)
}

// AtClose has Close call f when the connection has ended and its queue pair is closed, before its
// protection domain is: the place to close regions. The last f comes first. It is called too if the
// connection never comes to be, so Setup and Prepare use it for what they make; of a connection
// that is closed it is called at once. AtClose waits for nobody, also while Close does. f must not
// call Close or AtClose.
func (c *Conn) AtClose(f func() error) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.atClose = append(c.atClose, f)
	}
	c.mu.Unlock()
	if closed {
		f()
	}
}

// errEnded is what becomes of requests over iWARP when the peer leaves first: nobody says.
var errEnded = errors.New("the connection has ended before")

// marker is the WRID of the request that Close posts.
const marker = uint64(0x636c6f7365)

// drain posts a request behind all others, a WRITE of nothing, and waits for its end. What becomes
// of that one does not matter: if the peer has disconnected first it fails, but those before it
// have been carried out unless they fail as well. Receives that are flushed are no requests of
// ours; a device of the kernel does not always tell them apart, and then Close errs on the safe
// side.
func (c *Conn) drain(ctx context.Context) error {
	if c.cq == nil {
		return nil
	}
	if !c.id.raises() { // over iWARP nothing completes that is posted after the end
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-c.done:
				cancel(errEnded)
			case <-over:
				cancel(nil)
			}
		}()
	}
	posted, failed := false, 0
	var first roce.WC
	var wcs [16]roce.WC
	for {
		n, err := c.cq.Poll(wcs[:])
		if n == 0 && err == nil {
			if !posted { // the completion queue is empty, and has room for one more
				err := c.qp.PostSend(roce.SendWR{WRID: marker, Opcode: roce.WRWrite, Flags: roce.SendSignaled})
				if err != nil && !errors.Is(err, roce.ErrFull) {
					return err
				}
				posted = err == nil
			}
			n, err = c.cq.Wait(ctx, wcs[:])
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		for _, wc := range wcs[:n] {
			switch {
			case posted && wc.WRID == marker && wc.Opcode&roce.WCRecv == 0:
				if failed > 0 && first.Status == roce.WCRetryExcErr && first.VendorErr == roce.VendorErrTooLong {
					return fmt.Errorf("%d requests failed: %w", failed, roce.ErrTooLong)
				}
				if failed > 0 {
					return fmt.Errorf("%d requests failed, the first with %v", failed, first.Status)
				}
				return nil
			case wc.Status != roce.WCSuccess && wc.Opcode&roce.WCRecv == 0:
				if failed++; failed == 1 {
					first = wc
				}
			}
		}
	}
}

// disconnect tells the peer, and waits for its answer.
func (c *Conn) disconnect(ctx context.Context) error {
	err := c.id.Disconnect()
	switch {
	case errors.Is(err, ErrState): // it is over
		return c.Err()
	case err != nil:
		return err
	}
	select {
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack closes what the connection has. Until all of it is closed it uses the device: one that
// this package has opened is not closed in between.
func (c *Conn) giveBack() error {
	if c.dev != nil {
		if a, err := share(c.dev, nil); err == nil {
			defer a.release()
		}
	}
	defer close(c.over)
	err := c.id.Close()
	c.mu.Lock()
	c.closed = true
	atClose := c.atClose
	c.mu.Unlock()
	for _, f := range slices.Backward(atClose) {
		err = errors.Join(err, f())
	}
	if c.cq != nil {
		err = errors.Join(err, c.cq.Close())
	}
	if c.ownPD {
		err = errors.Join(err, c.pd.Close())
	}
	if c.ch != nil {
		err = errors.Join(err, c.ch.Close())
	}
	return err
}
