//go:build linux

package hub

// An address, or all of an interface, that processes share.
//
// Stages: making its sockets, or taking those that an earlier hub has made; its shelf; queue pair
// 1, of which a goroutine takes in what comes; a slot for a process.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

// key is what tells addresses apart.
type key struct {
	where string
	port  int
}

// address is one. Its lock is taken last.
type address struct {
	key
	log   func(format string, args ...any)
	began time.Time
	lanes int
	addrs []netip.Addr
	slots []udp.Slot
	decks hub.Files
	shelf int

	device *roce.Device // of slot 0
	deck   []byte       // its numbers
	qp1    rdmacm.QP1
	wake   chan struct{} // holds a token when the machine has something to do
	ctx    context.Context
	end    context.CancelFunc
	ended  chan struct{}
	waits  sync.WaitGroup // for processes that have not called yet

	mu    sync.Mutex
	cm    *cm.Machine // answers what is nobody's, and speaks for processes that have ended
	who   router
	free  []int // slots, the one that has been free for longest first
	count struct{ in, out, nobodys, noRoom, frames, framesLost, strange, left, inherited uint64 }

	astray   chan wire.Frame // packets for processes that have come to slot 0
	overflow atomic.Uint64   // those that found no room there
}

// now is a moment for the machine.
func now() cm.Time { return cm.Time(time.Since(epoch)) }

var epoch = time.Now()

// newAddress makes the sockets.
func newAddress(k key, lanes, slots int, log func(string, ...any)) (a *address, err error) {
	a = &address{key: k, log: log, lanes: lanes, shelf: -1, began: time.Now()}
	defer func() {
		if err != nil {
			a.giveBack()
		}
	}()
	if a.addrs, err = udp.Addresses(k.where); err != nil {
		return a, err
	}
	slots = roomFor(slots, len(a.addrs)*lanes)
	if a.slots, err = udp.MakeSlots(a.addrs, slots, lanes, transport.Options{UDPPort: k.port}); err != nil {
		return a, err
	}
	var lists [][]int
	for i := range a.slots {
		if err := a.slots[i].Rest(); err != nil {
			return a, err
		}
		fd, err := unix.MemfdCreate("deck", unix.MFD_CLOEXEC)
		if err != nil {
			return a, err
		}
		a.decks = append(a.decks, fd)
		if err := unix.Ftruncate(fd, int64(roce.DealtSize)); err != nil {
			return a, err
		}
		lists = append(lists, append(slices.Concat(a.slots[i].FDs...), fd))
	}
	if a.shelf, err = hub.FillShelf(lists); err != nil {
		return a, fmt.Errorf("the shelf of %d slots: %w", len(lists), err)
	}
	return a, a.open()
}

// roomFor is how many slots an address has whose slots have so many sockets each: as many as were
// wanted, but for those that would fill the shelf. What lies there counts as descriptors that the
// user has on their way, of which the kernel allows his programs together as many as one may have
// open, often 1024; beyond that they could pass none to each other.
func roomFor(slots, sockets int) int {
	for slots > leastSlots && slots*sockets > onShelf {
		slots /= 2
	}
	return slots
}

// onShelf is how many sockets of an address are made unless its slots are leastSlots.
const (
	onShelf    = 128
	leastSlots = 16
)

