//go:build linux

package hub

// How the part of a process at an address ends: its call, which it may make again; the process; its
// slot, which it has closed, or lost by becoming another program; the hub that it had it of.
//
// Stages: its call ends; waiting for what comes then; leaving, and what that leaves.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/transport/udp"
)

// callEnds says that a process lives whose call has ended. It keeps its slot, and calls again.
func (a *address) callEnds(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.standing = afterCall[p.standing]
}

// expect keeps a slot for a process that has it from an earlier hub and has not called yet. The
// caller has the lock.
func (a *address) expect(pid, slot int) {
	p := &process{pid: pid, program: "?", since: time.Now(), ledger: hub.NewLedger(), standing: expected,
		replaced: make(chan struct{})}
	dead, forget, err := watch(pid)
	if err != nil {
		return // it has ended just now, or join sees that the slot has an owner
	}
	a.free = slices.DeleteFunc(a.free, func(s int) bool { return s == slot })
	a.put(p, slot)
	a.waits.Go(func() {
		defer forget()
		a.wait(a.ctx, p, dead)
	})
}

// wait waits for the end of a process that is away, or of its being away; or it does not use its
// slot any more, and not only because it is about to open it: it has closed its device, and could
// not say so, or has become another program.
func (a *address) wait(ctx context.Context, p *process, dead <-chan struct{}) {
	tick := time.NewTicker(closeTime)
	defer tick.Stop()
	for none := 0; none < 2; {
		select {
		case <-dead:
			none = 2
		case <-p.replaced:
			return
		case <-ctx.Done(): // the hub ends, and the process goes on
			return
		case <-tick.C:
			if none++; p.uses(&a.slots[p.slot]) {
				none = 0
			}
		}
	}
	a.leave(p)
}

// closeTime is how long a slot may be nobody's whose process lives.
const closeTime = 3 * time.Second

// uses tells whether somebody has a slot open: the process, unless it has become another program
// (execve), with which its sockets have gone.
func (p *process) uses(s *udp.Slot) bool {
	switch s.Owner() {
	case 0:
		return false
	case p.pid:
	default:
		return true
	}
	var own unix.Stat_t
	folder := fmt.Sprintf("/proc/%d/fd", p.pid)
	all, err := os.ReadDir(folder)
	if err != nil || len(all) == 0 || unix.Fstat(s.FDs[0][0], &own) != nil {
		return true // it lets nobody look; its first thread has ended, and others go on
	}
	return slices.ContainsFunc(all, func(e os.DirEntry) bool {
		to, _ := os.Readlink(filepath.Join(folder, e.Name()))
		return to == fmt.Sprintf("socket:[%d]", own.Ino)
	})
}

// leave ends a process's part: it has ended, or closed its device.
func (a *address) leave(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.who.slots[p.slot] != p { // it has called again
		return
	}
	a.log("process %d (%s) has left slot %d of %s", p.pid, p.program, p.slot, a.where)
	a.count.left++
	a.who.slots[p.slot] = nil
	a.who.forget(p)
	if pid := a.slots[p.slot].Owner(); pid != 0 && pid != p.pid {
		a.log("%s: slot %d is process %d's", a.where, p.slot, pid)
	} else if err := a.rest(p.slot); err != nil {
		a.log("%s: slot %d: %v", a.where, p.slot, err)
	}
	a.free = append(a.free, p.slot)
	for _, e := range p.ledger.Estates() {
		if err := a.cm.Inherit(now(), &e); err != nil {
			a.log("%s: a connection of process %d, whose peer is not told: %v", a.where, p.pid, err)
			continue
		}
		a.count.inherited++
	}
	a.transmit()
	a.kick()
}
