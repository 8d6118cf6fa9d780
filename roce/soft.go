package roce

// The software RNIC as a provider: what it can do in the words of the verbs, and its things handed
// on.
//
// Stages: the device; its things; a device at a hub.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/roce/internal/storage"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

type softDevice struct{ *soft.Device }

// attr says what this stack can do: values come from qp/limits.go, mr and the port, so that the
// answer is what the code below really does.
func (d softDevice) attr() DeviceAttr {
	guid := d.guid()
	caps := CapCurrQPStateMod | CapPortActiveEvent | CapRCRNRNakGen | CapSRQResize | CapXRC | CapMemWindow |
		CapMemWindow2B | CapFlushGlobal | CapAtomicWrite
	if storage.Works {
		caps |= CapFlushPersistent
	}
	return DeviceAttr{
		FWVer: "goroce", NodeGUID: guid, SysImageGUID: guid,
		// no IEEE number, as rxe
		MaxMRSize: math.MaxInt64, PageSizeCap: 0xfffff000, VendorID: 0xffffff,
		MaxQP: qp.MaxQP, MaxQPWR: qp.MaxQPWR,
		DeviceCaps: caps,
		MaxSGE:     qp.MaxSGE, MaxSGERd: qp.MaxSGE, MaxInline: qp.MaxInline, MaxCQ: qp.MaxCQ, MaxCQE: qp.MaxCQE,
		MaxMR: mr.MaxRegions, MaxPD: mr.MaxPDs, MaxMW: mr.MaxWindows, MaxAH: qp.MaxAH, MaxPKeys: qp.MaxPKeys,
		MaxSRQ: qp.MaxSRQ, MaxSRQWR: qp.MaxSRQWR, MaxSRQSGE: qp.MaxSGE,
		MaxQPRdAtom: qp.MaxRdAtomic, MaxQPInitRdAtom: qp.MaxRdAtomic, MaxResRdAtom: qp.MaxRdAtomic * qp.MaxQP,
		AtomicCap: AtomicGlob, LocalCAAckDelay: 15, PhysPortCnt: 1, NumCompVectors: 1,
		SelectiveRepeat: true, FlowControl: true,
		HCACoreClock: 1e6, CompletionTimestampMask: math.MaxUint64,
		MaxCQCount: qp.MaxCQModCount, MaxCQPeriod: int(qp.MaxCQModPeriod / 1000),
		RateLimitMin: qp.MinRateLimit, RateLimitMax: qp.MaxRateLimit,
		MaxMcastGrp: qp.MaxMcastGrp, MaxMcastQPAttach: qp.MaxMcastQPAttach,
		MaxTotalMcastQPAttach: qp.MaxTotalMcastQPAttach, ODP: softODP,
	}
}

// softODP is all that each kind of queue pair does: no region is pinned for it.
var softODP = func() ODPCaps {
	datagram := ODPSupportSend | ODPSupportRecv | ODPSupportSRQRecv
	reliable := datagram | ODPSupportWrite | ODPSupportRead | ODPSupportAtomic
	return ODPCaps{
		General: ODPSupport | ODPSupportImplicit,
		RC:      reliable,
		UC:      datagram | ODPSupportWrite,
		UD:      datagram,
		XRC:     reliable,
	}
}()

