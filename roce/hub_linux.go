package roce

// A device on a slot of an address that other processes have too: "hub:ADDRESS". The hub (package
// roce/hub) gives the sockets, and has queue pair 1.
//
// Stages: joining the hub, and the slot's ports; what is said of the device there; the end.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

// hubDevice is a software device whose process is at a hub.
type hubDevice struct {
	softDevice
	client *hub.Client
	deck   []byte
	device *Device
}

// hubName tells whether a name is that of such a device, and of which address or interface.
func hubName(name string) (where string, ok bool) { return strings.CutPrefix(name, "hub:") }

// openHub opens one. The error is an *transport.OpenError.
func openHub(d *Device, where string, cfg *Config, open func(*Config) (*soft.Device, error)) (_ provider, err error) {
	bad := func(reason string, err error) error {
		return &transport.OpenError{Name: d.name, Reason: reason, Err: err}
	}
	if cfg.Dealt != nil || cfg.Foreign != nil {
		return nil, bad("Config.Dealt and Config.Foreign are the hub's", nil)
	}
	own, lanes := *cfg, cmp.Or(cfg.Lanes, 1)
	if _, err := transport.Where(d.name, lanes); err != nil {
		return nil, err
	}
	c, err := hub.Open(context.Background(), where, lanes, cmp.Or(cfg.Transport.UDPPort, wire.UDPPort), true)
	if err != nil {
		return nil, bad("the hub of the address", err)
	}
	h := &hubDevice{client: c, device: d}
	defer func() {
		if err != nil {
			h.leave()
		}
	}()
	if h.deck, err = unix.Mmap(c.Deck(), 0, DealtSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, bad("the memory of its queue pair numbers", err)
	}
	own.Dealt = h.deck
	if !own.NoECN {
		own.Transport.TrafficClass = qp.ECT(own.Transport.TrafficClass)
	}
	if own.Ports, err = udp.OpenSlot(d.name, c.Slot(), own.Transport); err != nil {
		return nil, err
	}
	s, err := open(&own)
	if err != nil {
		return nil, err
	}
	h.softDevice = softDevice{s}
	c.Reports(h.report)
	hub.Attach(d, c)
	return h, nil
}

// leave gives back what the hub has given.
func (h *hubDevice) leave() error {
	hub.Attach(h.device, nil)
	var err error
	if h.deck != nil {
		err = unix.Munmap(h.deck)
	}
	return errors.Join(h.client.Close(), err)
}

// close implements provider.
func (h *hubDevice) close() error { return errors.Join(h.softDevice.close(), h.leave()) }

// report says what runs on the device.
func (h *hubDevice) report() (r hub.Report) {
	for _, s := range h.stats() {
		r.SentBytes += s.Port.SendBytes
		r.RecvBytes += s.Port.RecvBytes
		r.SentPkts += s.Engine.SentPkts
		r.RecvPkts += s.Engine.RcvdPkts
		r.Foreign += s.Lane.Foreign
	}
	for _, q := range h.device.queuePairs() {
		if r.QPs++; len(r.QueuePairs) == hub.MaxQueuePairs {
			continue
		}
		said := hub.QueuePair{QPN: q.QPN(), Type: q.Type().String(), State: q.State().String()}
		if attr, err := q.Query(); err == nil && attr.DestQPN != 0 {
			said.Peer, said.To = attr.AV.DGID.String(), attr.DestQPN
		}
		r.QueuePairs = append(r.QueuePairs, said)
	}
	return r
}

// queuePairs are those that are open, in the order of their numbers.
func (d *Device) queuePairs() (list []*QP) {
	d.mu.Lock()
	for x := range d.objects.all {
		if q, ok := x.(*QP); ok {
			list = append(list, q)
		}
	}
	d.mu.Unlock()
	slices.SortFunc(list, func(a, b *QP) int { return cmp.Compare(a.QPN(), b.QPN()) })
	return list
}
