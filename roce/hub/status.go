//go:build linux

package hub

// What the hub knows, for who asks: "roce ps", and metrics.
// Stages: answering; asking.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
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

// status says all but what the processes do.
func (h *Hub) status() (s Status) {
	s.PID = os.Getpid()
	if time.Since(h.began) < earlier {
		for _, b := range h.before {
			s.Awaited = append(s.Awaited, AddressStatus{Port: b.Port, Addrs: b.Addrs})
		}
	}
	for _, a := range h.sorted() {
		s.Addresses = append(s.Addresses, a.status())
	}
	return s
}

// sorted are the addresses.
func (h *Hub) sorted() (list []*address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *address) int {
		return cmp.Or(strings.Compare(a.where, b.where), cmp.Compare(a.port, b.port))
	})
	return list
}

func (a *address) status() AddressStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := &a.count
	return AddressStatus{Where: a.where, Port: a.port, Addrs: a.addrs, Slots: len(a.slots) - 1, Lanes: a.lanes,
		In: n.in, Out: n.out, Nobodys: n.nobodys, NoRoom: n.noRoom, Frames: n.frames,
		FramesLost: n.framesLost + a.overflow.Load(), Strange: n.strange, Left: n.left, Inherited: n.inherited}
}

// tell answers who asks. All processes are asked at once: one that stands still hides no other.
func (h *Hub) tell(c *hub.Conn) error {
	s := h.status()
	var here []*process
	for _, a := range h.sorted() {
		a.mu.Lock()
		here = append(here, slices.DeleteFunc(slices.Clone(a.who.slots), func(p *process) bool { return p == nil })...)
		a.mu.Unlock()
	}
	s.Processes = len(here)
	if err := c.Say(hub.KindStatus, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	says := make([]ProcessStatus, len(here))
	var asked sync.WaitGroup
	for i, p := range here {
		asked.Go(func() { says[i] = p.status(ctx) })
	}
	asked.Wait()
	for i := range says {
		if err := c.Say(hub.KindProcess, says[i]); err != nil {
			return err
		}
	}
	return nil
}

// status asks the process what it does, and says what the hub knows.
func (p *process) status(ctx context.Context) (s ProcessStatus) {
	a := p.at
	a.mu.Lock()
	s = ProcessStatus{Where: a.where, Port: a.port, PID: p.pid, Program: p.program, Slot: p.slot,
		Since: p.since.Unix(), Services: a.who.services(p), Conns: p.ledger.Len(), Away: !p.standing.called()}
	a.mu.Unlock()
	s.Services = s.Services[:min(len(s.Services), hub.MaxServices)]
	if !s.Away {
		s.Report = p.report(ctx)
	}
	return s
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
