package roce

// The completion queue: where work requests end. Stages: making one, polling, watching memory,
// notification, waiting, size and moderation, closing.

import (
	"context"
	"fmt"
	"time"

	"github.com/goroce/goroce/roce/internal/soft"
)

// CQInitAttr says what completion queue to make (ibv_cq_init_attr_ex).
type CQInitAttr struct {
	// CQE is how many completions the queue holds at least, 1 to DeviceAttr.MaxCQE; it is rounded
	// up to a power of two. A queue that overruns loses completions for good and its queue pairs go
	// to the error state (EventCQErr, and EventQPFatal of each of them; what had completed before
	// can still be polled). So make it as large as the sum of the send and receive queues that
	// complete there, or Resize it, and poll what has completed before more is posted: it counts
	// until it was polled, but its slot in the send queue is free before.
	CQE int

	Context any // the application's own, returned by CQ.Context
	// where ReqNotify has completions told; nil: nowhere, for Poll and Wait only
	Channel *CompChannel
	Vector  int // completion vector, 0 to DeviceAttr.NumCompVectors-1

	// WCFlags is what PollEx is to tell beside a WC's own fields.
	WCFlags WCExFlags
	Flags   CQFlags
}

// WCExFlags are fields of completions (IBV_WC_EX_*), to be asked for when a queue is made.
type WCExFlags uint32

// Fields of completions. WCExStandard are the fields of ibv_wc, which need not be asked for: a WC
// has them, but for the LIDs and path bits that RoCE does not have.
const (
	WCExStandard                         WCExFlags = 1<<7 - 1
	WCExWithCompletionTimestamp          WCExFlags = 1 << 7  // WCEx.Timestamp
	WCExWithCompletionTimestampWallclock WCExFlags = 1 << 11 // WCEx.Wallclock

	wcExKnown = WCExStandard | WCExWithCompletionTimestamp | WCExWithCompletionTimestampWallclock
)

// CQFlags are promises about a completion queue (IBV_CREATE_CQ_ATTR_*).
type CQFlags uint32

// What an application may promise.
const (
	// CQSingleThreaded: one goroutine at a time uses the queue, and closes or resets the queue
	// pairs that complete there; others may post to these. Then a poll takes no lock. What comes of
	// breaking the promise is undefined: completions may be polled twice or be lost.
	CQSingleThreaded CQFlags = 1 << 0
	// CQIgnoreOverrun: the queue is never overrun. The promise is accepted, but not relied on: an
	// overrun is told of as always, instead of being looked for in vain.
	CQIgnoreOverrun CQFlags = 1 << 1
)

// CQ is a completion queue (ibv_cq). All methods may be called from any goroutine, unless
// CQSingleThreaded was promised.
type CQ struct {
	dev     *Device
	context any
	channel *CompChannel

	cq   cqProvider
	soft *soft.CQ // the same, by its concrete type: one of the two
	hw   *hwCQ
}

func (c *CQ) kind() string  { return "CQ" }
func (c *CQ) label() string { return "" }
func (c *CQ) needs() []object {
	if c.channel == nil {
		return nil
	}
	return []object{c.channel}
}

