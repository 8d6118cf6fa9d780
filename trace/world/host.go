package world

// A host: an engine, its memory, its completion queues. Stages of a turn, the same for every input:
// the input (a packet, a doorbell, a deadline, a verb) → a packet to the port, if that is free →
// completions are published → events → what happened is gathered.

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Host is a machine with a device.
type Host struct {
	Name string
	GID  wire.GID  // its address: 10.0.0.1 of the first
	PD   mr.PD     // its first protection domain, which all is in that names no other
	Keys *mr.Table // its registered memory

	// MaxRegions and MaxPages are what the table of a small device has room for: regions, and pages
	// of 4 KiB that they touch. 0 is no limit.
	MaxRegions, MaxPages int

	gids     []wire.GID
	w        *World
	index    int
	engine   *qp.Engine
	recorder *qp.Recorder
	read     uint64 // records gathered
	reader   *mr.Reader
	batch    *wire.Batch
	deadline qp.Time
	busy     qp.Time // when the port is free again
	inbound  qp.Time // when the port of the switch towards this host is
	waiting  bool    // for that
	regions  []*Region
	cqs      []*CQ
	pairs    []*QP
	groups   []wire.GID
}

// AddHost adds a host. Numbers of its queue pairs say whose they are, 0x1.. of the first host, and
// first PSNs are round, which is easy to read; a real device draws both at random, as it does with
// keys, here too.
func (w *World) AddHost(name string) *Host {
	i := len(w.hosts)
	h := &Host{
		Name:     name,
		w:        w,
		index:    i,
		deadline: qp.Never,
		recorder: qp.NewRecorder(4096),
		batch:    wire.NewBatch(1, 4096+128),
	}
	h.GID, _ = wire.ParseGID(fmt.Sprintf("::ffff:10.0.0.%d", i+1))
	h.gids = []wire.GID{h.GID}
	h.Keys = mr.NewTable(rand.New(rand.NewPCG(18, uint64(i))).Uint64)
	h.reader = h.Keys.NewReader()
	h.PD, _ = h.Keys.AllocPD()
	count := uint64(0)
	h.engine = qp.NewEngine(qp.Config{Memory: h.Keys, GIDs: h.gids, ECN: true, Recorder: h.recorder,
		Rand:       func() uint64 { count++; return count },
		Congestion: qp.CongestionParams{LineRate: uint64(w.Rate)},
		QPNs:       wire.QPNSpace{Mask: wire.QPNMask &^ 0xff, Value: uint32(i+1) << 8}})
	w.hosts = append(w.hosts, h)
	w.play.Hosts = append(w.play.Hosts, HostInfo{name, h.GID.Addr().Unmap().String(), []QPInfo{}, []CQInfo{},
		[]RegionInfo{}})
	return h
}

// turn is one step of the device. cause is the number of the packet that is handled, 0 without.
func (h *Host) turn(cause int, input func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a lesson unmaps memory
	h.reader.Enter()
	input()
	h.transmit()
	h.engine.Publish()
	h.reader.Exit()
	h.gather(cause)
	for {
		ev, ok := h.engine.PollEvent()
		if !ok {
			break
		}
		h.asyncEvent(&ev)
	}
	for {
		cq, ok := h.engine.PollNotify()
		if !ok {
			break
		}
		h.notified(cq)
	}
	h.deadline = h.engine.NextTimeout()
	h.w.moment()
}

// transmit gives the port a packet if it is free. While it is not, the engine keeps what it has to
// send: so an ACK can leave between two packets of a long message.
func (h *Host) transmit() {
	if h.w.now < h.busy {
		h.later()
		return
	}
	h.batch.Reset()
	if h.engine.PollTransmit(h.w.now, h.batch) == 0 {
		return
	}
	h.busy = h.w.leave(h, &h.batch.Frames()[0])
	h.later()
}

// later has the port look again when it is free.
func (h *Host) later() {
	if h.waiting {
		return
	}
	h.waiting = true
	h.w.After(h.busy-h.w.now, func() {
		h.waiting = false
		h.turn(0, func() {})
	})
}

// AllocPD makes another protection domain.
func (h *Host) AllocPD() mr.PD {
	pd, err := h.Keys.AllocPD()
	h.called("ibv_alloc_pd", fmt.Sprintf("protection domain %d", pd), err)
	return pd
}

// Region is registered memory. Of one whose registration was refused all bytes are there, and the
// keys are 0.
type Region struct {
	*mr.Region
	Host  *Host
	Name  string
	Bytes []byte

	index    int
	addr     uint64
	gone     bool   // deregistered
	unmapped bool   // its bytes cannot be looked at
	shown    []byte // as the last moment had it
}

// RegMR allocates and registers size bytes. Addresses are such that hosts and regions can be told
// apart: 0x1xxxxx is the first host's memory.
func (h *Host) RegMR(name string, size int, access mr.Access) *Region {
	// of whole words, which Go puts at multiples of 8, as the addresses here are
	return h.RegMRIn(h.PD, name, make([]byte, size, (size+7)&^7), access)
}

