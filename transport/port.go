// Package transport is the contract between an engine and a network: packets move in batches, and
// nothing is decided about them. It has no port itself, and links none.
//
// How to read it:
//
//	port.go                   what a port is: also watched, multicast, in need of a neighbour
//	event.go                  what happens below one
//	options.go                how one is opened
//	info.go                   what it says about itself: facts and counters
//	lanes.go                  several ports with one address
//	listing.go                what a machine has to offer
//	errors.go                 what goes wrong
//
// The rooms, a package each:
//
//	transport/ports           knows them all: opens a port by name, lists those of this machine
//	transport/udp             a UDP socket on port 4791: works everywhere, needs nothing
//	transport/packet          AF_PACKET: a ring to receive from, whole runs of packets as one
//	transport/xdp             AF_XDP: packets taken from an interface before the kernel's stack
//	transport/pipe            a segment in memory: tests, lessons, several devices in one process
//	transport/fault           a port around a port that loses and damages packets
//	transport/capture         a port around a port that shows every packet
//	transport/internal/host   what ports take from the operating system
//	transport/internal/ether  what ports that make Ethernet packets share
//
// A frame has the same form on every port: it starts at the IP header ([wire.Frame]). A port that
// is not shown the header makes one up and marks it ([wire.FrameSynthHead]).
package transport

import (
	"context"
	"time"

	"github.com/goroce/goroce/wire"
)

// Port is packet I/O in batches for one lane.
//
// Recv and Send are called by one goroutine at a time, the one that has the lane's turn. Wait is
// called by one goroutine at a time too, which may be another one, concurrently with Recv and Send.
// Wake and Info may be called from anywhere. Close comes last: no Recv, Send or Wait may be running
// or follow; Wake may.
type Port interface {
	// Recv fills frames with packets that have arrived and returns how many, at once; 0 means
	// nothing is there. The frames are lent until the next Recv. An error means that the port is
	// broken for good: what concerns single packets is counted, not returned.
	Recv(frames []wire.Frame) (n int, err error)

	// Send sends b.Frames() in order and returns how many are done with: the caller Drops those.
	// Fewer than b.Len() means that there is no room now; Wait returns when there is. A frame that
	// can not go at all (too long for the interface, no route) is done with and counted in Stats.
	// Frames and their ICRC may be modified.
	Send(b *wire.Batch) (sent int, err error)

	// Wait blocks until a packet can be received, until there is room again after a Send that found
	// none, until Wake, or for the timeout (<0: for ever), whose resolution is that of the system's
	// timers. It may return without cause.
	Wait(timeout time.Duration) error

	// Wake makes the present Wait return, or the next one if none is in progress. It is sticky, but
	// does not count.
	Wake()

	// Info describes the port as it is now. It asks the operating system for the state of the link:
	// not for each turn.
	Info() Info

	// Stats returns the counters. The holder of the turn calls it, as Recv and Send.
	Stats() Stats

	Close() error
}

// Watcher is one of the two goroutines that can wait for a port which is Watched.
type Watcher int

const (
	// Background is the goroutine that waits for the port when nobody else does.
	Background Watcher = iota
	// Relief is one that waits instead of it for a while: an application's own, while it sleeps.
	Relief
)

// Watched is a port that two goroutines can wait for, one of which watches it. What happens ends
// the wait of the watcher only: a packet wakes one thread and not two, and the port changes hands
// without waking anybody. Ports with sockets are Watched on Linux.
//
// SetAlarm is called by the holder of the lane's turn, Take, Watch and Leave by one goroutine of
// each kind at a time, Rouse by any. Wait is SetAlarm and Watch(Background), Wake is
// Rouse(Background).
type Watched interface {
	Port
	Seats
}

// Seats are the two at a port that is Watched.
type Seats interface {
	// SetAlarm says after what time the watcher's wait ends if nothing happens, the present one too
	// (<0: not at all). The time goes on when the port changes hands.
	SetAlarm(d time.Duration)

	// Watch blocks as Wait does, until the alarm instead of a timeout. While the relief has the
	// port, Watch(Background) returns for Rouse(Background) only. It may return without cause.
	Watch(w Watcher) error

	// Rouse makes the present Watch of w return, or its next one if none is in progress.
	Rouse(w Watcher)

	// Take gives the port to the relief, before its first Watch; Leave gives it back to the
	// background.
	Take()
	Leave()
}

// SeatsOf are those of p if it is Watched, or if it is around a port that is and has a method
// Seats, as those of packages capture and fault; else nil.
func SeatsOf(p Port) Seats {
	switch p := p.(type) {
	case interface{ Seats() Seats }:
		return p.Seats()
	case Seats:
		return p
	}
	return nil
}

// Multicaster is a port that can join IP multicast groups, for UD queue pairs. Packets to a joined
// group are received with the group as destination, the port's own included. All methods may be
// called from any goroutine.
type Multicaster interface {
	// JoinGroup starts receiving what is sent to group. Joins are counted: leave as often as you
	// joined.
	JoinGroup(group wire.GID) error
	// LeaveGroup undoes one JoinGroup. The error is ErrNotJoined if there is none.
	LeaveGroup(group wire.GID) error
}

// Resolver is a port that must find out a neighbour's link address before it can send to it. Send
// does so by itself, but drops frames until the answer has come; with Resolve a connection starts
// without that loss.
type Resolver interface {
	// Resolve waits until frames to dst can be sent, at most for the timeout or until ctx ends. The
	// error says why they can not, or is ctx's. It may be called from any goroutine.
	Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error
}

// Resolve resolves dst if p is a Resolver. Other ports are ready to send at once.
func Resolve(ctx context.Context, p Port, dst wire.GID, timeout time.Duration) error {
	if r, ok := p.(Resolver); ok {
		return r.Resolve(ctx, dst, timeout)
	}
	return nil
}

// JoinGroup has p join a group if it is a Multicaster. The error is ErrNoMulticast if it is none.
func JoinGroup(p Port, group wire.GID) error {
	if m, ok := p.(Multicaster); ok {
		return m.JoinGroup(group)
	}
	return ErrNoMulticast
}

// LeaveGroup undoes one JoinGroup.
func LeaveGroup(p Port, group wire.GID) error {
	if m, ok := p.(Multicaster); ok {
		return m.LeaveGroup(group)
	}
	return ErrNoMulticast
}
