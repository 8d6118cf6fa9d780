package roce

// What happens to an interface, as the applications of its device see it: events, the port's
// attributes, the GID table.

import (
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/netns"
)

// tells waits for events, which must be these; others of the same kind as the last may come too, as
// the kernel makes several changes of one.
func tells(t *testing.T, d *Device, want ...EventType) {
	t.Helper()
	var last EventType
	for _, w := range want {
		ev := next(t, d.Events())
		for ev.Type == last && ev.Type != w {
			ev = next(t, d.Events())
		}
		if ev.Type != w || ev.Device != d || (ev.Err != nil) != (w == EventPortErr) {
			t.Fatalf("event %v, want %v", ev, w)
		}
		last = w
	}
}

// TestPortEvents: each change of the interface has the event that the verbs have for it, and when
// that is told the port's attributes and the GID table show it.
func TestPortEvents(t *testing.T) {
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			d := openIn(t, w.Right, kind+":10.77.0.2")
			var gone, late atomic.Bool // as OnEvent tells, before Events
			d.OnEvent(func(e AsyncEvent) { gone.CompareAndSwap(false, e.Type == EventDeviceFatal) })
			d.OnEvent(func(AsyncEvent) { late.Store(true) })()
			up := func() bool { return d.QueryPort().State == PortActive && d.QueryPort().PhysState == PhysLinkUp }
			down := func() bool { return d.QueryPort().State == PortDown }
			row := func() bool { return d.GIDs()[0] == (GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 2}) }
			empty := func() bool { return d.GIDs()[0].IsZero() && d.QueryPort().GIDTblLen == 1 }
			for _, c := range []struct {
				ns      *netns.Namespace
				command string
				want    []EventType
				so      func() bool
			}{
				{w.Left, "link set wire down", []EventType{EventPortErr}, down},
				{w.Left, "link set wire up", []EventType{EventPortActive}, up},
				{w.Right, "link set wire mtu 1400", []EventType{EventPortActive}, func() bool { return d.QueryPort().NetMTU == 1400 }},
				{w.Right, "addr del 10.77.0.2/24 dev wire", []EventType{EventGIDChange}, empty},
				{w.Right, "addr add 10.77.0.2/24 dev wire", []EventType{EventGIDChange}, row},
				{w.Right, "link del wire", []EventType{EventPortErr, EventGIDChange, EventDeviceFatal}, down},
			} {
				c.ns.IP(t, c.command)
				if tells(t, d, c.want...); !c.so() {
					t.Errorf("%s: %+v, GIDs %v", c.command, d.QueryPort(), d.GIDs())
				}
			}
			if !gone.Load() || late.Load() {
				t.Errorf("OnEvent has told that the device is gone: %v; after its end: %v", gone.Load(), late.Load())
			}
		})
	}
}

// TestGoneToldOnce: an application that goes on with a connection whose interface is gone hears of
// that once, however often the port fails, and never that the port is active again.
func TestGoneToldOnce(t *testing.T) {
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			da, db := openIn(t, w.Left, kind+":10.77.0.1"), openIn(t, w.Right, kind+":10.77.0.2")
			a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
			hasty := DefaultConnectOptions()
			hasty.Timeout, hasty.RetryCnt = 8, 7
			must(t, a.qp.Connect(bg, b.qp.Endpoint(), nil))
			must(t, b.qp.Connect(bg, a.qp.Endpoint(), &hasty))
			w.Right.IP(t, "link del wire")
			tells(t, db, EventPortErr, EventGIDChange, EventDeviceFatal)
			b.post(SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
			if wc := b.waitAny(); wc.Status != WCRetryExcErr {
				t.Errorf("%v", wc.Status)
			}
			for n := 0; ; n++ {
				ev, more := db.Events().TryGet()
				if !more {
					break
				}
				if ev.Type != EventPortErr || n > 0 {
					t.Errorf("event %v", ev)
				}
			}
		})
	}
}

// TestShrunkMTU: a datagram that is longer than the active MTU fails, and does so from when the
// application hears that the interface's MTU is another.
func TestShrunkMTU(t *testing.T) {
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 3000)
			d, peer := openIn(t, w.Left, kind+":10.77.0.1"), openIn(t, w.Right, kind+":10.77.0.2")
			e := newEnd(t, d, UD, 2048)
			must(t, e.qp.Activate(7))
			ah, err := e.pd.CreateAH(bg, AHAttr{DGID: peer.GIDs()[0]})
			must(t, err)
			t.Cleanup(func() { must(t, e.pd.DestroyAH(ah)) })
			for _, c := range []struct {
				mtu    string
				active MTU
				want   WCStatus
			}{{"1500", MTU1024, WCLocLenErr}, {"3000", MTU2048, WCSuccess}} {
				w.Left.IP(t, "link set wire mtu "+c.mtu)
				for next(t, d.Events()).Type != EventPortActive || d.QueryPort().ActiveMTU != c.active {
				}
				must(t, e.qp.PostSend(SendWR{
					Opcode:     WRSend,
					Flags:      SendSignaled,
					SGL:        []SGE{e.mr.SGE(0, 2000)},
					AH:         ah,
					RemoteQPN:  99,
					RemoteQKey: 7,
				}))
				if wc := e.waitAny(); wc.Status != c.want {
					t.Errorf("2000 bytes at an MTU of %s: %v, want %v", c.mtu, wc.Status, c.want)
				}
				if e.qp.State() == StateSQE {
					must(t, e.qp.Modify(bg, &QPAttr{State: StateRTS}, AttrState))
				}
			}
		})
	}
}

// TestRowEmpties: a connection whose source address goes repeats its request until it gives up, and
// in the meantime nobody can connect from the row; when the address is back, all is well.
func TestRowEmpties(t *testing.T) {
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			da, db := openIn(t, w.Left, kind+":10.77.0.1"), openIn(t, w.Right, kind+":10.77.0.2")
			a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
			hasty := DefaultConnectOptions() // which gives up soon when it must
			hasty.Timeout, hasty.RetryCnt = 8, 1
			must(t, a.qp.Connect(bg, b.qp.Endpoint(), nil))
			must(t, b.qp.Connect(bg, a.qp.Endpoint(), &hasty))
			write := SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()}

			w.Right.IP(t, "addr del 10.77.0.2/24 dev wire")
			tells(t, db, EventGIDChange)
			b.post(write)
			if wc := b.waitAny(); wc.Status != WCRetryExcErr {
				t.Errorf("%v", wc.Status)
			}
			c, d := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
			refused(t, d.qp.Connect(bg, c.qp.Endpoint(), nil), ErrInvalid, "sgid_index 0: the row of the GID table is empty")

			w.Right.IP(t, "addr add 10.77.0.2/24 dev wire")
			tells(t, db, EventGIDChange)
			connect(t, c, d)
			c.post(SendWR{Opcode: WRWrite, SGL: []SGE{c.mr.SGE(0, 8)}, RemoteAddr: d.mr.Addr(), RKey: d.mr.RKey()})
			c.wait()
		})
	}
}