// takeAddress takes the sockets of an earlier hub from its shelf, which becomes the address's.
func takeAddress(k key, lanes int, had *hub.Joined, shelf int, log func(string, ...any)) (a *address, err error) {
	a = &address{key: k, log: log, lanes: lanes, addrs: had.Addrs, shelf: shelf, began: time.Now()}
	defer func() {
		if err != nil {
			a.giveBack()
		}
	}()
	lists, err := hub.LookAtShelf(shelf)
	if err != nil {
		return a, err
	}
	var open hub.Files // until they are the slots'
	defer open.Close()
	for _, files := range lists {
		open = append(open, files...)
	}
	rows := len(had.Addrs)
	if len(lists) != had.Slots || rows == 0 || lanes == 0 {
		return a, fmt.Errorf("%d slots on the shelf, want %d", len(lists), had.Slots)
	}
	for i, files := range lists {
		if len(files) != rows*lanes+1 {
			return a, fmt.Errorf("%d descriptors of slot %d, want %d", len(files), i, rows*lanes+1)
		}
		s := udp.Slot{Addrs: had.Addrs, QPNs: wire.QPNSpace{}.Owner(i, len(lists))}
		for row := range rows {
			s.FDs = append(s.FDs, slices.Clone(files[row*lanes:][:lanes]))
		}
		a.slots, a.decks = append(a.slots, s), append(a.decks, files[len(files)-1])
		open = slices.DeleteFunc(open, func(fd int) bool { return slices.Contains(files, fd) })
	}
	if err := a.open(); err != nil {
		return a, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 1; i < len(a.slots); i++ {
		if pid := a.slots[i].Owner(); pid != 0 {
			a.expect(pid, i)
		} else if err := a.rest(i); err != nil { // it ended while there was no hub
			return a, err
		}
	}
	return a, nil
}

// rest has a slot without a process take in nothing.
func (a *address) rest(slot int) error {
	a.slots[slot].Disown()
	return a.slots[slot].Rest()
}

// open opens slot 0 with queue pair 1.
func (a *address) open() (err error) {
	name := "hub of udp:" + a.where
	a.wake, a.ended, a.astray = make(chan struct{}, 1), make(chan struct{}), make(chan wire.Frame, maxAstray)
	a.deck, err = unix.Mmap(a.decks[0], 0, roce.DealtSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	ports, err := udp.OpenSlot(name, a.slots[0], transport.Options{UDPPort: a.port, TrafficClass: qp.ECT(0)})
	if err != nil {
		return err
	}
	if a.device, err = roce.Open(name, &roce.Config{Ports: ports, Dealt: a.deck, Foreign: a.foreign}); err != nil {
		return err
	}
	if a.qp1, err = rdmacm.OpenQP1(a.device); err != nil {
		return err
	}
	attr := a.device.Query()
	a.cm = cm.New(cm.Config{Rand: rand.Uint64, CAGUID: attr.NodeGUID, CommID: hub.CommIDOf(0)})
	a.who = newRouter(len(a.slots))
	for i := range len(a.slots) - 1 {
		a.free = append(a.free, i+1)
	}
	a.ctx, a.end = context.WithCancel(context.Background())
	go a.run()
	return nil
}

// giveBack closes what open could not finish, or close has ended.
func (a *address) giveBack() {
	if a.qp1 != nil {
		a.qp1.Close()
	}
	if a.device != nil {
		a.device.Close()
	}
	if a.deck != nil {
		unix.Munmap(a.deck)
	}
	for i := range a.slots {
		a.slots[i].Close()
	}
	a.decks.Close()
	if a.shelf >= 0 {
		unix.Close(a.shelf)
	}
}

// close ends the address. Processes that have a slot keep theirs.
func (a *address) close() {
	a.end()
	<-a.ended
	a.waits.Wait()
	a.mu.Lock() // a packet that somebody brings for slot 0 is there, or not taken any more
	a.mu.Unlock()
	a.giveBack()
}

// has tells whether an address is one of the rows.
func (a *address) has(g wire.GID) bool {
	return slices.ContainsFunc(a.addrs, func(r netip.Addr) bool { return wire.GID(r.WithZone("").As16()) == g })
}

// run takes in what comes to queue pair 1, and what is due.
func (a *address) run() {
	defer close(a.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := a.round()
		timer.Reset(time.Duration(min(next-now(), cm.Time(time.Hour))))
		select {
		case <-a.qp1.Ready():
		case <-a.wake:
		case <-timer.C:
		case <-a.ctx.Done():
			return
		}
	}
}

// round does that once, and says when to come again.
func (a *address) round() cm.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	more, err := a.qp1.Receive(func(from cm.Path, mad []byte) { a.share(&from, (*wire.MAD)(mad)) })
	if err != nil { // the address is gone: processes notice by themselves
		a.log("%s: queue pair 1: %v", a.where, err)
		a.end()
	}
	if more {
		a.kick()
	}
	for len(a.astray) > 0 {
		f := <-a.astray
		a.brings(nil, &f)
	}
	a.cm.HandleTimeout(now())
	a.transmit()
	return a.cm.PollTimeout()
}

// share gives a message to whom it is for.
func (a *address) share(from *cm.Path, m *wire.MAD) {
	if _, id := ids(m); m.IsCM() && !(id != 0 && a.cm.Knows(id)) {
		if to := a.who.to(from, m); len(to) > 0 {
			for _, p := range to {
				p.hears(from, m)
			}
			return
		}
		if isRequest(m) && a.who.expects(time.Since(a.began) < earlier) {
			return // it may be for who has not called yet: its sender repeats it
		}
	}
	a.count.nobodys++
	a.cm.HandleMAD(now(), *from, m[:])
	for { // the machine has no application
		if _, ok := a.cm.PollEvent(); !ok {
			return
		}
	}
}

// transmit sends what the machine has to say, as long as there is room.
func (a *address) transmit() {
	var out cm.Message
	for a.qp1.Room() && a.cm.PollTransmit(&out) {
		a.qp1.Send(out.Path, &out.MAD)
	}
}

func (a *address) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// says sends what a process says.
func (a *address) says(p *process, path cm.Path, m *wire.MAD) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.who.slots[p.slot] != p || !a.who.own(p, &path, m):
		a.count.strange++
	case !a.qp1.Room():
		a.count.noRoom++
	default:
		p.ledger.Sent(&path, m)
		a.count.out++
		a.qp1.Send(path, m)
	}
}