// CreateCQ makes a completion queue (ibv_create_cq_ex). ErrInvalid names the attribute that is
// wrong, ErrLimit is a device that is full, ErrClosed a device or channel that is closed,
// ErrNotSupported a field of completions that the device does not tell.
func (d *Device) CreateCQ(attr CQInitAttr) (c *CQ, err error) {
	err = d.create("CreateCQ", func() error {
		if vectors := d.provider.attr().NumCompVectors; attr.Vector < 0 || attr.Vector >= vectors {
			return fmt.Errorf("%w: completion vector %d, the device has %d", ErrInvalid, attr.Vector, vectors)
		}
		switch {
		case attr.Flags&^(CQSingleThreaded|CQIgnoreOverrun) != 0:
			return fmt.Errorf("%w: CQInitAttr.Flags 0x%x, known are 0x%x",
				ErrInvalid, attr.Flags, CQSingleThreaded|CQIgnoreOverrun)
		case attr.WCFlags&^wcExKnown != 0:
			return fmt.Errorf("%w: CQInitAttr.WCFlags 0x%x, only 0x%x are told",
				ErrNotSupported, attr.WCFlags, wcExKnown)
		}
		c = &CQ{dev: d, context: attr.Context, channel: attr.Channel}
		var notify func()
		if ch := attr.Channel; ch != nil {
			if err := d.checkOwn("completion channel", ch.dev); err != nil {
				return err
			}
			if !d.objects.has(ch) {
				return fmt.Errorf("completion channel: %w", ErrClosed)
			}
			notify = func() { ch.put(c) }
		}
		below, err := d.provider.createCQ(c, &attr, notify)
		if err == nil {
			c.cq = below
			d.objects.add(c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Device returns the device that the queue is on.
func (c *CQ) Device() *Device { return c.dev }

// Context is CQInitAttr.Context.
func (c *CQ) Context() any { return c.context }

// Channel is CQInitAttr.Channel.
func (c *CQ) Channel() *CompChannel { return c.channel }

// Cap returns how many completions the queue holds.
func (c *CQ) Cap() int { return c.cq.Cap() }

// Len returns how many completions wait to be polled.
func (c *CQ) Len() int { return c.cq.Len() }

// Poll takes up to len(wcs) completions and returns how many (ibv_poll_cq); it never sleeps. When
// there are none it runs the stack on the calling goroutine first, which is what makes a polling
// application fast. Completions of one queue pair come in order. The error is ErrOverrun once
// completions were lost, ErrClosed after Close; then the number is 0.
//
// Acknowledgements of what a Poll has received may be left to the next calls of an application that
// always comes back at once: they leave with its next post, at the latest with the fourth Poll or
// the first one after 25 us, or when the background notices, within about a millisecond, that it
// polls no more. NAKs and CNPs leave before Poll returns. Before the process exits, close its queue
// pairs and then the device (Device.Close).
func (c *CQ) Poll(wcs []WC) (n int, err error) {
	if withHW && c.hw != nil {
		n, err = c.hw.Poll(wcs)
	} else {
		n, err = c.soft.Poll(wcs)
	}
	if err != nil {
		err = c.dev.fail("Poll", err)
	}
	return n, err
}

// PollEx is Poll for a queue that was asked to keep more of each completion (ibv_start_poll and
// ibv_wc_read_*): CQInitAttr.WCFlags. A queue may be polled with both.
func (c *CQ) PollEx(wcs []WCEx) (n int, err error) {
	if withHW && c.hw != nil {
		n, err = c.hw.PollEx(wcs)
	} else {
		n, err = c.soft.PollEx(wcs)
	}
	if err != nil {
		err = c.dev.fail("PollEx", err)
	}
	return n, err
}

// PollUntil watches memory that a peer writes: it runs the stack on the calling goroutine, as a
// polling application does, until done says that all is there. done is asked very often, and has to
// load what it looks at atomically. Completions that come meanwhile stay in the queue. The errors
// of Poll are its errors too; when ctx ends first it returns ctx.Err().
func (c *CQ) PollUntil(ctx context.Context, done func() bool) error {
	for n := 1; !done(); n++ {
		if n%untilLooks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if c.soft == nil { // a device of the kernel writes memory by itself
			continue
		}
		if err := c.soft.Run(); err != nil {
			return c.dev.fail("PollUntil", err)
		}
	}
	return nil
}

// untilLooks is after how many turns PollUntil looks at its context, so that this costs nothing.
const untilLooks = 64

// MaxLinger is the longest that Linger takes: a Poll may keep its goroutine for so long.
const MaxLinger = time.Millisecond

// Linger is for an application that watches memory without PollUntil, and calls the stack only for
// its own completions, as a program does that knows NICs only. A Poll that finds completions runs
// the stack for up to d longer, until a peer has executed a WRITE or atomic that leaves no
// completion, or another completion is there; it does so only while peers do that, and up to
// MaxLinger after long having done so. 0 ends it. 50 us suit a peer that answers at once. A device
// of the kernel needs none of this, and takes it all the same. ErrInvalid for d below 0 or above
// MaxLinger.
func (c *CQ) Linger(d time.Duration) error {
	if d < 0 || d > MaxLinger {
		return c.dev.fail("Linger", fmt.Errorf("%w: %v, want 0 to %v", ErrInvalid, d, MaxLinger))
	}
	if c.soft != nil {
		c.soft.Linger(d)
	}
	return nil
}

// ReqNotify arms the queue (ibv_req_notify_cq): the next completion, or with solicitedOnly the next
// one that its sender marked SendSolicited or that is an error, is told to the queue's channel,
// once. ErrInvalid if it has none, ErrClosed.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	err := c.dev.faults.verb("ReqNotify")
	if err == nil {
		err = c.cq.ReqNotify(solicitedOnly)
	}
	return c.dev.fail("ReqNotify", err)
}

// Wait takes up to len(wcs) completions, at least one, and waits for it if need be: it polls for
// some microseconds, as Poll does, then arms the queue and sleeps. When ctx ends first it returns
// ctx.Err(), with wcs of no length at once 0. The errors of Poll are its errors too. Several
// goroutines may wait on one queue, also on one that has a channel. That hears nothing of it, but a
// ReqNotify(true) may be answered by a completion that is not solicited.
//
// Where sleeps have been long lately it sleeps at once. If all that completes here comes from one
// lane and nobody else watches its port, the goroutine that waits does, so that a packet wakes one
// thread (a port of Linux sockets; one that Config.Wrap puts around it must have transport.Seats,
// too); otherwise the background is woken and wakes the goroutine.
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	n, err := c.cq.Wait(ctx, wcs)
	if err != nil && err != ctx.Err() {
		err = c.dev.fail("Wait", err)
	}
	return n, err
}

// Resize makes the queue hold at least cqe completions, 1 to DeviceAttr.MaxCQE (ibv_resize_cq); Cap
// tells how many it then holds. Those that are in it stay, in their order, and none is lost while
// queue pairs complete there and others poll. ErrInvalid if cqe is out of range or less than Len;
// ErrOverrun if it is too late; ErrClosed; ErrNotSupported if the device cannot. On error the queue
// is what it was.
func (c *CQ) Resize(cqe int) error {
	err := c.dev.faults.verb("Resize")
	if err == nil {
		err = c.cq.Resize(cqe)
	}
	return c.dev.fail("Resize", err)
}

// CQModeration says when the completions that ReqNotify asks for are told (ibv_moderate_cq): when
// there are Count of them, or the first of them is Period microseconds old. A Count below 2 or a
// Period of 0: at once. A device with several lanes (Config.Lanes) counts for each lane by itself,
// so that Count of them from different lanes may wait for the Period.
type CQModeration struct {
	Count  uint16
	Period uint16
}

// Modify sets the queue's moderation (ibv_modify_cq), so that an application which sleeps until it
// is notified is woken less often. Poll finds completions at once nevertheless, and Wait returns
// with the first one. After a goroutine was in Wait, the channel may be told once without delay.
// What is held back already counts: a smaller Count or Period takes effect on it.
// ErrClosed, and ErrNotSupported if the device has no moderation (DeviceAttr.MaxCQCount).
func (c *CQ) Modify(m CQModeration) error {
	return c.dev.fail("Modify", c.cq.Moderate(int(m.Count), time.Duration(m.Period)*time.Microsecond))
}

// Close destroys the queue (ibv_destroy_cq). While queue pairs complete there the error is ErrBusy
// and names them. Waiters return with ErrClosed, and the channel forgets what it has to tell of the
// queue. A second Close does nothing.
func (c *CQ) Close() error {
	return c.dev.destroy(c, func() error {
		if err := c.cq.Close(); err != nil {
			return err
		}
		if c.channel != nil {
			c.channel.remove(func(of *CQ) bool { return of == c })
		}
		return nil
	})
}
