package cm

import "container/heap"

// timers is a heap of the connections that have a deadline; each stands at c.timer-1.
type timers []*Conn

// set gives a connection another deadline; Never takes it away.
func (h *timers) set(c *Conn, t Time) {
	c.deadline = t
	switch {
	case c.timer == 0 && t != Never:
		heap.Push(h, c)
	case c.timer != 0 && t != Never:
		heap.Fix(h, c.timer-1)
	case c.timer != 0:
		heap.Remove(h, c.timer-1)
	}
}

// next returns the earliest deadline, or Never.
func (h timers) next() Time {
	if len(h) == 0 {
		return Never
	}
	return h[0].deadline
}

// expired returns a connection whose deadline has come, or nil.
func (h timers) expired(now Time) *Conn {
	if h.next() > now || len(h) == 0 {
		return nil
	}
	return h[0]
}

// Len, Less, Swap, Push and Pop are for package heap.
func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool { return h[i].deadline < h[j].deadline }

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i+1, j+1
}

func (h *timers) Push(x any) {
	c := x.(*Conn)
	*h = append(*h, c)
	c.timer = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.timer = 0
	return c
}
