//go:build linux

package hub

// What the hub knows, for who asks: "roce ps", and metrics.
// Stages: answering; asking.

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/roce/internal/hub"
)

// What a hub says of itself, of an address, of a process there and of its queue pairs.
type (
	Status        = hub.Status
	AddressStatus = hub.AddressStatus
	ProcessStatus = hub.ProcessStatus
	Report        = hub.Report
	QueuePair     = hub.QueuePair
	Service       = hub.Service
)

// reportTime is how long processes may take to say what runs on them, all together.
const reportTime = 500 * time.Millisecond

// tell answers who asks.
func (h *Hub) tell(c *hub.Conn) error {
	h.mu.Lock()
	var list []*address
	for _, a := range h.addresses {
		list = append(list, a)
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b *address) int { return strings.Compare(a.where, b.where) })
	s := Status{PID: os.Getpid()}
	var here []*process
	for _, a := range list {
		a.mu.Lock()
		n := &a.count
		s.Addresses = append(s.Addresses, AddressStatus{Where: a.where, Port: a.port, Addrs: a.addrs,
			Slots: len(a.slots) - 1, Lanes: a.lanes, In: n.in, Out: n.out, Nobodys: n.nobodys, NoRoom: n.noRoom,
			Frames: n.frames, FramesLost: n.framesLost,
			Strange: n.strange, Left: n.left, Inherited: n.inherited})
		for _, p := range a.who.slots {
			if p != nil {
				here = append(here, p)
			}
		}
		a.mu.Unlock()
	}
	s.Processes = len(here)
	if err := c.Say(hub.KindStatus, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	for _, p := range here {
		a := p.at
		a.mu.Lock()
		says := ProcessStatus{Where: a.where, PID: p.pid, Program: p.program, Slot: p.slot, Since: p.since.Unix(),
			Services: a.who.services(p), Conns: p.ledger.Len(), Away: !p.standing.called()}
		a.mu.Unlock()
		if says.Services = says.Services[:min(len(says.Services), hub.MaxServices)]; !says.Away {
			says.Report = p.report(ctx)
		}
		if err := c.Say(hub.KindProcess, says); err != nil {
			return err
		}
	}
	return nil
}

// Has tells whether the hub of this user and network namespace, which it does not start, shares an
// address, or one of those of an interface, with this UDP port.
func Has(ctx context.Context, where string, port int) bool { return hub.Has(ctx, where, port) }

// Ask asks the hub of this user and network namespace what it knows. The error says that there is
// none, which it does not start.
func Ask(ctx context.Context) (s Status, all []ProcessStatus, err error) {
	c, err := hub.Dial(ctx, false)
	if err != nil {
		return s, nil, fmt.Errorf("no hub of this user runs in this network namespace: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.Say(hub.KindStatus, nil); err != nil {
		return s, nil, err
	}
	for len(all) < s.Processes || s.PID == 0 {
		h, err := c.Hear()
		if err != nil {
			return s, all, err
		}
		switch h.Kind {
		case hub.KindStatus:
			err = h.Get(&s)
		case hub.KindProcess:
			var p ProcessStatus
			if err = h.Get(&p); err == nil {
				all = append(all, p)
			}
		}
		h.Close()
		if err != nil {
			return s, all, err
		}
	}
	return s, all, nil
}
