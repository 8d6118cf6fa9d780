package soft

// Packets that arrive on another lane than that of their queue pair.

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/goroce/goroce/wire"
)

// TestRunsStayWithinALane: a sender with one lane makes no run of packets for queue pairs of
// several lanes, which the kernel would deliver as one, to the lane of the first.
func TestRunsStayWithinALane(t *testing.T) {
	name := udpNames()
	a, err := Open(name(0), Config{})
	must(t, err)
	defer a.Close()
	b, err := Open(name(1), Config{Lanes: 4})
	must(t, err)
	defer b.Close()
	t.Run("", func(t *testing.T) {
		const each = 16
		var from, to []*end
		for range 4 {
			x, y := newEnd(t, a, RC, 4096), newEnd(t, b, RC, 4096)
			connect(t, x, y)
			from, to = append(from, x), append(to, y)
		}
		for round := range 20 {
			for i := range each {
				for _, y := range to {
					y.recv(uint64(i), y.mr.SGE(i*64, 64))
				}
			}
			sender := a.lanes[0]
			sender.turns.lock() // so that nothing is sent before all is posted
			for q, x := range from {
				fill(x.buf, q+round)
				for i := range each {
					x.post(SendWR{Opcode: WRSend, SGL: []SGE{x.mr.SGE(i*64, 64)}})
				}
			}
			sender.release()
			for q, y := range to {
				for i := range each {
					from[q].wait()
					if wc := y.wait(); wc.WRID != uint64(i) || wc.ByteLen != 64 {
						t.Fatalf("%+v", wc)
					}
				}
				same(t, y.buf[:each*64], from[q].buf[:each*64])
			}
		}
	})
	for i, in := range b.LaneStats() {
		if in.Lane.Strays > 0 || in.Port.RecvRuns == 0 {
			t.Errorf("lane %d: %d frames, %d in runs, %d strays", i, in.Port.RecvFrames, in.Port.RecvRuns, in.Lane.Strays)
		}
	}
}

// TestDatagramRuns: the same of datagrams, whose peers are heard of by nobody.
func TestDatagramRuns(t *testing.T) {
	name := udpNames()
	a, err := Open(name(0), Config{})
	must(t, err)
	defer a.Close()
	b, err := Open(name(1), Config{Lanes: 2})
	must(t, err)
	defer b.Close()
	t.Run("", func(t *testing.T) {
		const each = 16
		from, to := newEnd(t, a, UD, 64), []*end{newEnd(t, b, UD, 64), newEnd(t, b, UD, 64)}
		must(t, from.qp.Activate(7))
		ah, err := from.pd.CreateAH(bg, AHAttr{DGID: b.GIDs()[0]})
		must(t, err)
		defer func() { must(t, from.pd.DestroyAH(ah)) }()
		for _, y := range to {
			must(t, y.qp.Activate(7))
			for range each {
				y.recv(0, y.mr.SGE(0, 64))
			}
		}
		sender := a.lanes[0]
		sender.turns.lock()
		for range each / 4 {
			for _, y := range to {
				for range 4 {
					from.post(SendWR{Opcode: WRSend, Flags: SendInline, Inline: make([]byte, 8), AH: ah,
						RemoteQPN: y.qp.QPN(), RemoteQKey: 7})
				}
			}
		}
		sender.release()
		for _, y := range to {
			for range each {
				y.wait()
			}
		}
	})
	for i, in := range b.LaneStats() {
		if in.Lane.Strays > 0 || in.Port.RecvRuns == 0 {
			t.Errorf("lane %d: %d in runs, %d strays", i, in.Port.RecvRuns, in.Lane.Strays)
		}
	}
}

