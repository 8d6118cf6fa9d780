package inside

// Two devices on a wire in memory and connected queue pairs between them. Nothing runs in the
// background: write posts a burst to one queue pair after the other and polls both ends until all
// is complete.

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/roce"
)

type world struct {
	a, b side
	next int // queue pair of the next burst
	wrs  []roce.SendWR
	wcs  []roce.WC
}

type side struct {
	dev *roce.Device
	pd  *roce.PD
	cq  *roce.CQ
	mr  *roce.MR
	qps []*roce.QP
}

var worlds atomic.Int64

// newWorld connects n queue pairs whose queues hold depth work requests.
func newWorld(n, depth int) (w *world, err error) {
	w = new(world)
	wire := fmt.Sprintf("pipe:bench-%d", worlds.Add(1))
	for _, s := range []*side{&w.a, &w.b} {
		if err := s.open(wire, n, depth, &roce.Config{NoBackground: true}); err != nil {
			w.close()
			return nil, err
		}
	}
	if err := w.connect(n, depth); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// connect connects the queue pairs and writes the burst.
func (w *world) connect(n, depth int) error {
	for i := range n {
		if err := connect(w.a.qps[i], w.b.qps[i]); err != nil {
			return err
		}
	}
	w.wcs = make([]roce.WC, burst)
	for i := range min(burst, depth) {
		w.wrs = append(w.wrs, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{w.a.mr.SGE(8*i, 8)},
			RemoteAddr: w.b.mr.Addr() + uint64(8*i), RKey: w.b.mr.RKey()})
	}
	w.wrs[len(w.wrs)-1].Flags = roce.SendSignaled
	return nil
}

func connect(a, b *roce.QP) error {
	if err := a.Connect(context.Background(), b.Endpoint(), nil); err != nil {
		return err
	}
	return b.Connect(context.Background(), a.Endpoint(), nil)
}

// open makes one end with a device of its own.
func (s *side) open(name string, n, depth int, cfg *roce.Config) (err error) {
	if s.dev, err = roce.Open(name, cfg); err != nil {
		return err
	}
	return s.furnish(n, depth)
}

// furnish makes what an end has on its device: one completion queue, a page of memory, queue pairs.
func (s *side) furnish(n, depth int) (err error) {
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	if s.cq, err = s.dev.CreateCQ(roce.CQInitAttr{CQE: 2 * burst}); err != nil {
		return err
	}
	if s.mr, err = s.pd.RegMR(make([]byte, 4096), roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead); err != nil {
		return err
	}
	size := roce.QPCap{MaxSendWR: uint32(depth), MaxRecvWR: uint32(depth), MaxSendSGE: 1, MaxRecvSGE: 1}
	for range n {
		q, err := s.pd.CreateQP(roce.QPInitAttr{Type: roce.RC, SendCQ: s.cq, Cap: size})
		if err != nil {
			return err
		}
		s.qps = append(s.qps, q)
	}
	return nil
}

// write sends bursts to as many queue pairs in turn.
func (w *world) write(bursts int) error {
	for range bursts {
		q := w.a.qps[w.next]
		if w.next++; w.next == len(w.a.qps) {
			w.next = 0
		}
		if err := q.PostSend(w.wrs...); err != nil {
			return err
		}
		if err := w.complete(); err != nil {
			return err
		}
	}
	return nil
}

// complete polls both ends until the burst is complete.
func (w *world) complete() error {
	for {
		if _, err := w.b.cq.Poll(w.wcs); err != nil {
			return err
		}
		n, err := w.a.cq.Poll(w.wcs)
		if err != nil {
			return err
		}
		for _, wc := range w.wcs[:n] {
			if wc.Status != roce.WCSuccess {
				return fmt.Errorf("a WRITE ended with %v", wc.Status)
			}
		}
		if n > 0 {
			return nil
		}
	}
}

func (w *world) close() {
	w.a.close()
	w.b.close()
}

// close closes what open made, as far as it came.
func (s *side) close() {
	s.clear()
	if s.dev != nil {
		s.dev.Close()
	}
}

// clear closes what furnish made, as far as it came.
func (s *side) clear() {
	for _, q := range s.qps {
		q.Close()
	}
	if s.mr != nil {
		s.mr.Close()
	}
	if s.cq != nil {
		s.cq.Close()
	}
	if s.pd != nil {
		s.pd.Close()
	}
}
