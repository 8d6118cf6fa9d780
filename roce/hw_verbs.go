//go:build verbs && !double

package roce

// The second kind of device of a build with the tag verbs: those of the kernel, by way of
// libibverbs (internal/verbs). What it can do in the words of the verbs, and its things handed on.
//
// Stages: which there are; opening one, with what it cannot do; the device; a protection domain.

import (
	"context"
	"fmt"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const withHW = true

// hwQP, hwCQ and hwSRQ are the concrete types that posts and polls go to.
type (
	hwQP  = verbs.QP
	hwCQ  = verbs.CQ
	hwSRQ = verbs.SRQ
)

func isHW(name string) bool { return strings.HasPrefix(name, verbs.Prefix) }

// hwDevices lists the devices, or what is missing.
func hwDevices() []DeviceInfo {
	names, err := verbs.Names()
	if err != nil {
		return []DeviceInfo{{Name: verbs.Prefix, Err: err}}
	}
	var list []DeviceInfo
	for _, name := range names {
		i := DeviceInfo{Name: verbs.Prefix + name}
		if d, err := verbs.Open(i.Name, verbs.Config{}); err != nil {
			i.Err = err
		} else {
			info, port := d.Info(), d.Port()
			i.Interface, i.GID, i.MTU, i.NetMTU = info.Interface, info.GIDs[0], MTU(port.ActiveMTU), info.NetMTU
			i.MAC, i.SpeedMbps, i.Up = info.MAC.String(), info.SpeedMbps, info.Up
			i.Err = d.Close()
		}
		list = append(list, i)
	}
	return list
}

// openHW opens a device. Packets are made by its driver, so what Config says of them it cannot do.
func openHW(d *Device, cfg *Config) (provider, error) {
	for _, c := range []struct {
		asked bool
		field string
	}{
		{cfg.Wrap != nil, "Config.Wrap: no packet is seen here"},
		{cfg.Foreign != nil, "Config.Foreign: no packet is seen here"},
		{cfg.Lanes > 1, "Config.Lanes above 1"},
		{cfg.Transport.UDPPort != 0 && cfg.Transport.UDPPort != wire.UDPPort, "Config.Transport.UDPPort"},
		{cfg.Window != 0, "Config.Window"},
		{cfg.Congestion != CongestionParams{}, "Config.Congestion: the driver has settings of its own"},
		{cfg.NoECN, "Config.NoECN: the driver has settings of its own"},
	} {
		if c.asked {
			return nil, fmt.Errorf("%w: a device of libibverbs does not have %s", ErrNotSupported, c.field)
		}
	}
	v, err := verbs.Open(d.name, verbs.Config{Event: d.softEvent})
	if err != nil {
		return nil, err
	}
	return verbsDevice{v}, nil
}

type verbsDevice struct{ *verbs.Device }

// attr is a copy field by field: the types of some are this package's, which the one with C does
// not import.
func (d verbsDevice) attr() DeviceAttr {
	a := d.Attr()
	return DeviceAttr{
		FWVer: a.FWVer, NodeGUID: a.NodeGUID, SysImageGUID: a.SysImageGUID, MaxMRSize: a.MaxMRSize,
		PageSizeCap: a.PageSizeCap, VendorID: a.VendorID, VendorPartID: a.VendorPartID, HWVer: a.HWVer, MaxQP: a.MaxQP,
		MaxQPWR: a.MaxQPWR, DeviceCaps: DeviceCaps(a.DeviceCaps), MaxSGE: a.MaxSGE, MaxSGERd: a.MaxSGERd,
		MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxQPRdAtom: a.MaxQPRdAtom,
		MaxResRdAtom: a.MaxResRdAtom, MaxQPInitRdAtom: a.MaxQPInitRdAtom, AtomicCap: AtomicCap(a.AtomicCap),
		MaxMW: a.MaxMW, MaxAH: a.MaxAH, MaxPKeys: a.MaxPKeys, MaxSRQ: a.MaxSRQ, MaxSRQWR: a.MaxSRQWR,
		MaxSRQSGE: a.MaxSRQSGE, LocalCAAckDelay: a.LocalCAAckDelay, PhysPortCnt: 1, NumCompVectors: a.NumCompVectors,
		HCACoreClock: a.HCACoreClock, CompletionTimestampMask: a.CompletionTimestampMask, MaxCQCount: a.MaxCQCount,
		MaxCQPeriod: a.MaxCQPeriod, MaxMcastGrp: a.MaxMcastGrp, MaxMcastQPAttach: a.MaxMcastQPAttach,
		MaxTotalMcastQPAttach: a.MaxTotalMcastQPAttach,
		ODP: ODPCaps{General: ODPGeneralCaps(a.ODP), RC: ODPTransportCaps(a.ODPOfRC), UC: ODPTransportCaps(a.ODPOfUC),
			UD: ODPTransportCaps(a.ODPOfUD), XRC: ODPTransportCaps(a.ODPOfXRC)},
	}
}

func (d verbsDevice) portAttr() PortAttr {
	p, info := d.Port(), d.Info()
	return PortAttr{State: PortState(p.State), MaxMTU: MTU(p.MaxMTU), ActiveMTU: MTU(p.ActiveMTU),
		GIDTblLen: p.GIDTblLen, PortCaps: p.PortCaps, MaxMsgSz: p.MaxMsgSz, BadPKeyCntr: p.BadPKeyCntr,
		QKeyViolCntr: p.QKeyViolCntr, PKeyTblLen: p.PKeyTblLen, ActiveWidth: p.ActiveWidth, ActiveSpeed: p.ActiveSpeed,
		SpeedMbps: info.SpeedMbps, NetMTU: info.NetMTU, PhysState: p.PhysState, LinkLayer: p.LinkLayer,
		Interface: info.Interface}
}

func (d verbsDevice) portInfo() transport.Info { return d.Info() }
func (d verbsDevice) gids() []GID              { return d.GIDs() }
func (d verbsDevice) gidLink(row int) int      { return d.GIDLink(row) }

// stats are what the driver counts, of a lane as it were.
func (d verbsDevice) records(dst []qp.Record) []qp.Record { return dst }

func (d verbsDevice) stats() []Stats { return []Stats{{Engine: d.Stats()}} }

func (d verbsDevice) rawClock() (uint64, error) { return d.Clock() }

func (d verbsDevice) allocPD() (pdProvider, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	return verbsPD{pd}, nil
}

func (d verbsDevice) openXRCD(*XRCD) (xrcdProvider, error) {
	return nil, fmt.Errorf("%w: XRC over libibverbs", ErrNotSupported)
}

func (d verbsDevice) createChannel(*CompChannel) {} // the driver takes no turns of ours

func (d verbsDevice) createCQ(c *CQ, attr *CQInitAttr, notify func()) (cqProvider, error) {
	if attr.WCFlags&^WCExStandard != 0 {
		return nil, fmt.Errorf("%w: CQInitAttr.WCFlags 0x%x: timestamps of a device of libibverbs are not read",
			ErrNotSupported, attr.WCFlags)
	}
	v, err := d.CreateCQ(attr.CQE, attr.Vector, c, notify)
	if err != nil {
		return nil, err
	}
	c.hw = v
	return v, nil
}

// byVerbs is the queue by its concrete type; nil if there is none: queue pairs of XRC lack one or
// both.
func (c *CQ) byVerbs() *verbs.CQ {
	if c == nil {
		return nil
	}
	return c.hw
}

func (d verbsDevice) flush()       {} // it has no turns of ours to wait for
func (d verbsDevice) close() error { return d.Close() }

type verbsPD struct{ *verbs.PD }

func (p verbsPD) regMR(buf []byte, iova uint64, access Access) (mrProvider, error) {
	m, err := p.RegMR(buf, iova, access)
	if err != nil {
		return nil, err
	}
	return verbsMR{m}, nil
}

func (p verbsPD) regAll(access Access) (mrProvider, error) {
	m, err := p.RegAll(access)
	if err != nil {
		return nil, err
	}
	return verbsMR{m}, nil
}

func (p verbsPD) allocNullMR() (mrProvider, error) {
	m, err := p.AllocNullMR()
	if err != nil {
		return nil, err
	}
	return verbsMR{m}, nil
}

type verbsMR struct{ *verbs.MR }

func (m verbsMR) rereg(flags ReregFlags, pd pdProvider, buf []byte, iova uint64, access Access) error {
	return m.Rereg(flags, pd.(verbsPD).PD, buf, iova, access)
}

func (p verbsPD) allocMW(typ MWType) (mwProvider, error) {
	w, err := p.AllocMW(typ)
	if err != nil {
		return nil, err
	}
	return verbsMW{w}, nil
}

type verbsMW struct{ *verbs.MW }

func (w verbsMW) bind(q *QP, wrid uint64, flags SendFlags, b BindInfo) error {
	return w.Bind(q.hw, wrid, flags, b)
}

func (p verbsPD) createAH(ctx context.Context, attr AHAttr) (*AH, error) {
	return p.CreateAH(ctx, attr)
}

func (p verbsPD) destroyAH(ah *AH) error { return p.DestroyAH(ah) }

func (p verbsPD) createQP(q *QP, attr *QPInitAttr) (qpProvider, error) {
	init := verbs.QPInit{Type: attr.Type, SendCQ: attr.SendCQ.byVerbs(), RecvCQ: attr.RecvCQ.byVerbs(), Cap: attr.Cap,
		SQSigAll: attr.SQSigAll, Context: q}
	if attr.SRQ != nil {
		init.SRQ = attr.SRQ.hw
	}
	v, err := p.CreateQP(init)
	if err != nil {
		return nil, err
	}
	q.hw = v
	return v, nil
}

func (p verbsPD) createSRQ(s *SRQ, attr *SRQInitAttr) (srqProvider, error) {
	v, err := p.CreateSRQ(qp.SRQInit{
		MaxWR:   uint32(attr.MaxWR),
		MaxSGE:  uint32(attr.MaxSGE),
		Limit:   uint32(attr.Limit),
		Context: s,
	})
	if err != nil {
		return nil, err
	}
	s.hw = v
	return v, nil
}

func (p verbsPD) close() error { return p.Close() }
