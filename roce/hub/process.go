//go:build linux

package hub

// A process at the hub, from when it calls until it has ended, which the kernel tells: a child that
// it has forked may have its connection still.
//
// Stages: how it stands with the hub; the first message; what it says afterwards; what it is told.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// process is one. Its slot, ledger and standing are under the address's lock.
type process struct {
	*hub.Conn
	pid     int
	program string
	since   time.Time
	at      *address
	slot    int
	ledger  *hub.Ledger

	standing standing
	replaced chan struct{}   // closed when the process has called again: another one stands for it
	reports  chan hub.Report // what it says of itself
	asking   sync.Mutex      // for that
}

// standing is how a process and this hub are with each other:
//
//	has its slot of an earlier hub ─► expected ◄───────┐
//	calls again ────────────────────► telling ─► its call ends
//	                                     │
//	                              has told all
//	                                     ▼
//	joins ──────────────────────────► present ─► its call ends ─► absent
//
// One that calls again, expected or absent, is another for the hub, which begins as telling and has
// what the first one had. From each a process may leave: it ends, has closed its device, or has
// become another program.
type standing int

const (
	expected standing = iota // it has its slot from an earlier hub, and has not called yet
	telling                  // it has called, and has not said yet all that it had
	present                  // it can be told
	absent                   // it cannot
)

// afterCall is what a process becomes whose call has ended.
var afterCall = map[standing]standing{telling: expected, present: absent}

// called tells whether there is a call by which it can be told.
func (s standing) called() bool { return s == present || s == telling }

// serve speaks with whoever has called.
func (h *Hub) serve(ctx context.Context, c *hub.Conn) error {
	defer c.Close()
	pid, err := hub.Peer(c.UnixConn)
	if err != nil {
		c.SetReadDeadline(time.Now().Add(firstTime))
		if asks, err := c.Hear(); err == nil { // unread, it would hide the answer
			asks.Close()
		}
		return errors.Join(err, c.Say(hub.KindJoin, hub.Joined{Answer: hub.Answer{Error: err.Error()}}))
	}
	dead, forget, err := watch(pid)
	if err != nil {
		return err
	}
	defer forget()
	end := sync.OnceFunc(func() { c.CloseRead() })
	go func() {
		<-dead
		end()
	}()
	c.SetReadDeadline(time.Now().Add(firstTime))
	first, err := c.Hear()
	if err != nil {
		return nil // it has only looked whether there is a hub
	}
	defer first.Close()
	c.SetReadDeadline(time.Time{})
	switch first.Kind {
	case hub.KindShared:
		return c.Say(hub.KindShared, h.status())
	case hub.KindStatus:
		return h.tell(c)
	case hub.KindJoin:
		return h.admit(ctx, c, pid, dead, &first)
	}
	return fmt.Errorf("process %d begins with %q", pid, first.Kind)
}

// admit has a process share an address, until its part of that ends.
func (h *Hub) admit(ctx context.Context, c *hub.Conn, pid int, dead <-chan struct{}, first *hub.Heard) error {
	var join hub.Join
	if err := first.Get(&join); err != nil {
		return err
	}
	p := &process{Conn: c, pid: pid, program: join.Program, since: time.Unix(join.Since, 0),
		standing: present, ledger: hub.NewLedger(), replaced: make(chan struct{}), reports: make(chan hub.Report, 1)}
	a, err := h.join(p, &join, first.Files)
	if err != nil {
		h.log("process %d (%s) cannot have %s: %v", pid, join.Program, join.Where, err)
		return c.Say(hub.KindJoin, hub.Joined{Answer: hub.Answer{Error: err.Error()}})
	}
	h.log("process %d (%s) has slot %d of %s", pid, p.program, p.slot, a.where)
	if err = p.welcome(join.Again != nil); err == nil {
		var left bool
		if left, err = p.listen(); left {
			a.leave(p)
			h.mu.Lock()
			h.tidyUp() // so that the address is free when the process learns that it has left
			h.mu.Unlock()
			return err
		}
	}
	// That a call has ended is not that its process has: only then are its peers told. And if the
	// hub ends, the process goes on.
	a.callEnds(p)
	c.Close() // a process whose word was not understood calls again
	a.wait(ctx, p, dead)
	return err
}

