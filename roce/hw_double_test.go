//go:build double

package roce

// A second kind of device for the test of the seam (go test -tags double ./roce): its queue pairs
// complete what is posted to them at once. It shows that everything above provider.go runs without
// the software RNIC, and that posts and polls go to the concrete type without an allocation.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

const withHW = true

func isHW(name string) bool { return strings.HasPrefix(name, "double:") }

func hwDevices() []DeviceInfo { return nil }

func openHW(d *Device, cfg *Config) (provider, error) {
	if d.name == "double:none" {
		return nil, ErrNotSupported
	}
	gid, err := ParseGID("192.0.2.1")
	return &double{dev: d, gid: gid}, err
}

// double is the device, and keeps what it was called for.
type double struct {
	dev    *Device
	gid    GID
	closed []string
}

func (d *double) ended(what string) error { d.closed = append(d.closed, what); return nil }

func (d *double) attr() DeviceAttr                    { return DeviceAttr{FWVer: "double", NumCompVectors: 2} }
func (d *double) portAttr() PortAttr                  { return PortAttr{State: PortActive, ActiveMTU: MTU2048} }
func (d *double) portInfo() transport.Info            { return transport.Info{Kind: "double"} }
func (d *double) gids() []GID                         { return []GID{d.gid} }
func (d *double) gidLink(int) int                     { return 0 }
func (d *double) records(dst []qp.Record) []qp.Record { return dst }

func (d *double) stats() []Stats {
	return []Stats{{Engine: qp.Stats{SentPkts: 1}}, {Engine: qp.Stats{SentPkts: 2}}}
}
func (d *double) rawClock() (uint64, error)            { return 0, ErrNotSupported }
func (d *double) openXRCD(*XRCD) (xrcdProvider, error) { return nil, ErrNotSupported }
func (d *double) allocPD() (pdProvider, error)         { return &doublePD{d}, nil }
func (d *double) createChannel(*CompChannel)           {}
func (d *double) createCQ(c *CQ, attr *CQInitAttr, notify func()) (cqProvider, error) {
	c.hw = &hwCQ{d: d, cap: attr.CQE, notify: notify}
	return c.hw, nil
}
func (d *double) flush()       {}
func (d *double) close() error { return d.ended("device") }

type doublePD struct{ *double }

