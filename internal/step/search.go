package step

// Which orders are played.
//
// Stages: play one → all with few switches, those with fewer first → random ones → what is wrong is
// played again, to be shown.

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"
)

// Story is what the goroutines of a play do.
type Story struct {
	Switches int // all orders of up to so many are played
	Random   int // and so many random ones
	Pace     Pace
	// Tell makes the world that they meet in, outside of the play, and adds its tasks.
	Tell func(p *Play)
}

// playOne plays an order.
func (s *Story) playOne(p *Play) error {
	p.cur, p.to, p.Pace = -1, -1, s.Pace
	the = p
	s.Tell(p)
	err := p.run()
	the = nil
	p.end()
	return err
}

// most is how many switches an order can have.
const most = 4

// order is the switches, and how many.
type order struct {
	n  int8
	at [most]Switch
}

// with is the order up to a point, and then a switch.
func (o *order) with(s Switch) (next order, ok bool) {
	for _, have := range o.at[:o.n] {
		if have.At >= s.At {
			break
		}
		next.at[next.n] = have
		next.n++
	}
	if next.n == most {
		return next, false
	}
	next.at[next.n] = s
	next.n++
	return next, true
}

// Play plays a story, and fails the test in the first order that breaks a rule.
func (s *Story) Play(t *testing.T) {
	t.Helper()
	began := time.Now()
	if which, err, steps := s.Find(); err != nil {
		t.Errorf("%s: %v%s", which, err, steps)
	} else {
		t.Logf("%s in %v", which, time.Since(began).Round(time.Millisecond))
	}
}

// Find plays a story up to the first order that breaks a rule: it says which, or how many were
// played, what is wrong, and by what steps.
func (s *Story) Find() (which string, err error, steps string) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are made and thrown away
	n, taken, err := s.all()
	if err != nil {
		return s.again(fmt.Sprintf("order %d", n), taken, err)
	}
	for seed := range uint64(s.Random) {
		p := &Play{random: rand.New(rand.NewPCG(seed, 24)), oneIn: 2 << (seed % 6)}
		if err := s.playOne(p); err != nil {
			return s.again(fmt.Sprintf("seed %d", seed), p.taken, err)
		}
	}
	return fmt.Sprintf("%d orders of up to %d switches, %d random ones", n, s.Switches, s.Random), nil, ""
}

// all plays all orders with few switches, and says how many, and which has failed.
func (s *Story) all() (played int, taken []Switch, err error) {
	todo := make([][]order, s.Switches+1)
	todo[0] = []order{{}}
	seen := map[order]struct{}{{}: {}}
	for level := range todo {
		for len(todo[level]) > 0 {
			last := len(todo[level]) - 1
			o := todo[level][last]
			todo[level] = todo[level][:last]
			played++
			p := &Play{switches: o.at[:o.n]}
			if err := s.playOne(p); err != nil {
				return played, p.taken, err
			}
			for next := range p.others(&o, s.Switches) {
				if _, ok := seen[next]; !ok {
					seen[next] = struct{}{}
					todo[next.n] = append(todo[next.n], next)
				}
			}
		}
	}
	return played, nil, nil
}

// again plays an order that has failed once more, for its steps.
func (s *Story) again(which string, switches []Switch, failed error) (string, error, string) {
	which = fmt.Sprintf("%s, switches %v", which, switches)
	p := &Play{switches: switches, trace: new(trace)}
	if err := s.playOne(p); err == nil || err.Error() != failed.Error() {
		failed = fmt.Errorf("%w; but played again: %v", failed, err)
	}
	return which, failed, p.trace.String()
}

// others are the orders that differ in a switch before a step that matters to another task.
func (p *Play) others(o *order, switches int) func(yield func(order) bool) {
	type use struct{ users, writers uint32 }
	uses := map[Object]use{}
	for _, at := range p.points {
		u := uses[at.obj]
		u.users |= 1 << at.task
		if at.write {
			u.writers |= 1 << at.task
		}
		uses[at.obj] = u
	}
	return func(yield func(order) bool) {
		points := p.points
		if n := o.n; int(n) == switches { // behind the last one there would be one too many
			if n == 0 {
				return
			}
			points = points[:o.at[n-1].At]
		}
		for i, at := range points {
			others := at.runnable &^ (1 << at.task)
			if others == 0 {
				continue
			}
			if at.obj != nil {
				u, self := uses[at.obj], uint32(1)<<at.task
				if u.users&^self == 0 || u.writers == 0 || !at.write && u.writers&^self == 0 {
					continue
				}
			}
			for to := range p.tasks {
				if others>>to&1 == 0 {
					continue
				}
				if next, ok := o.with(Switch{int32(i), int32(to)}); ok && !yield(next) {
					return
				}
			}
		}
	}
}