// TestMailbox: what does not fit is refused, and room comes back.
func TestMailbox(t *testing.T) {
	var m *mailbox
	if m.waiting() {
		t.Error("no mailbox has mail")
	}
	m = new(mailbox)
	if m.waiting() || len(m.take()) != 0 {
		t.Error("an empty mailbox has mail")
	}
	head, body := make([]byte, wire.Head4Len), make([]byte, 4096)
	for round := range 3 {
		for i := range mailFrames {
			binary.LittleEndian.PutUint32(body, uint32(i+round))
			if !m.put(&wire.Frame{Head: head, Body: body, Flags: wire.FrameSynthHead}) {
				t.Fatalf("frame %d is refused", i)
			}
		}
		if m.put(&wire.Frame{Head: head, Body: body}) || !m.waiting() {
			t.Error("a full mailbox takes more")
		}
		got := m.take()
		if m.waiting() || len(got) != mailFrames {
			t.Fatalf("%d frames", len(got))
		}
		for i := range got {
			if binary.LittleEndian.Uint32(got[i].Body) != uint32(i+round) || got[i].Flags != wire.FrameSynthHead {
				t.Fatalf("frame %d is another", i)
			}
		}
	}
}

// TestLaneOf: every packet has one lane, and QP 1 is on the first.
func TestLaneOf(t *testing.T) {
	for _, c := range []struct {
		qpn  uint32
		want int
	}{{0, 0}, {1, 0}, {2, 2}, {3, 3}, {4, 0}, {0xfffffe, 2}, {0xffffff, laneEvery}, {0x8000ff, 3}} {
		body := make([]byte, wire.BTHLen)
		(*wire.BTH)(body).Put(wire.RCAcknowledge, 0, 0, wire.DefaultPKey, c.qpn, 0)
		if got := laneOf(&wire.Frame{Body: body}, 1, 4, wire.QPNSpace{}); got != c.want {
			t.Errorf("QP 0x%06x: lane %d, want %d", c.qpn, got, c.want)
		}
	}
	if got := laneOf(&wire.Frame{Body: make([]byte, 5)}, 1, 4, wire.QPNSpace{}); got != 1 {
		t.Errorf("a short frame goes to lane %d", got)
	}
}

// TestHandRound: a datagram to a group is copied for the lanes with members of that group, and one
// to the number of groups at another address for none.
func TestHandRound(t *testing.T) {
	d, err := Open(fmt.Sprintf("pipe:test-%d", serial.Add(1)), Config{Lanes: 4, NoBackground: true})
	must(t, err)
	defer d.Close()
	t.Run("", func(t *testing.T) {
		gid := func(s string) GID {
			g, err := wire.ParseGID(s)
			must(t, err)
			return g
		}
		many, one := gid("239.1.1.1"), gid("239.1.1.2")
		for range 8 {
			e := newEnd(t, d, UD, 64)
			must(t, e.qp.Activate(7))
			if lane := e.qp.Lane(); lane != 0 {
				must(t, e.qp.AttachMcast(many))
				if lane == 2 {
					must(t, e.qp.AttachMcast(one))
				}
			}
			if e.qp.Lane() == 3 {
				must(t, e.qp.DetachMcast(many))
			}
		}
		for _, c := range []struct {
			to   GID
			at   int // the lane that receives it
			own  int // frames that it keeps
			rest uint64
		}{
			{many, 0, 0, 2}, {many, 1, 1, 1}, {many, 3, 0, 2},
			{one, 0, 0, 1}, {one, 2, 1, 0},
			{gid("239.1.1.3"), 1, 1, 0}, {d.GIDs()[0], 1, 1, 0}, {gid("10.0.0.1"), 1, 1, 0},
		} {
			path, err := wire.NewPath(gid("10.9.9.9"), c.to, 0xc000, 0, 64, 0)
			must(t, err)
			b := wire.NewBatch(1, wire.FullBody)
			f := b.Reserve(&path, int(wire.UDSendOnly.Info().HdrLen)+wire.ICRCLen)
			(*wire.BTH)(f.Body).Put(wire.UDSendOnly, 0, 0, wire.DefaultPKey, wire.MulticastQPN, 0)
			wire.Seal(f)
			l := d.lanes[c.at]
			before := l.count.Strays
			if own := len(l.keepOwn(b.Frames())); own != c.own || l.count.Strays-before != c.rest {
				t.Errorf("to %v at lane %d: it keeps %d and makes %d copies, want %d and %d",
					c.to, c.at, own, l.count.Strays-before, c.own, c.rest)
			}
		}
	})
	if n := len(d.groups.of); n > 0 {
		t.Errorf("%d groups are left", n)
	}
}
