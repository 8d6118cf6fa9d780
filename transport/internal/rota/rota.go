// Package rota says in which order a Recv asks the sources of its port: the sockets of several
// addresses, the queues of a card, the frames to ourselves.
//
// A source may fill all the places of a Recv, and a flood does. So each Recv begins behind the
// source that the one before began with: of n sources that always have something, each is the first
// in one Recv of n, with all places, whatever the others have. It loses no Recv to those that have
// nothing.
package rota

// Rota is the order of a port, for the goroutine that receives. The zero value begins with source
// 0.
type Rota struct {
	start int  // whom the next Recv asks first
	begun bool // a source has given frames in this Recv
}

// Begin starts a Recv and says which of its sources is asked first; the others follow in a circle.
func (r *Rota) Begin(sources int) (first int) {
	if r.begun = false; r.start >= sources {
		r.start = 0
	}
	return r.start
}

// Gave notes how many frames a source has given.
func (r *Rota) Gave(source, frames int) {
	if frames > 0 && !r.begun {
		r.start, r.begun = source+1, true
	}
}
