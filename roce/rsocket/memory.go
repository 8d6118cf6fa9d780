package rsocket

// The memory of connections: what one gives back the next one of the same sizes takes. Making it
// anew was the largest part of the work of setting up a connection: half a megabyte to clear, and
// a collection of garbage every few connections.

import "sync"

// memory is what a connection registers: what only its own device reads, and what the other end
// writes, which is made of the receive buffer and the tables behind it.
type memory struct{ own, exposed []byte }

// memories are those that nobody uses. The garbage collector takes what stays there.
var memories sync.Pool

// takeMemory returns memory of these sizes. Nothing of an earlier connection is in what the other
// end writes: a peer that says it has written what it has not must not have this end read that.
func takeMemory(own, exposed int) *memory {
	if m, _ := memories.Get().(*memory); m != nil && len(m.own) == own && len(m.exposed) == exposed {
		clear(m.exposed)
		return m
	}
	return &memory{make([]byte, own), make([]byte, exposed)}
}

// giveBack gives it to the next connection. No region is on it any more.
func (m *memory) giveBack() { memories.Put(m) }