// errFull says that each slot has a process.
var errFull = errors.New("all slots of the address have their processes")

// join gives a process a slot.
func (a *address) join(p *process) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, slot := range a.free {
		if a.slots[slot].Owner() != 0 { // it was opened as its hub ended, and nobody was told
			continue
		}
		a.free = slices.Delete(a.free, n, n+1)
		a.put(p, slot)
		return nil
	}
	return fmt.Errorf("%w: %d of %s, as many as a hub is told to have (roce hub --processes)", errFull,
		len(a.slots)-1, a.where)
}

// rejoin lets a process have the slot that it had at another hub.
func (a *address) rejoin(p *process, had *hub.Again) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if had.Slot < 1 || had.Slot >= len(a.slots) {
		return fmt.Errorf("slot %d: there are 1 to %d", had.Slot, len(a.slots)-1)
	}
	other := a.who.slots[had.Slot]
	switch {
	case other == nil && a.slots[had.Slot].Owner() == p.pid:
		a.free = slices.DeleteFunc(a.free, func(s int) bool { return s == had.Slot })
	case other == nil || other.pid != p.pid:
		return fmt.Errorf("slot %d is not process %d's any more", had.Slot, p.pid)
	default:
		a.who.forget(other)
		p.ledger = other.ledger
		close(other.replaced)
	}
	p.standing = telling
	a.put(p, had.Slot)
	return nil
}

// learn takes in what a process had at an earlier hub.
func (a *address) learn(p *process, k *hub.Known) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.who.slots[p.slot] != p {
		return
	}
	for _, s := range k.Services {
		if !a.who.listen(p, s) {
			a.log("%s: process %d listens on service 0x%x, and so does another by now", a.where, p.pid, s.ID)
		}
	}
	others := func(e cm.Estate) bool { return e.LocalID>>hub.SlotShift != uint32(p.slot) }
	k.Estates = slices.DeleteFunc(k.Estates, others)
	p.ledger.Learn(k)
	if k.Last {
		p.standing = present
	}
}

func (a *address) put(p *process, slot int) {
	p.at, p.slot = a, slot
	a.who.slots[slot] = p
}

// idle tells whether nobody is there, and nobody waits to be told.
func (a *address) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	inUse, _ := a.cm.Len()
	here := slices.ContainsFunc(a.who.slots, func(p *process) bool { return p != nil })
	return inUse == 0 && !here || a.ctx.Err() != nil
}
