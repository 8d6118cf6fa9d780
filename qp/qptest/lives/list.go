package lives

// Requests that are posted as one list, all or none of them, as the work request builder does.
//
// Stages: a list is built by the deeds that post (postList; post) → perhaps one of its requests is
// against the rules → the queue pair takes all or none.

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// drawLists has applications of some worlds post lists. It has dice of its own, so that the other
// worlds are what they were.
func (p *Plan) drawLists(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.25) {
		return
	}
	for range 2 + d.IntN(12) {
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), d.IntN(len(p.Apps)), "list",
			[3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
}

// list is requests that are to be posted together.
type list struct {
	works []*work
	wrs   []qp.SendWR
}

// postList posts several requests as one list.
func (a *app) postList(d *Deed) bool {
	if !a.ready() {
		return false
	}
	x := &list{}
	a.list = x
	for i := range 2 + d.R[0]%6 {
		each := Deed{R: [3]uint32{bits.RotateLeft32(d.R[0], int(7*i)), bits.RotateLeft32(d.R[1], int(3*i)),
			bits.RotateLeft32(d.R[2], int(5*i))}}
		switch d.R[1] >> (8 + i) % 8 {
		case 0, 1, 2:
			a.postSend(&each)
		case 3:
			a.postRDMA(qp.WRRead, &each)
		case 4:
			a.postRDMA(qp.WRAtomicFetchAndAdd, &each)
		case 5:
			a.flush(&each)
		default:
			a.postRDMA(qp.WRWrite, &each)
		}
	}
	a.list = nil
	if len(x.wrs) == 0 {
		return false
	}
	wrong := len(x.wrs) // which of them is
	if d.R[2]%3 == 0 {
		wrong = int(d.R[2]>>2) % len(x.wrs)
		x.wrs = slices.Insert(x.wrs, wrong, qp.SendWR{Opcode: 13})
	}
	return a.postAll(x, wrong)
}

// postAll gives a list to the queue pair.
func (a *app) postAll(x *list, wrong int) bool {
	l := a.life
	n, err := l.q.PostSendAll(x.wrs)
	switch {
	case errors.Is(err, qp.ErrFull) && n <= wrong, errors.Is(err, qp.ErrInvalid) && n == wrong:
		for _, k := range x.works {
			k.neverPosted() // if any of it is executed or completes, that shows
		}
		return false
	case err != nil || n != len(x.wrs) || wrong != n:
		a.fail("PostSendAll of %d requests, of which %d is wrong: %d accepted, %v", len(x.wrs), wrong, n, err)
		return false
	}
	for i, k := range x.works {
		a.posted(k, x.wrs[i].Flags)
	}
	a.node.Engine.Ring(l.q)
	a.node.Kick()
	return true
}
