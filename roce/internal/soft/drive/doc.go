// Package drive is who runs a lane, and who is woken for that: one machine without a lock, a clock,
// a port or a goroutine of its own. What happens is an event, each of them one method; a [Call]
// comes out, which says whom the lane is to wake. The lane (package soft) has the hands: it locks
// its turn, reads the clock, and carries out.
//
//	machine.go  who watches the port, where the background is, who sleeps: the table below
//	trust.go    when an application that always comes back at once may be waited for
//
// # States
//
// A turn runs on the goroutine of whoever is there: a call of the application that finds its
// queue empty takes one if nobody else has it, wherever the background is; one that posts takes
// the half that sends (a whole one if polls have lately found completions without a turn); and
// one that controls waits for it. Between such calls three questions have one answer each. Where
// is the background?
//
//	s  it stands by: it sleeps on an alarm of its own, and does not touch the port, as an
//	   application polls, which has a lease: for [LeaseLife], 50 us, from its last poll
//	d  it is on duty: it takes turns, or is about to, unless a relief has the port
//	p  it is parked: it sleeps on the port, or behind the relief that has it
//
// A lane may also have none: then only applications take turns. Nobody relieves it, postpones what
// is due, or holds posts, and a goroutine in Wait polls and never sleeps.
//
// Whose is the port?
//
//	b  the background's, which watches it in p: no relief has it
//	r  the relief's: an application's goroutine that waits for completions. If the background
//	   watched, each packet would wake it first and it would wake the application, and before
//	   each sleep the two would hand the port over: some five thread switches an exchange, each
//	   of which costs more than all of our work on a packet.
//
// And does the one who watches sleep (z)? A goroutine that goes to sleep on the port says so first,
// with the turn: whoever has the next turn finds until when, and what the sleeper must be woken
// for. So no wake-up is lost, which package soft plays step by step.
//
// # Table
//
// Each event leads from the state above it to the one that stands in its row; a dot says that it
// cannot happen there. The sign behind it is the Call: @ sets the alarm of the one who watches,
// ! wakes the background from the port, ^ wakes the relief, + ends the standby. * wakes both, as
// who watches may change meanwhile: a background behind a relief parks again. machine_test.go
// walks every cell.
//
// The background brings Comes, StandsBy, Parks and Rises. While it stands by it looks at the
// lease every 50 us to 1 ms ([Machine.NextLook]), and comes when there is none. On duty it looks
// after each turn, stands by if there is one, and parks after 20 to 100 us without work
// ([Machine.StaysUp]), or at once behind a relief. Parked it does not look, and a poll does not
// wake it: when a packet or its alarm does, it sees the lease and stands by, without a turn.
//
// A goroutine in Wait, of a queue or of a channel, polls for up to 50 us, now and then for 200.
// Then it brings Sits, Dozes, Stirs and, before it returns, Leaves; or HandsOver where it cannot
// sit (the port has no seat, another goroutine sits, its queue pairs are on several lanes), and
// after Leaves where it had to leave early (another goroutine
// polls, the port fails, a queue pair came on another lane), and sleeps on a token of its queue
// or channel, which any turn leaves that completes in an armed queue there (who waits for a
// queue arms it, and looks again before it sleeps). ReqNotify brings HandsOver too, unless the
// application has had to wait for an event since its last ReqNotify: then it is believed to come
// back to Wait.
//
// Whoever gives a turn back, a poster too, says what is due: later than now but before the
// sleeper wakes, now, or not before that. A goroutine that does not get the turn rings the
// doorbell and goes: whoever gives the turn back looks once more, and sends; nobody is woken for
// that. Another lane's turn brings Mail: it has received packets of this lane and left them in
// its mailbox, for this lane's next turn. An application that has earned trust (trust.go), has a
// lease and posts brings Posts: it has sent that post itself, and whoever sleeps on the port is
// woken to make way, so that the background stands by and later posts may be held.
//
// Beside the table, what ends a Wait wakes the relief directly: a completion that another
// goroutine's turn has brought, a context's end, the Close of its queue or channel, a queue pair
// of it on another lane, the end of the lane. That end also ends the standby and wakes the port;
// nobody takes a turn once the port is closed. The Close of each queue and channel has told its
// Waits to return by then, those on a token too, and the end of the lane waits until the relief
// has left: with one open the device does not close (roce.ErrBusy).
//
//	               sb    db    pb    pbz   sr    srz   dr    drz   pr    prz
//	Comes          db    db    .     .     dr    drz   dr    drz   .     .
//	StandsBy       sb    sb    .     .     sr    srz   sr    srz   .     .
//	Parks          .     pbz@  .     .     .     .     pr    prz   .     .
//	Rises          .     .     db    db    .     .     .     .     dr    drz
//	Sits           sr    dr    pr    pr    sr    srz   dr    drz   pr    prz
//	Dozes          .     .     .     .     srz@  .     drz@  .     prz@  .
//	Stirs          .     .     .     .     sr    sr    dr    dr    pr    pr
//	Leaves         .     .     .     .     sb+   .     db    .     pbz@  .
//	Due later      sb    db    pb    pbz@  sr    srz@  dr    drz@  pr    prz@
//	Due now        sb    db    pb    pb!   sr    sr^   dr    dr^   pr    pr^
//	Due not before sb    db    pb    pbz   sr    srz   dr    drz   pr    prz
//	Mail           sb    db    pb    pb*   sr    sr*   dr    dr*   pr    pr*
//	HandsOver      sb+   db    pb    pbz   sr+   srz+  dr    drz   pr    prz
//	Posts          sb    db    pb    pb!   sr    srz   dr    dr^   pr    pr^
//
// While there is a lease, HandsOver and Leaves end no standby: who goes to sleep ends the lease
// first, so that another goroutine has polled since. If that was its last poll, the background
// comes with its next look, about 1 ms later at most. Sits does not wake a background that
// sleeps on the port: the port is deaf to it from then on (transport.Seats), and it sleeps on
// behind the relief; Leaves gives the port back the same way. A relief that stirs and finds a
// lease leaves, as another goroutine polls. A poll gives no lease if its queue is armed, or if
// it is the first to find it empty after an event that was waited for. A second one brings
// HandsOver, after a Sits in vain if the seat was taken only just now. It sleeps on its token
// until the background's or the first one's turn completes something for it, and may sit when it
// next goes to sleep: nobody inherits the seat; with Leaves the port is the background's. Of a
// port without alarms, which the background watches alone, "Due later" is "Due now", and @ falls
// away.
//
// From this follows who runs the stack next, and what wakes that one. Whoever polls runs it, in
// all states. If nobody does, as with one that only looks at its memory for a peer's WRITE, it
// is with r the relief, wherever the background is, woken by the port. With b it is in s the
// background, which looks at the lease within MaxStandby, 1 ms; in d the background, which is at
// it; in p the background too, woken by the port when a packet arrives, by its alarm when
// something is due later, and by whoever makes something due at once. A poller of another lane
// also takes a turn of a lane that nobody polls, now and then. In s a deadline waits for the
// next poll, or for the background's look that finds no lease: about 1 ms late at most. One that
// is due after that look is in time, as the background parks with its alarm set.
package drive
