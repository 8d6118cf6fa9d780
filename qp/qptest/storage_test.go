package qptest

// Storage that is slower than what peers want of it: whose turn it is, and what waits no more
// (section 14). Turns are counted, and time stands still.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// storageWorld is a node whose storage does a few syncs at a time, and what its peers do to it.
type storageWorld struct {
	*Script
	a     *End // has the memory
	syncs *[]qp.Sync
}

func newStorageWorld(t *testing.T, most int) *storageWorld {
	s := NewScript(t)
	w := &storageWorld{Script: s, a: s.newEnd(NodeConfig{Engine: qp.Config{Storage: qp.NewStorage(most, nil)}}, QPConfig{})}
	w.syncs = storage(w.a)
	for _, m := range w.a.Node.regions {
		m.loose = true
	}
	return w
}

// flusher is the other end of a queue pair of the node.
type flusher struct {
	*Raw
	w   *storageWorld
	psn wire.PSN // of its next FLUSH
}

// flushers makes n queue pairs that are connected to one more peer.
func (w *storageWorld) flushers(n int) (list []*flusher) {
	peer := w.AddNode(NodeConfig{Raw: true})
	for i := range n {
		list = append(list, w.flusher(peer, w.a.Node.CreateQP(QPConfig{DestRdAtomic: 4}), uint32(100+i)))
	}
	return list
}

func (w *storageWorld) flusher(peer *Node, to *QP, qpn uint32) *flusher {
	path, err := wire.NewPath(peer.GID, to.Node.GID, 0xc123, 0, 64, 0)
	if err != nil {
		w.T.Fatalf("%v", err)
	}
	to.ConnectRaw(peer, qpn, 0)
	return &flusher{Raw: &Raw{Node: peer, QPN: qpn, path: path, to: to}, w: w}
}

func (f *flusher) flush(times int) {
	for range times {
		f.Inject(f.w.a.flush(f.psn, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
		f.psn = f.psn.Next()
	}
}

// ends is the end of the oldest sync; it returns the queue pair that had asked for it.
func (w *storageWorld) ends() *QP {
	w.T.Helper()
	if len(*w.syncs) == 0 {
		w.T.Fatalf("nothing is at storage")
	}
	q := (*w.syncs)[0].QP().Context().(*QP)
	w.synced(w.a, true)
	w.Clear()
	return q
}

// TestStorageTurns: peers that flush without end on many queue pairs leave one that does on a
// single one at least half of what it would have if all were equal, as long as it wants it.
func TestStorageTurns(t *testing.T) {
	for _, most := range []int{1, 2, 3, 8} {
		for _, floods := range []int{1, 3} {
			for _, pairs := range []int{1, 4, 30} {
				t.Run(fmt.Sprintf("%d at a time, %d peers with %d queue pairs", most, floods, pairs), func(t *testing.T) {
					w := newStorageWorld(t, most)
					by := map[*QP]*flusher{}
					for range floods {
						for _, f := range w.flushers(pairs) {
							by[f.to] = f
							f.flush(4)
						}
					}
					honest := w.flushers(1)[0] // the last to come
					by[honest.to] = honest
					honest.flush(4)
					const turns = 400
					had := 0
					for range turns {
						if n := len(*w.syncs); n == 0 || n > most {
							t.Fatalf("%d syncs are under way, want up to %d", n, most)
						}
						q := w.ends()
						if q == honest.to {
							had++
						}
						by[q].flush(1)
					}
					if least := turns / (2 * (floods + 1)); had < least {
						t.Errorf("%d turns of %d, want %d", had, turns, least)
					}
				})
			}
		}
	}
}

// TestStorageForgets: what waits for its turn is asked for no more when nobody waits for it: its
// queue pair is gone, was reset, or has failed, or an earlier FLUSH of it has. What is under way
// keeps its place until it ends.
func TestStorageForgets(t *testing.T) {
	to := func(state qp.QPState) func(w *storageWorld, q *QP) error {
		return func(w *storageWorld, q *QP) error { return q.Modify(qp.QPAttr{State: state}, qp.AttrState) }
	}
	for _, c := range []struct {
		name string
		ends func(w *storageWorld, q *QP) error
		want string // whose syncs end then
	}{
		{"destroyed", func(w *storageWorld, q *QP) error { return q.Destroy() }, "gone other other"},
		{"ERR", to(qp.StateErr), "gone other other"},
		{"RESET", to(qp.StateReset), "gone other other"},
		{"RESET, and another peer", func(w *storageWorld, q *QP) error {
			err := to(qp.StateReset)(w, q)
			w.flusher(w.AddNode(NodeConfig{Raw: true}), q, 7).flush(1)
			return err
		}, "gone other gone other"},
		{"storage has failed", func(w *storageWorld, q *QP) error {
			failed := (*w.syncs)[0]
			*w.syncs = nil
			w.a.Node.turn(func() { w.a.Node.Engine.Synced(w.Now, failed, false) })
			return nil
		}, "other other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newStorageWorld(t, 1)
			gone, other := w.flushers(1)[0], w.flushers(1)[0]
			gone.flush(4)
			other.flush(2)
			if err := c.ends(w, gone.to); err != nil {
				t.Fatal(err)
			}
			var had []string
			for len(*w.syncs) > 0 {
				had = append(had, map[*QP]string{gone.to: "gone", other.to: "other"}[w.ends()])
			}
			if got := strings.Join(had, " "); got != c.want {
				t.Errorf("at storage: %s; want %s", got, c.want)
			}
		})
	}
}

// TestStorageOpened: who lets storage do more at a time asks for what has waited.
func TestStorageOpened(t *testing.T) {
	most := qp.NewStorage(0, nil)
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Engine: qp.Config{Storage: most}}, QPConfig{})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	syncs := storage(a)
	p.Inject(a.flush(0, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
	if len(*syncs) > 0 {
		t.Fatal("storage does nothing, but was asked")
	}
	most.SetMost(1)
	a.Node.turn(func() {})
	s.synced(a, true)
	s.Drop(a, answered(0))
}
