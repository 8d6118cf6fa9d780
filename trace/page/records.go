package page

// What devices have recorded beside the packets of a capture (roce --records), as lines at their
// hosts. Stages: records as they come; which address a device has, by its queue pairs or by what it
// sent → a record that names a packet says where the packet belongs among the records: what follows
// from a packet is drawn behind it → the records of the window's time.

import (
	"cmp"
	"slices"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// Bounds: how far a record may lie behind the packets of its time, in nanoseconds and in packets,
// and how many are kept.
const (
	latest     = int64(50 * time.Millisecond)
	maxBehind  = 1 << 14
	maxRecords = 4 * MaxCount
)

// devices are those that have recorded something.
type devices struct {
	told   []timeline.Entry
	sender string // who sends what the capture calls sent: the device itself
	behind int    // packets behind the window
}

// Told takes what a device has recorded. It comes behind the packets of its time.
func (w *Window) Told(x *timeline.Entry) {
	d := &w.devices
	early := w.From > 1 && (len(w.packets) == 0 || x.Time < w.first+w.packets[0].Sent)
	if !early && len(d.told) < maxRecords {
		d.told = append(d.told, *x)
	}
}

// saw takes note of who sends.
func (d *devices) saw(p *trace.Packet) {
	if d.sender == "" && (p.Name == "sent" || p.Direction == trace.DirSent) {
		d.sender, _ = p.Addresses()
	}
}

// late says whether records of the window's time may still come, ns behind its last packet.
func (d *devices) late(ns int64) bool {
	d.behind++
	return ns < latest && d.behind < maxBehind
}

// recorded are the records as lines, of a window that has all packets of its time.
func (w *Window) recorded() (all []world.Entry) {
	if w.Wrong || w.Filter != nil || len(w.devices.told) == 0 {
		return nil
	}
	last := int64(1<<63 - 1)
	if n := len(w.packets); w.more && n > 0 {
		last = w.packets[n-1].Sent
	}
	named, hosts, now := w.named(), w.hosts(), map[string]int64{}
	for i := range w.devices.told {
		x := &w.devices.told[i]
		t := x.Time - w.first
		if k := x.Record.Kind; k == qp.RecordSent || k == qp.RecordReceived {
			if at, ok := named.take(&x.Record, t); ok {
				now[x.Node] = max(now[x.Node], at)
			}
			continue
		}
		if after, ok := now[x.Node]; ok && after >= t && after-t < latest {
			t = after + 1
		}
		if t > last {
			continue
		}
		all = append(all, world.Entry{Time: t, Host: hosts[x.Node], Kind: x.Record.Kind.String(), QPN: x.Record.QPN,
			Text: world.RecordWords(&x.Record)})
	}
	slices.SortStableFunc(all, func(a, b world.Entry) int { return cmp.Compare(a.Time, b.Time) })
	return all
}

// packetName is what a record says of a packet.
type packetName struct {
	op  string
	qpn uint32
	psn wire.PSN
}

// packetTimes are the times of the packets of each name, those that no record has named yet.
type packetTimes map[packetName][]int64

func (w *Window) named() packetTimes {
	all := packetTimes{}
	for i := range w.packets {
		p := &w.packets[i]
		n := packetName{p.Op, p.QPN, wire.PSN(p.PSN)}
		all[n] = append(all[n], p.Sent)
	}
	return all
}

// take returns the time of the packet that a record of that time names, if it is there.
func (all packetTimes) take(r *qp.Record, t int64) (at int64, ok bool) {
	n := packetName{wire.Opcode(r.Op).String(), r.QPN, r.PSN}
	times := all[n]
	if len(times) == 0 || times[0] > t+latest {
		return 0, false
	}
	all[n] = times[1:]
	return times[0], true
}

// hosts are the lines of the devices, by name: of whose queue pairs the flows tell, or who sends.
func (w *Window) hosts() map[string]int {
	senders := map[uint32][]string{} // by queue pair
	for _, f := range w.study.Flows {
		if f.Peer != nil {
			senders[f.Peer.DestQP] = append(senders[f.Peer.DestQP], f.Src.Addr().Unmap().String())
		}
	}
	hosts := map[string]int{}
	for _, x := range w.devices.told {
		who := senders[x.Record.QPN]
		if _, known := hosts[x.Node]; !known && len(who) == 1 && x.Record.Kind != qp.RecordSent &&
			x.Record.Kind != qp.RecordReceived {
			hosts[x.Node] = w.columns.Of(who[0])
		}
	}
	for _, x := range w.devices.told {
		if _, known := hosts[x.Node]; !known {
			hosts[x.Node] = w.columns.Of(cmp.Or(w.devices.sender, x.Node))
		}
	}
	return hosts
}
