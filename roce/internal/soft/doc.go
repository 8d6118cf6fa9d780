// Package soft is the software RNIC: the kind of device that is made of this stack, behind the
// verbs of package roce. It has no names of its own for what the verbs name: packages qp and mr
// have them.
//
//	device.go      the device: its ports, its memory table, its lanes
//	memory.go      protection domains, regions, windows, address handles
//	cq.go qp.go    completion queues and queue pairs, as applications drive them
//	lane.go        one port, one engine and the turns that move work between them
//	background.go  who takes turns when no application does
//	relief.go      an application that sleeps in Wait watches the port itself
//	trust.go       when an application that always comes back at once may be waited for
//	stray.go       packets that arrive on another lane than that of their queue pair
//	turnlock.go clock.go alarm_linux.go   what these are built on
//
// # From PostSend to the wire and back
//
// [QP.PostSend] writes the send queue, rings, and takes the second half of a turn itself if it can:
// lane.posted → output → qp.Engine.HandlePosted → transmit → qp.Engine.PollTransmit →
// transport.Port.Send. Back: [CQ.Poll] on an empty queue takes a turn: lane.poll → receive →
// transport.Port.Recv → input → qp.Engine.HandleFrames → Flush, which fills the rings that Poll
// then takes from.
//
// # Errors
//
// They are plain: the kind (an Err variable of qp, mr or this package) and a text. Package roce
// adds the call and the device. What must be closed before what is also kept there: this package
// closes what it is told to.
package soft
