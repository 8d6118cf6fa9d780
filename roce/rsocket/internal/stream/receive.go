package stream

// Receiving: a ring of two halves that the other end fills one after the other (section 4.3), and
// the application empties.

import "fmt"

// receiver is the half of an end that receives.
type receiver struct {
	half int // bytes of half of the buffer

	head  int // where the application reads on
	there int // bytes that it can read
	open  int // bytes that the other end has been told of and not filled
	read  int // bytes that the other end can be told of again
	tell  int // which half is told next: 0 is the second

	seq16 uint16 // messages that came, of those that take a credit
	told  uint16 // of these when the last update was sent
	slot  uint32 // entry of the other end's target SGL that the next update is written to

	reposts int // receives to be posted again

	forget bool // nobody reads any more
}

// arrived is told of data. It may have been written in several pieces, of which the message was the
// last.
func (e *End) arrived(n, bytes uint32) error {
	switch {
	case bytes > n:
		return fmt.Errorf("%w: data of %d bytes that says it is %d", ErrProtocol, bytes, n)
	case int(n) > e.open:
		return fmt.Errorf("%w: %d bytes where %d have room", ErrProtocol, n, e.open)
	}
	e.seq16++
	e.open -= int(n)
	e.there += int(n)
	e.drop()
	return nil
}

// Readable is how many bytes can be read.
func (e *End) Readable() int { return e.there }

// Pending says where in the receive buffer the application can read, and how many bytes there are
// in a row.
func (e *End) Pending() (from, n int) {
	return e.head, min(e.there, 2*e.half-e.head)
}

// Consume says that n bytes were read.
func (e *End) Consume(n int) {
	e.there -= n
	e.read += n
	if e.head += n; e.head >= 2*e.half {
		e.head -= 2 * e.half
	}
}

// drop forgets what is there, if nobody reads any more.
func (e *End) drop() {
	if e.forget {
		e.Consume(e.there)
	}
}

// Reposts is how many receives are to be posted again: 0 until there are enough of them.
func (e *End) Reposts() int {
	if e.reposts < max(repostAt(e.cfg.Credits), 1) {
		return 0
	}
	n := e.reposts
	e.reposts = 0
	return n
}