// RegMRIn registers bytes in a protection domain.
func (h *Host) RegMRIn(pd mr.PD, name string, bytes []byte, access mr.Access) *Region {
	r := &Region{Host: h, Name: name, Bytes: bytes, index: len(h.regions), shown: make([]byte, len(bytes))}
	r.addr = uint64(h.index+1) << 20
	for _, x := range h.regions {
		r.addr = (x.addr + uint64(len(x.Bytes)) + 1<<16) &^ (1<<16 - 1)
	}
	err := h.room(r)
	if err == nil {
		r.Region, err = h.Keys.Register(pd, bytes, r.addr, access)
	}
	h.called("ibv_reg_mr", fmt.Sprintf("%q, %d bytes, %s", name, len(bytes), accessWords(access)), err)
	if err != nil {
		return r
	}
	h.regions = append(h.regions, r)
	info := &h.w.play.Hosts[h.index]
	info.Regions = append(info.Regions, RegionInfo{name, fmt.Sprintf("0x%x", r.addr), len(bytes), r.Region.LKey(),
		r.Region.RKey(), accessWords(access)})
	h.w.moment()
	return r
}

// room is an error if a small device has none for another region.
func (h *Host) room(r *Region) error {
	regions, pages := 0, r.pages()
	for _, x := range h.regions {
		if !x.gone {
			regions++
			pages += x.pages()
		}
	}
	switch {
	case h.MaxRegions > 0 && regions >= h.MaxRegions:
		return fmt.Errorf("world: %d regions exist, the device has room for as many: %w", regions, mr.ErrFull)
	case h.MaxPages > 0 && pages > h.MaxPages:
		return fmt.Errorf("world: %d pages with this region's %d, the device's table has %d: %w",
			pages, r.pages(), h.MaxPages, mr.ErrFull)
	}
	return nil
}

// pages is how many pages of 4 KiB the region touches.
func (r *Region) pages() int {
	const page = 4096
	return int((r.addr+uint64(len(r.Bytes))+page-1)/page - r.addr/page)
}

// AddGID gives the host another address: another row of its GID table.
func (h *Host) AddGID(g wire.GID) {
	h.gids = append(slices.Clone(h.gids), g)
	h.engine.SetGIDs(h.gids)
}

// DeregMR ends the region's key.
func (r *Region) DeregMR() error {
	err := fmt.Errorf("world: region %q was never registered: %w", r.Name, mr.ErrInvalid)
	if r.Region != nil {
		err = r.Host.Keys.Deregister(r.Region)
	}
	r.gone = err == nil
	r.Host.called("ibv_dereg_mr", fmt.Sprintf("%q", r.Name), err)
	return err
}

// Unmap has the program give up the region's memory by a call of the system.
func (r *Region) Unmap(verb string, call func() error) error {
	r.unmapped = true
	err := call()
	r.Host.called(verb, fmt.Sprintf("%q", r.Name), err)
	return err
}

// Addr is the address of a byte.
func (r *Region) Addr(off int) uint64 { return r.addr + uint64(off) }

// SGE names n bytes of the region.
func (r *Region) SGE(off, n int) qp.SGE {
	return qp.SGE{Addr: r.Addr(off), Length: uint32(n), LKey: r.LKey()}
}

// LKey is the key for the host's own use.
func (r *Region) LKey() uint32 {
	if r.Region == nil {
		return 0
	}
	return r.Region.LKey()
}

// RKey is the key for a peer.
func (r *Region) RKey() uint32 { return r.LKey() }

// Set has the host's processor store bytes.
func (r *Region) Set(off int, b []byte) {
	copy(r.Bytes[off:], b)
	r.Host.note("cpu", 0, fmt.Sprintf("the program stores %d bytes at 0x%x", len(b), r.Addr(off)))
	r.Host.w.moment()
}

// CQ is a completion queue.
type CQ struct {
	*qp.CQ
	Host *Host
	Name string

	shown []qp.WC // what is in it
}

// CreateCQ makes a completion queue for so many completions.
func (h *Host) CreateCQ(size int) *CQ {
	cq, err := h.engine.CreateCQ(size, nil)
	c := &CQ{CQ: cq, Host: h, Name: fmt.Sprintf("cq%d", len(h.cqs))}
	h.called("ibv_create_cq", fmt.Sprintf("%d entries", size), err)
	if err != nil {
		return c
	}
	h.cqs = append(h.cqs, c)
	info := &h.w.play.Hosts[h.index]
	info.CQs = append(info.CQs, CQInfo{c.Name, cq.Cap()})
	return c
}

// Poll takes all completions that are there.
func (c *CQ) Poll() []qp.WC { return c.PollN(c.Cap()) }

// PollN takes up to n completions.
func (c *CQ) PollN(n int) []qp.WC {
	wcs := make([]qp.WC, n)
	wcs = wcs[:c.CQ.Poll(wcs)]
	c.shown = c.shown[len(wcs):]
	c.Host.note("poll", 0, pollWords(wcs))
	c.Host.w.moment()
	return wcs
}

// Arm asks for one event at the next completion (ibv_req_notify_cq).
func (c *CQ) Arm(solicitedOnly bool) {
	c.CQ.Arm(solicitedOnly)
	c.Host.called("ibv_req_notify_cq", c.Name, nil)
}

// AH makes an address handle for another host.
func (h *Host) AH(to wire.GID) *qp.AH {
	ah, err := h.engine.CreateAH(h.PD, qp.AHAttr{DGID: to})
	h.called("ibv_create_ah", to.String(), err)
	return ah
}

// AttachMcast lets a queue pair receive what is sent to a group; the switch gives each member's
// host a copy.
func (q *QP) AttachMcast(group wire.GID) error {
	h := q.Host
	err := h.engine.AttachMulticast(q.QP, group)
	h.called("ibv_attach_mcast", group.String(), err)
	if err == nil && !slices.Contains(h.groups, group) {
		h.groups = append(h.groups, group)
	}
	return err
}
