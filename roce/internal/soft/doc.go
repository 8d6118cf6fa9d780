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
//	drive/         who runs a lane, and who is woken for it: the states, and nothing else
//	hands.go       what a lane sleeps on, and is woken with
//	background.go  the goroutine that takes turns when no application does
//	relief.go      an application that sleeps in Wait watches the port itself
//	flush.go       FLUSHes to storage, beside the lanes
//	changes.go     what changes below the ports: events, the GID table
//	linger.go      a poll that stays for what comes next
//	stray.go       packets that arrive on another lane than that of their queue pair
//	stats.go       counters
//	turnlock.go world.go alarm.go   what these are built on
//
// # Who runs a lane
//
// A turn runs on the goroutine of whoever is there: a call of the application that polls or posts
// takes one if nobody else has it, and one that controls waits for it (turnlock.go). Between such
// calls three run the stack: an application that polls; the background, a goroutine of the lane's
// own; or the relief, a goroutine of an application that waits. Package drive knows who does, and
// who is woken when, in one table; the lane carries out (hands.go). steps_test.go plays what is
// left to chance there, step by step.
//
// # From PostSend to the wire and back
//
// [QP.PostSend] writes the send queue, rings, and takes the second half of a turn itself if it can:
// lane.sendPosted → qp.Engine.Posted → output → transmit → qp.Engine.PollTransmit →
// transport.Port.Send. If another has the turn, the bell stays rung, and whoever gives the turn
// back calls qp.Engine.HandlePosted. Back: [CQ.Poll] on an empty queue takes a turn: lane.poll →
// receive → transport.Port.Recv → input → qp.Engine.HandleFrames → Publish, which fills the rings
// that Poll then takes from.
//
// # Errors
//
// They are plain: the kind (an Err variable of qp, mr or this package) and a text. Package roce
// adds the call and the device. What must be closed before what is also kept there: this package
// closes what it is told to.
package soft
