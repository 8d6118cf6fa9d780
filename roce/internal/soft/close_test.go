package soft

// What comes late, after a device is closed, finds nothing there.

import (
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// quietPort is one that nothing comes to. After its Close nobody may call it (transport.Port).
type quietPort struct {
	transport.Port
	gid    GID
	closed bool
	late   int // calls
}

func (p *quietPort) Recv([]wire.Frame) (int, error) {
	if p.closed {
		p.late++
		return 0, transport.ErrClosed
	}
	return 0, nil
}
func (p *quietPort) Wake()        {}
func (p *quietPort) Close() error { p.closed = true; return nil }
func (p *quietPort) Info() transport.Info {
	return transport.Info{Name: "quiet", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 65536, MaxRun: 1}
}

// TestLatePoll: a poll has found its queue idle and open; before it goes on, the queue and the
// device are closed.
func TestLatePoll(t *testing.T) {
	gid, err := wire.ParseGID("10.0.0.1")
	must(t, err)
	port := &quietPort{gid: gid}
	var events []qp.EventType
	d, err := Open("late", Config{
		Ports:        []transport.Port{port},
		NoBackground: true,
		Event:        func(e Event) { events = append(events, e.Type) },
	})
	must(t, err)
	c, err := d.CreateCQ(CQInit{CQE: 4})
	must(t, err)
	if !c.idle() {
		t.Fatal("it is not idle")
	}
	must(t, c.Close())
	must(t, d.Close())
	c.run()
	if port.late > 0 || len(events) > 0 {
		t.Errorf("a closed port was called %d times; events of a closed device: %v", port.late, events)
	}
}

// TestLatePost: a post has written its request; before it goes on, the queue pair, its queue and
// the device are closed.
func TestLatePost(t *testing.T) {
	gid, err := wire.ParseGID("10.0.0.1")
	must(t, err)
	port := &quietPort{gid: gid}
	var events []qp.EventType
	d, err := Open("late", Config{
		Ports:        []transport.Port{port},
		NoBackground: true,
		Event:        func(e Event) { events = append(events, e.Type) },
	})
	must(t, err)
	c, err := d.CreateCQ(CQInit{CQE: 4})
	must(t, err)
	pd, err := d.AllocPD()
	must(t, err)
	q := new(QP)
	must(t, pd.CreateQP(q, QPInit{Type: qp.RC, SendCQ: c, RecvCQ: c, Cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 4}}))
	q.lane.visit() // a poll that found completions: the next post takes a whole turn
	must(t, q.Close())
	must(t, c.Close())
	must(t, pd.Close())
	must(t, d.Close())
	q.lane.sendPosted(&q.q, 1)
	if port.late > 0 || len(events) > 0 {
		t.Errorf("a closed port was called %d times; events of a closed device: %v", port.late, events)
	}
}

// TestLateRing: who ends the sleep of an alarm that is closed does not set off another one, which
// has its number by now.
func TestLateRing(t *testing.T) {
	a, err := newStandby()
	must(t, err)
	a.close()
	others := make([]alarm, 16)
	for i := range others {
		others[i], err = newStandby()
		must(t, err)
		defer others[i].close()
	}
	a.end()
	for _, o := range others {
		began := time.Now()
		if o.sleep(time.Millisecond); time.Since(began) < time.Millisecond {
			t.Error("another alarm went off")
		}
	}
}