// guid makes the EUI-64 of a MAC address (section 1.9).
func (d softDevice) guid() uint64 {
	info := d.Opened()
	if m := info.MAC; len(m) == 6 && [6]byte(m) != [6]byte{} {
		return binary.BigEndian.Uint64([]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	}
	return binary.BigEndian.Uint64(info.GIDs[0][8:])
}

func (d softDevice) portAttr() PortAttr {
	info, open := d.Info()
	a := PortAttr{
		State: PortDown, PhysState: PhysDisabled, LinkLayer: LinkLayerEthernet, PortCaps: PortIPBasedGIDs,
		MaxMTU: MTU4096, ActiveMTU: wire.MTUForNet(d.NetMTU(info)), NetMTU: info.NetMTU,
		MaxMsgSz: qp.MaxMessage, GIDTblLen: len(d.GIDs()), PKeyTblLen: qp.MaxPKeys,
		SpeedMbps: info.SpeedMbps, Interface: info.Interface,
	}
	if open {
		for _, l := range d.LaneStats() {
			a.BadPKeyCntr += l.Engine.Drops[wire.DropPKey]
			a.QKeyViolCntr += l.Engine.Drops[wire.DropQKey]
		}
	}
	if open && info.Up {
		a.State, a.PhysState = PortActive, PhysLinkUp
	}
	a.ActiveWidth, a.ActiveSpeed = speedCode(info.SpeedMbps)
	return a
}

func (d softDevice) portInfo() transport.Info {
	info, _ := d.Info()
	return info
}

func (d softDevice) gids() []GID { return d.GIDs() }

func (d softDevice) gidLink(int) int { return d.Opened().Index }

func (d softDevice) stats() []Stats {
	var list []Stats
	for _, l := range d.LaneStats() {
		list = append(list, Stats{Engine: l.Engine, Port: l.Port, Lane: LaneStats(l.Lane)})
	}
	return list
}

func (d softDevice) records(dst []qp.Record) []qp.Record { return d.Records(dst) }

func (d softDevice) rawClock() (uint64, error) { return d.Clock(), nil }

func (d softDevice) allocPD() (pdProvider, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	return softPD{pd}, nil
}

func (d softDevice) openXRCD(x *XRCD) (xrcdProvider, error) {
	s, err := d.OpenXRCD()
	if err != nil {
		return nil, err
	}
	x.soft = s
	return s, nil
}

// below is the queue by its concrete type; nil if there is none.
func (c *CQ) below() *soft.CQ {
	if c == nil {
		return nil
	}
	return c.soft
}

// below is the channel of the software RNIC; nil if there is none.
func (ch *CompChannel) below() *soft.Channel {
	if ch == nil {
		return nil
	}
	return ch.soft
}

func (d softDevice) createChannel(ch *CompChannel) { ch.soft = d.NewChannel(ch.some, ch.ready) }

func (d softDevice) createCQ(c *CQ, attr *CQInitAttr, notify func()) (cqProvider, error) {
	s, err := d.CreateCQ(soft.CQInit{CQE: attr.CQE, Context: c, Notify: notify, Channel: attr.Channel.below(),
		Single: attr.Flags&CQSingleThreaded != 0, KeepTimes: attr.WCFlags&WCExWithCompletionTimestamp != 0,
		Wallclock: attr.WCFlags&WCExWithCompletionTimestampWallclock != 0})
	if err != nil {
		return nil, err
	}
	c.soft = s
	return s, nil
}

func (d softDevice) flush()       { d.Flush() }
func (d softDevice) close() error { return d.Close() }

type softPD struct{ *soft.PD }

func (p softPD) regMR(buf []byte, iova uint64, access Access) (mrProvider, error) {
	m, err := p.RegMR(buf, iova, access)
	if err != nil {
		return nil, err
	}
	return softMR{m}, nil
}

func (p softPD) regAll(access Access) (mrProvider, error) {
	m, err := p.RegAll(access)
	if err != nil {
		return nil, err
	}
	return softMR{m}, nil
}

func (p softPD) allocNullMR() (mrProvider, error) {
	m, err := p.AllocNullMR()
	if err != nil {
		return nil, err
	}
	return softMR{m}, nil
}

type softMR struct{ *soft.MR }

func (m softMR) rereg(flags ReregFlags, pd pdProvider, buf []byte, iova uint64, access Access) error {
	return m.Rereg(flags, pd.(softPD).PD, buf, iova, access)
}

func (p softPD) allocMW(typ MWType) (mwProvider, error) {
	w, err := p.AllocMW(typ)
	if err != nil {
		return nil, err
	}
	return softMW{w}, nil
}

type softMW struct{ *soft.MW }

func (w softMW) bind(q *QP, wrid uint64, flags SendFlags, b BindInfo) error {
	return w.Bind(&q.soft, wrid, flags, b)
}

func (p softPD) createAH(ctx context.Context, attr AHAttr) (*AH, error) { return p.CreateAH(ctx, attr) }

func (p softPD) destroyAH(ah *AH) error { return p.DestroyAH(ah) }

func (p softPD) createQP(q *QP, attr *QPInitAttr) (qpProvider, error) {
	init := soft.QPInit{
		Type:          attr.Type,
		SendCQ:        attr.SendCQ.below(),
		RecvCQ:        attr.RecvCQ.below(),
		Cap:           attr.Cap,
		SQSigAll:      attr.SQSigAll,
		WholeMessages: attr.WholeMessages,
		Context:       q,
	}
	if attr.SRQ != nil {
		init.SRQ = attr.SRQ.soft
	}
	if attr.XRCD != nil {
		init.XRCD = attr.XRCD.soft
	}
	if err := p.CreateQP(&q.soft, init); err != nil {
		return nil, err
	}
	return &q.soft, nil
}

func (p softPD) createSRQ(s *SRQ, attr *SRQInitAttr) (srqProvider, error) {
	init := qp.SRQInit{MaxWR: uint32(attr.MaxWR), MaxSGE: uint32(attr.MaxSGE), Limit: uint32(attr.Limit), Context: s}
	var x *soft.XRCD
	if attr.XRCD != nil {
		x = attr.XRCD.soft
	}
	below, err := p.CreateSRQ(init, x, attr.CQ.below())
	if err != nil {
		return nil, err
	}
	s.soft = below
	return below, nil
}

func (p softPD) close() error { return p.Close() }

// softEvent hands an event of the software RNIC to the application.
func (d *Device) softEvent(e soft.Event) {
	event := AsyncEvent{Type: e.Type, Device: d, Err: e.Err}
	event.QP, _ = e.QP.(*QP)
	event.CQ, _ = e.CQ.(*CQ)
	event.SRQ, _ = e.SRQ.(*SRQ)
	d.happened(event)
}

// hubDevice is a software device on a slot of an address that other processes have too: the hub
// (package roce/hub) gives the sockets, and has queue pair 1.
type hubDevice struct {
	softDevice
	client *hub.Client
	device *Device
}

// atHub tells whether a name is that of such a device, of which address or interface, and whether a
// hub is to be started if there is none. An automatic choice is one if processes share the address
// already.
func atHub(name string, cfg *Config) (where string, start, ok bool) {
	if where, ok = strings.CutPrefix(name, "hub:"); ok {
		return where, true, true
	}
	if where, ok = strings.CutPrefix(name, "auto:"); !ok {
		return "", false, false
	}
	return where, false, hub.Has(context.Background(), where, cmp.Or(cfg.Transport.UDPPort, wire.UDPPort))
}

// openHub opens one. The error is an *transport.OpenError.
func openHub(d *Device, where string, start bool, cfg *Config) (_ provider, err error) {
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
	c, err := hub.Open(context.Background(), where, lanes, cmp.Or(cfg.Transport.UDPPort, wire.UDPPort), start)
	if err != nil {
		return nil, bad("the hub of the address", err)
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	own.Foreign = c.Foreign
	if !start {
		own.Transport.Why = "hub: other processes have the address, and share it"
	}
	if own.Dealt = c.Deck(); !own.NoECN {
		own.Transport.TrafficClass = qp.ECT(own.Transport.TrafficClass)
	}
	if own.Ports, err = c.Ports(d.name, own.Transport); err != nil {
		return nil, err
	}
	s, err := d.openSoft(&own)
	if err != nil {
		return nil, err
	}
	h := &hubDevice{softDevice{s}, c, d}
	c.Reports(h.report)
	c.TakesIn(s.HandOver)
	hub.Attach(d, c)
	return h, nil
}

// close implements provider.
func (h *hubDevice) close() error {
	h.client.TakesIn(nil)
	err := h.softDevice.close()
	hub.Attach(h.device, nil)
	return errors.Join(err, h.client.Close())
}

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
