package roce

// The completion queue: where work requests end.
// Stages: making one, polling, notification, waiting, closing.

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/roce/internal/soft"
)

// CQInitAttr says what completion queue to make (ibv_cq_init_attr_ex).
type CQInitAttr struct {
	// CQE is how many completions the queue holds at least, 1 to DeviceAttr.MaxCQE; it is rounded
	// up to a power of two. A queue that overruns loses completions for good and its queue pairs go
	// to the error state, so make it as large as the sum of the send and receive queues that
	// complete there.
	CQE int

	Context any // the application's own, returned by CQ.Context
	// where ReqNotify has completions told; nil: nowhere, for Poll and Wait only
	Channel *CompChannel
	Vector  int // completion vector, 0 to DeviceAttr.NumCompVectors-1
}

// CQ is a completion queue (ibv_cq). All methods may be called from any goroutine.
type CQ struct {
	dev     *Device
	context any
	channel *CompChannel

	cq   cqProvider
	soft *soft.CQ // the same, by its concrete type: one of the two
	hw   *hwCQ
}

func (c *CQ) kind() string     { return "CQ" }
func (c *CQ) label() string    { return "" }
func (c *CQ) needs(x any) bool { return c.channel != nil && x == any(c.channel) }

// CreateCQ makes a completion queue (ibv_create_cq_ex). ErrInvalid names the attribute that is
// wrong, ErrLimit is a device that is full, ErrClosed a device or channel that is closed.
func (d *Device) CreateCQ(attr CQInitAttr) (c *CQ, err error) {
	err = d.create("CreateCQ", func() error {
		if vectors := d.provider.attr().NumCompVectors; attr.Vector < 0 || attr.Vector >= vectors {
			return fmt.Errorf("%w: completion vector %d, the device has %d", ErrInvalid, attr.Vector, vectors)
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

// ReqNotify arms the queue (ibv_req_notify_cq): the next completion, or with solicitedOnly the next
// one that its sender marked SendSolicited or that is an error, is told to the queue's channel,
// once. ErrInvalid if it has none, ErrClosed.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	return c.dev.fail("ReqNotify", c.cq.ReqNotify(solicitedOnly))
}

// Wait takes up to len(wcs) completions, at least one, and waits for it if need be: it polls for
// some microseconds, as Poll does, then arms the queue and sleeps. When ctx ends first it returns
// ctx.Err(), with wcs of no length at once 0. The errors of Poll are its errors too. Several
// goroutines may wait on one queue, also on one that has a channel. That hears nothing of it, but a
// ReqNotify(true) may be answered by a completion that is not solicited.
//
// Where sleeps have been long lately it sleeps at once. If all that completes here comes from one
// lane and nobody else watches its port, the goroutine that waits does, so that a packet wakes one
// thread (Linux sockets, without Config.Wrap); otherwise the background is woken and wakes the
// goroutine.
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	n, err := c.cq.Wait(ctx, wcs)
	if err != nil && err != ctx.Err() {
		err = c.dev.fail("Wait", err)
	}
	return n, err
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