func (p *doublePD) regMR(buf []byte, iova uint64, _ Access) (mrProvider, error) {
	if len(buf) == 13 {
		return nil, ErrLimit
	}
	return &doubleMR{p.double, iova}, nil
}
func (p *doublePD) allocMW(MWType) (mwProvider, error) { return nil, ErrNotSupported }
func (p *doublePD) createAH(ctx context.Context, _ AHAttr) (*AH, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (p *doublePD) destroyAH(*AH) error { return nil }
func (p *doublePD) createQP(q *QP, attr *QPInitAttr) (qpProvider, error) {
	q.hw = &hwQP{d: p.double, typ: attr.Type, cq: attr.SendCQ.hw}
	return q.hw, nil
}
func (p *doublePD) createSRQ(s *SRQ, attr *SRQInitAttr) (srqProvider, error) {
	s.hw = &hwSRQ{d: p.double, attr: SRQAttr{MaxWR: uint32(attr.MaxWR), MaxSGE: uint32(attr.MaxSGE)}}
	return s.hw, nil
}
func (p *doublePD) close() error { return p.ended("PD") }

type doubleMR struct {
	*double
	iova uint64
}

func (p *doublePD) regAll(Access) (mrProvider, error) { return nil, ErrNotSupported }
func (p *doublePD) allocNullMR() (mrProvider, error)  { return nil, ErrNotSupported }
func (m *doubleMR) rereg(ReregFlags, pdProvider, []byte, uint64, Access) error {
	return ErrNotSupported
}
func (m *doubleMR) LKey() uint32 { return 1 }
func (m *doubleMR) RKey() uint32 { return 2 }
func (m *doubleMR) IOVA() uint64 { return m.iova }
func (m *doubleMR) Close() error { return m.ended("MR") }

// hwCQ holds completions.
type hwCQ struct {
	d      *double
	cap    int
	armed  bool
	notify func()
	ring   [8]WC
	n      int
}

func (c *hwCQ) Cap() int                          { return c.cap }
func (c *hwCQ) Len() int                          { return c.n }
func (c *hwCQ) ReqNotify(bool) error              { c.armed = true; return nil }
func (c *hwCQ) Resize(cqe int) error              { c.cap = cqe; return nil }
func (c *hwCQ) Moderate(int, time.Duration) error { return ErrNotSupported }
func (c *hwCQ) PollEx([]WCEx) (int, error)        { return 0, ErrNotSupported }
func (c *hwCQ) Close() error                      { return c.d.ended("CQ") }
func (c *hwCQ) Wait(_ context.Context, wcs []WC) (int, error) {
	return c.Poll(wcs)
}
func (c *hwCQ) Poll(wcs []WC) (int, error) {
	if c.n < 0 {
		return 0, ErrOverrun
	}
	n := copy(wcs, c.ring[:c.n])
	c.n -= n
	return n, nil
}

// hwQP completes what is posted.
type hwQP struct {
	d     *double
	typ   QPType
	state QPState
	cq    *hwCQ
}

func (q *hwQP) QPN() uint32    { return 17 }
func (q *hwQP) Type() QPType   { return q.typ }
func (q *hwQP) State() QPState { return q.state }
func (q *hwQP) StartPSN() PSN  { return 5 }
func (q *hwQP) Lane() int      { return 0 }
func (q *hwQP) Modify(_ context.Context, a *QPAttr, mask AttrMask) error {
	if mask&AttrState != 0 {
		q.state = a.State
	}
	return nil
}
func (q *hwQP) Query() (QPAttr, error)                { return QPAttr{State: q.state}, nil }
func (q *hwQP) AttachMcast(GID) error                 { return ErrNotSupported }
func (q *hwQP) DetachMcast(GID) error                 { return ErrNotSupported }
func (q *hwQP) Close() error                          { return q.d.ended("QP") }
func (q *hwQP) PostRecv([]RecvWR) (int, error)        { return 0, ErrFull }
func (q *hwQP) PostSendAll(wrs []SendWR) (int, error) { return q.PostSend(wrs) }
func (q *hwQP) PostSend(wrs []SendWR) (int, error) {
	for i := range wrs {
		if q.cq.n == len(q.cq.ring) {
			return i, ErrFull
		}
		q.cq.ring[q.cq.n] = WC{WRID: wrs[i].WRID, Opcode: WCSend, QPN: 17}
		q.cq.n++
	}
	if q.cq.armed && q.cq.notify != nil {
		q.cq.armed = false
		q.cq.notify()
	}
	return len(wrs), nil
}

// hwSRQ counts what is posted.
type hwSRQ struct {
	d      *double
	attr   SRQAttr
	posted uint32
}

func (s *hwSRQ) Modify(a SRQAttr, mask SRQAttrMask) error {
	if mask != SRQLimit {
		return ErrNotSupported
	}
	s.attr.Limit = a.Limit
	return nil
}
func (s *hwSRQ) Number() uint32          { return 0 }
func (s *hwSRQ) Query() (SRQAttr, error) { return s.attr, nil }
func (s *hwSRQ) Close() error            { return s.d.ended("SRQ") }
func (s *hwSRQ) PostRecv(wrs []RecvWR) (int, error) {
	n := min(len(wrs), int(s.attr.MaxWR-s.posted))
	if s.posted += uint32(n); n < len(wrs) {
		return n, ErrFull
	}
	return n, nil
}

func TestSeam(t *testing.T) {
	_, err := Open("double:none", nil)
	refused(t, err, ErrNotSupported, "roce: Open on double:none")
	d, err := Open("double:0", nil)
	must(t, err)
	below := d.provider.(*double)
	if s := d.Stats(); s.Engine.SentPkts != 3 || len(d.StatsByLane()) != 2 || d.Query().FWVer != "double" || d.PortInfo().Kind != "double" {
		t.Errorf("%+v", s)
	}
	ch, err := d.CreateCompChannel()
	must(t, err)
	cq, err := d.CreateCQ(CQInitAttr{CQE: 8, Channel: ch, Vector: 1})
	must(t, err)
	pd, err := d.AllocPD()
	must(t, err)
	mr, err := pd.RegMR(make([]byte, 8), LocalWrite)
	must(t, err)
	_, err = pd.RegMR(make([]byte, 13), LocalWrite)
	refused(t, err, ErrLimit, "RegMR on double:0")
	_, err = pd.AllocMW(MWType2)
	refused(t, err, ErrNotSupported, "AllocMW")
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err = pd.CreateAH(ended, AHAttr{}); !errors.Is(err, context.Canceled) {
		t.Errorf("CreateAH: %v", err)
	}
	srq, err := pd.CreateSRQ(SRQInitAttr{MaxWR: 3, MaxSGE: 2})
	must(t, err)
	q, err := pd.CreateQP(QPInitAttr{SendCQ: cq, SRQ: srq})
	must(t, err)
	must(t, q.Connect(bg, q.Endpoint(), nil))
	if q.State() != StateRTS || q.Endpoint().PSN != 5 {
		t.Errorf("%v, %v", q.State(), q.Endpoint())
	}

	throughSeam(t, ch, cq, q, mr)
	must(t, srq.PostRecv(RecvWR{}))
	refused(t, srq.PostRecv(make([]RecvWR, 3)...), ErrFull, "PostRecv on an SRQ, request 2")
	must(t, srq.Modify(SRQAttr{Limit: 2}, SRQLimit))
	refused(t, srq.Modify(SRQAttr{MaxWR: 9}, SRQMaxWR), ErrNotSupported, "Modify on double:0")
	if a, err := srq.Query(); a != (SRQAttr{MaxWR: 3, MaxSGE: 2, Limit: 2}) {
		t.Errorf("%+v, %v", a, err)
	}
	refused(t, srq.Close(), ErrBusy, "SRQ still has 1 QP (0x000011)")
	refused(t, cq.Close(), ErrBusy, "1 QP (0x000011)")
	refused(t, ch.Close(), ErrBusy, "1 CQ")
	for _, c := range []interface{ Close() error }{q, srq, mr, pd, cq, ch, d, q, srq, cq, d} {
		must(t, c.Close())
	}
	if got := strings.Join(below.closed, " "); got != "QP SRQ MR PD CQ device" {
		t.Errorf("closed %s", got)
	}
}

// throughSeam posts and polls, which goes to the concrete types.
func throughSeam(t *testing.T, ch *CompChannel, cq *CQ, q *QP, mr *MR) {
	must(t, cq.ReqNotify(false))
	must(t, q.PostSend(SendWR{WRID: 3}, SendWR{WRID: 4}))
	if got := next(t, &ch.EventQueue); got != cq {
		t.Error("another queue")
	}
	var wcs [8]WC
	if n, err := cq.Poll(wcs[:]); n != 2 || err != nil || wcs[1].WRID != 4 {
		t.Errorf("%d completions, %+v, %v", n, wcs[1], err)
	}
	var post *PostError
	if err := q.PostSend(make([]SendWR, 9)...); !errors.As(err, &post) || post.Index != 8 || !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	cq.Poll(wcs[:])
	refused(t, q.PostRecv(RecvWR{}), ErrFull, "PostRecv on QP 0x000011")
	if n := testing.AllocsPerRun(100, func() {
		q.PostSend(SendWR{SGL: []SGE{mr.SGE(0, 8)}})
		cq.Poll(wcs[:])
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}