// firstTime is how long who calls may take to say what he wants.
const firstTime = 10 * time.Second

// watch tells when a process has ended, until forget is called, after which dead is closed too.
func watch(pid int) (dead <-chan struct{}, forget func(), err error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("process %d has ended already: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "process")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}()
	return ended, func() { f.Close() }, nil
}

// welcome answers the process that it has a slot, and gives it all of that, unless it has it.
func (p *process) welcome(again bool) error {
	a := p.at
	s := &a.slots[p.slot]
	says := hub.Joined{Where: a.where, Addrs: a.addrs, Slot: p.slot, Slots: len(a.slots), QPNs: s.QPNs}
	var fds []int
	if !again {
		fds = append(slices.Concat(s.FDs...), a.decks[p.slot], a.shelf)
	}
	says.Files = len(fds)
	return p.Say(hub.KindJoin, says, fds...)
}

// listen does what the process says, until its call ends; left: because it has said so.
func (p *process) listen() (left bool, err error) {
	for {
		h, err := p.Hear()
		if err != nil {
			return false, nil
		}
		if h.Kind == hub.KindLeave {
			h.Close()
			return true, nil
		}
		err = p.does(&h)
		h.Close()
		if err != nil {
			return false, fmt.Errorf("process %d: %w", p.pid, err)
		}
	}
}

func (p *process) does(h *hub.Heard) error {
	a := p.at
	switch h.Kind {
	case hub.KindMAD:
		if path, mad, ok := h.MAD(); ok {
			a.says(p, path, mad)
		}
	case hub.KindFrame:
		if f, ok := h.Frame(); ok {
			a.mu.Lock()
			a.brings(p, &f)
			a.mu.Unlock()
		}
	case hub.KindListen:
		var l hub.Listen
		if err := h.Get(&l); err != nil {
			return err
		}
		p.Offer(hub.KindListen, a.listens(p, l)) // who does not read does not learn
	case hub.KindKnown:
		var k hub.Known
		if err := h.Get(&k); err != nil {
			return err
		}
		a.learn(p, &k)
	case hub.KindReport:
		var r hub.Report
		if err := h.Get(&r); err != nil {
			return err
		}
		select {
		case p.reports <- r:
		default: // nobody waits any more
		}
	default:
		return fmt.Errorf("a message %q", h.Kind)
	}
	return nil
}

// listens begins or ends a listener.
func (a *address) listens(p *process, l hub.Listen) hub.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.who.slots[p.slot] != p:
		return hub.Answer{To: l.Number, Error: "the process has called anew"}
	case l.End:
		a.who.unlisten(p, l.Service)
	case !a.who.listen(p, l.Service):
		other := a.who.listeners[l.Service]
		if a.slots[other.slot].Owner() == 0 { // it has ended just now, and wait has not been told
			a.who.forget(other)
			a.who.listen(p, l.Service)
			return hub.Answer{To: l.Number}
		}
		return hub.Answer{To: l.Number, Taken: true, Error: fmt.Sprintf("process %d (%s) listens on service 0x%x of %s",
			other.pid, other.program, l.ID, a.where)}
	}
	return hub.Answer{To: l.Number}
}

// hears tells the process of a message. The caller has the address's lock.
func (p *process) hears(from *cm.Path, m *wire.MAD) {
	if p.standing.called() && p.SayMAD(from, m[:]) {
		p.ledger.Received(from, m)
		p.at.count.in++
	} else {
		p.at.count.noRoom++
	}
}

// report asks the process what runs on it; nil: it does not say in time.
func (p *process) report(ctx context.Context) *hub.Report {
	p.asking.Lock()
	defer p.asking.Unlock()
	select {
	case <-p.reports: // late, to an earlier question
	default:
	}
	if !p.Poke(hub.KindReport) {
		return nil
	}
	select {
	case r := <-p.reports:
		return &r
	case <-ctx.Done():
		return nil
	}
}
