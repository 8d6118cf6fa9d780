package rsocket

// The life of a connection: one machine, in a table. What may still be read and written on it is
// the stream's (internal/stream, State); this is who may call, and who gives back.

// A life says whether calls may begin, and whether the connection below is over.
type life uint8

const (
	serving    life = iota // calls may begin
	severed                // they may, and take what had come before the connection below was over
	closing                // Close has begun: no call begins, and those that are inside leave
	closingCut             // the same, of one that is over below
	freed                  // the last one has left: all is given back
	lives
)

// A passage is what changes a life.
type passage uint8

const (
	goesBelow passage = iota // the connection below is over
	closes                   // Close
	empties                  // the last call that was inside has left
	passages
)

var courses = [lives][passages]life{
	serving:    {goesBelow: severed, closes: closing, empties: serving},
	severed:    {goesBelow: severed, closes: closingCut, empties: severed},
	closing:    {goesBelow: closingCut, closes: closing, empties: freed},
	closingCut: {goesBelow: closingCut, closes: closingCut, empties: freed},
	freed:      {goesBelow: freed, closes: freed, empties: freed},
}

// on is the one place where a life changes.
func (l *life) on(what passage) { *l = courses[*l][what] }

// closed says that no call begins any more.
func (l life) closed() bool { return l >= closing }

// gone says that the connection below is over.
func (l life) gone() bool { return l == severed || l == closingCut }
