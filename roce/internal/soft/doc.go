// Package soft is the software RNIC: the kind of device that is made of this stack, behind the
// verbs of package roce. It has no names of its own for what the verbs name: packages qp and mr
// have them.
//
//	device.go      the device: its ports, its memory table, its lanes
//	memory.go      protection domains, regions, windows, address handles
//	cq.go qp.go    completion queues and queue pairs, as applications drive them
//	srq.go         shared receive queues, XRC domains
//	wait.go        how an application is told of completions
//	lane.go        one port, one engine and the turns that move work between them
//	calls.go       the turns that an application takes: with a poll, with a post
//	driver.go      who runs a lane, and who wakes that: the states
//	background.go  who takes turns when no application does; FLUSHes to storage
//	relief.go      an application that sleeps in Wait watches the port itself
//	trust.go       when an application that always comes back at once may be waited for
//	changes.go     what changes below the ports: events, the GID table
//	stray.go       packets that arrive on another lane than that of their queue pair
//	stats.go       counters
//	turnlock.go clock.go alarm.go entropy.go   what these are built on
//
// # Who runs a lane
//
// A turn runs on the goroutine of whoever is there: a call of the application that polls or posts
// takes one if nobody else has it, and one that controls waits for it (turnlock.go). Between such
// calls two questions have one answer each. Who watches the port?
//
//	              an application goes to sleep in Wait: takeSeat
//	background ─────────────────────────────────────────────────▶ relief
//	background ◀───────────────────────────────────────────────── relief
//	              it has its completion, or cannot watch on: giveBack
//
// Where is the background?
//
//	            no lease                  nothing to do for a while
//	standsBy ─────────────▶ onDuty ─────────────────────────────▶ parked
//	standsBy ◀───────────── onDuty ◀───────────────────────────── parked
//	            a lease                   woken
//
// A lease is what an application has that polls: it lasts claimLife from its last poll. From the
// two answers follows who runs the stack next, and what wakes that one:
//
//	place     seat         a packet arrives             due later               due now
//	standsBy  background   the application's next       the same                the same
//	                       poll; or the background,
//	                       when it looks at the lease
//	                       (within maxStandby)
//	onDuty    background   the background's next turn   the same                the same
//	parked    background   the port wakes the           its alarm, set by       who made it due
//	                       background                   who made it due         does it, or wakes
//	                                                    (wakeBefore)            the background
//	parked    relief       the port wakes the relief    the same                the same
//	other     relief       the same: the background parks, or stands by, behind it
//
// Who sleeps on the port says so first, under the turn lock (announce): whoever then has the turn
// finds until when, and what it must be woken for. So no wake-up is lost: steps_test.go plays it.
//
// # From PostSend to the wire and back
//
// [QP.PostSend] writes the send queue, rings, and takes the second half of a turn itself if it can:
// lane.posted → output → qp.Engine.HandlePosted → transmit → qp.Engine.PollTransmit →
// transport.Port.Send. Back: [CQ.Poll] on an empty queue takes a turn: lane.poll → receive →
// transport.Port.Recv → input → qp.Engine.HandleFrames → Publish, which fills the rings that Poll
// then takes from.
//
// # Errors
//
// They are plain: the kind (an Err variable of qp, mr or this package) and a text. Package roce
// adds the call and the device. What must be closed before what is also kept there: this package
// closes what it is told to.
package soft
