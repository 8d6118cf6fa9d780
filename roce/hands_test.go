package roce

// Many hands: goroutines that make, use, change and close the same things of two devices with
// several lanes, each whatever it likes at any moment. No call may panic, hang, race or fail for a
// reason that is none, and in the end everything can be closed.
//
// Stages: what there is (table) → what a hand can do (deeds) → the test.

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/mr"
)

// table holds what lies there for everybody. What is closed stays, for somebody who has it in hand.
type table struct {
	mu    sync.Mutex
	pds   []*PD
	cqs   []*CQ
	srqs  []*SRQ
	xrcds []*XRCD
	qps   []*QP
	mrs   []*MR
	mws   []*MW
	ahs   []owned
}

// owned is an address handle, which its domain destroys.
type owned struct {
	pd *PD
	ah *AH
}

// hand is a goroutine's.
type hand struct {
	*rand.Rand
	t      *testing.T
	devs   [2]*Device
	tables [2]*table
	buf    [2][]byte // outside of Go's heap: what peers write at the same time is no race
	dev    *Device   // of the deed at hand
	on     *table
	mem    []byte
}

// put lays something on the table.
func put[T any](h *hand, list *[]T, x T, err error) {
	if h.ok(err) {
		h.on.mu.Lock()
		defer h.on.mu.Unlock()
		*list = append(*list, x)
	}
}

// pick takes one of the newest into the hand; false: there is nothing.
func pick[T any](h *hand, list *[]T) (x T, ok bool) {
	h.on.mu.Lock()
	defer h.on.mu.Unlock()
	n := len(*list)
	if n == 0 {
		return x, false
	}
	return (*list)[n-1-h.IntN(min(n, 8))], true
}

// excuses are the reasons for which a call may fail.
var excuses = []error{ErrClosed, ErrBusy, ErrState, ErrFull, ErrInvalid, ErrOverrun, ErrLimit, context.DeadlineExceeded, context.Canceled}

func (h *hand) ok(err error) bool {
	if err == nil {
		return true
	}
	if !slices.ContainsFunc(excuses, func(e error) bool { return errors.Is(err, e) }) {
		h.t.Errorf("%v", err)
	}
	return false
}

// deeds are what a hand can do.
var deeds = []struct {
	weight int
	do     func(h *hand)
}{
	{1, (*hand).allocPD}, {4, (*hand).createCQ}, {3, (*hand).createSRQ}, {12, (*hand).createQP}, {30, (*hand).connect}, {4, (*hand).modify},
	{200, (*hand).send},
	{100, (*hand).receive}, {200, (*hand).poll}, {6, (*hand).memory}, {6, (*hand).window}, {6, (*hand).resize}, {6, (*hand).handle},
	{8, (*hand).close}, {3, (*hand).ask},
}

func (h *hand) allocPD() {
	pd, err := h.dev.AllocPD()
	put(h, &h.on.pds, pd, err)
}

func (h *hand) createCQ() {
	cq, err := h.dev.CreateCQ(CQInitAttr{CQE: 50 + h.IntN(2000), WCFlags: WCExWithCompletionTimestamp * WCExFlags(h.IntN(2))})
	put(h, &h.on.cqs, cq, err)
}

func (h *hand) createSRQ() {
	pd, ok := pick(h, &h.on.pds)
	if !ok {
		return
	}
	attr := SRQInitAttr{MaxWR: 1 + h.IntN(64), MaxSGE: 1, Limit: h.IntN(2)}
	if h.IntN(2) == 0 {
		if h.IntN(3) == 0 {
			x, err := h.dev.OpenXRCD()
			put(h, &h.on.xrcds, x, err)
		}
		x, ok1 := pick(h, &h.on.xrcds)
		c, ok2 := pick(h, &h.on.cqs)
		if !ok1 || !ok2 {
			return
		}
		attr.XRCD, attr.CQ = x, c
	}
	s, err := pd.CreateSRQ(attr)
	put(h, &h.on.srqs, s, err)
}

func (h *hand) createQP() {
	pd, ok1 := pick(h, &h.on.pds)
	cq, ok2 := pick(h, &h.on.cqs)
	if !ok1 || !ok2 {
		return
	}
	attr := QPInitAttr{Type: []QPType{RC, RC, UC, UD, XRCSend, XRCRecv}[h.IntN(6)], SendCQ: cq, SQSigAll: h.IntN(2) == 0}
	if attr.Type == XRCRecv {
		attr.SendCQ = nil
		if attr.XRCD, ok1 = pick(h, &h.on.xrcds); !ok1 {
			return
		}
	} else if s, ok := pick(h, &h.on.srqs); ok && attr.Type != XRCSend && h.IntN(2) == 0 && s.Number() == 0 {
		attr.SRQ = s
	}
	q, err := pd.CreateQP(attr)
	put(h, &h.on.qps, q, err)
}

// fellow is a queue pair of the other device, or the same, that one could connect to.
func (h *hand) fellow(q *QP) *QP {
	for range 8 {
		h.turn()
		p, ok := pick(h, &h.on.qps)
		switch want := q.Type(); {
		case !ok:
		case want == XRCSend && p.Type() == XRCRecv, want == XRCRecv && p.Type() == XRCSend, want < XRCSend && p.Type() == want && p != q:
			return p
		}
	}
	return nil
}

// turn is to a device, for the next deed.
func (h *hand) turn() {
	i := h.IntN(2)
	h.dev, h.on, h.mem = h.devs[i], h.tables[i], h.buf[i]
}

func (h *hand) connect() {
	q, ok := pick(h, &h.on.qps)
	if !ok {
		return
	}
	if q.Type() == UD {
		h.ok(q.Activate(7))
		return
	}
	if p := h.fellow(q); p != nil {
		for _, x := range []*QP{q, p} {
			if x.State() != StateReset {
				h.ok(x.Modify(bg, &QPAttr{State: StateReset}, AttrState))
			}
		}
		o := DefaultConnectOptions()
		o.Timeout, o.RetryCnt, o.RNRRetry = 8, 2, 2
		h.ok(q.Connect(bg, p.Endpoint(), &o))
		h.ok(p.Connect(bg, q.Endpoint(), &o))
	}
}

func (h *hand) modify() {
	if q, ok := pick(h, &h.on.qps); ok {
		attr := QPAttr{State: []QPState{StateReset, StateErr, StateSQD, StateRTS}[h.IntN(4)], RateLimit: 100_000_000 * uint32(h.IntN(2))}
		mask := AttrState
		if attr.State == StateRTS && h.IntN(2) == 0 {
			mask |= AttrRateLimit
		}
		h.ok(q.Modify(bg, &attr, mask))
	}
}

func (h *hand) send() {
	q, ok := pick(h, &h.on.qps)
	for n := 0; n < 5 && ok && q.State() != StateRTS; n++ {
		q, ok = pick(h, &h.on.qps)
	}
	m, there := pick(h, &h.on.mrs)
	if !ok || !there {
		return
	}
	n := h.IntN(3000)
	wr := SendWR{Opcode: []WROpcode{WRSend, WRSend, WRWrite, WRWriteWithImm, WRRead, WRAtomicFetchAndAdd, WRAtomicWrite,
		WRFlush}[h.IntN(8)], Flags: SendFlags(h.IntN(8)),
		SGL: []SGE{m.SGE(0, n)}, Flush: FlushInfo{Placement: PlacementGlobal, Selectivity: SelectivityMR}}
	h.turn()
	if to, ok := pick(h, &h.on.mrs); ok {
		wr.RemoteAddr, wr.RKey = to.Addr(), to.RKey()
	}
	if w, ok := pick(h, &h.on.mws); ok && h.IntN(40) == 0 {
		wr.RKey = w.RKey()
	}
	if s, ok := pick(h, &h.on.srqs); ok {
		wr.RemoteSRQN = s.Number()
	}
	switch wr.Opcode {
	case WRAtomicFetchAndAdd:
		wr.SGL = []SGE{m.SGE(8*h.IntN(100), 8)}
	case WRAtomicWrite, WRFlush:
		wr.SGL = nil
	}
	if a, ok := pick(h, &h.on.ahs); ok && q.Type() == UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = a.ah, q.QPN(), 7
	}
	if h.IntN(2) == 0 {
		h.ok(q.PostSend(wr, wr, wr))
	} else {
		h.ok(q.PostSend(wr))
	}
}

func (h *hand) receive() {
	m, ok := pick(h, &h.on.mrs)
	if !ok {
		return
	}
	wr := RecvWR{SGL: []SGE{m.SGE(0, 3100)}}
	if s, ok := pick(h, &h.on.srqs); ok && h.IntN(2) == 0 {
		h.ok(s.PostRecv(wr, wr, wr, wr))
	} else if q, ok := pick(h, &h.on.qps); ok {
		h.ok(q.PostRecv(wr, wr, wr, wr))
	}
}

func (h *hand) poll() {
	c, ok := pick(h, &h.on.cqs)
	if !ok {
		return
	}
	var err error
	var wcs [8]WC
	var more [8]WCEx
	switch h.IntN(8) {
	case 0:
		_, err = c.PollEx(more[:])
	case 1:
		ctx, cancel := context.WithTimeout(bg, 50*time.Microsecond)
		defer cancel()
		_, err = c.Wait(ctx, wcs[:])
	default:
		_, err = c.Poll(wcs[:])
	}
	h.ok(err)
}

func (h *hand) memory() {
	pd, ok := pick(h, &h.on.pds)
	if !ok {
		return
	}
	const all = LocalWrite | mr.RemoteAny&^mr.FlushPersistent | MWBind
	rights := []Access{all, all, all, all, LocalWrite | RemoteWrite, RemoteRead}[h.IntN(6)]
	if m, ok := pick(h, &h.on.mrs); ok && h.IntN(4) == 0 {
		h.ok(m.Rereg(ReregFlags(h.IntN(8)), pd, h.mem[:4096*(1+h.IntN(2))], rights))
		return
	}
	m, err := pd.RegMR(h.mem, rights)
	put(h, &h.on.mrs, m, err)
}

func (h *hand) window() {
	pd, ok := pick(h, &h.on.pds)
	q, ok1 := pick(h, &h.on.qps)
	m, ok2 := pick(h, &h.on.mrs)
	w, ok3 := pick(h, &h.on.mws)
	switch {
	case !ok || h.IntN(4) == 0:
	case !ok3 || h.IntN(3) == 0:
		made, err := pd.AllocMW([]MWType{MWType1, MWType2}[h.IntN(2)])
		put(h, &h.on.mws, made, err)
	case ok1 && ok2 && w.Type() == MWType1:
		h.ok(q.BindMW(w, MWBindAttr{MR: m, Addr: m.Addr(), Length: uint64(h.IntN(100)), Access: RemoteWrite}))
	case ok1 && ok2:
		h.ok(q.PostSend(SendWR{Opcode: WRBindMW, Bind: &BindInfo{
			WindowKey: w.RKey(),
			NewKey:    IncRKey(w.RKey()),
			LKey:      m.LKey(),
			Addr:      m.Addr(),
			Length:    8,
			Access:    RemoteWrite,
		}}))
		h.ok(q.PostSend(SendWR{Opcode: WRLocalInv, InvalidateKey: w.RKey()}))
	}
}

func (h *hand) resize() {
	if s, ok := pick(h, &h.on.srqs); ok && h.IntN(2) == 0 {
		h.ok(s.Modify(SRQAttr{MaxWR: uint32(1 + h.IntN(100)), Limit: uint32(h.IntN(3))}, SRQAttrMask(h.IntN(4))))
	}
	if c, ok := pick(h, &h.on.cqs); ok {
		h.ok(c.Resize(1 + h.IntN(600)))
		h.ok(c.Modify(CQModeration{Count: uint16(h.IntN(4)), Period: uint16(h.IntN(50))}))
	}
}

func (h *hand) handle() {
	pd, ok := pick(h, &h.on.pds)
	if !ok {
		return
	}
	group := GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 1, 15: 1}
	if a, ok := pick(h, &h.on.ahs); ok && h.IntN(2) == 0 {
		h.ok(a.pd.DestroyAH(a.ah))
	} else {
		dst := h.devs[h.IntN(2)].GIDs()[0]
		if h.IntN(3) == 0 {
			dst = group
		}
		ah, err := pd.CreateAH(bg, AHAttr{DGID: dst})
		put(h, &h.on.ahs, owned{pd, ah}, err)
	}
	if q, ok := pick(h, &h.on.qps); ok && q.Type() == UD {
		h.ok(q.AttachMcast(group))
		if h.IntN(2) == 0 {
			h.ok(q.DetachMcast(group))
		}
	}
}

func (h *hand) close() {
	switch h.IntN(12) {
	case 0:
		if x, ok := pick(h, &h.on.cqs); ok {
			h.ok(x.Close())
		}
	case 1:
		if x, ok := pick(h, &h.on.srqs); ok {
			h.ok(x.Close())
		}
	case 2:
		if x, ok := pick(h, &h.on.xrcds); ok {
			h.ok(x.Close())
		}
	case 3, 4:
		if x, ok := pick(h, &h.on.mrs); ok {
			h.ok(x.Close())
		}
	case 5:
		if x, ok := pick(h, &h.on.mws); ok {
			h.ok(x.Close())
		}
	case 6:
		if x, ok := pick(h, &h.on.pds); ok && h.IntN(4) == 0 {
			h.ok(x.Close())
		}
	default:
		if x, ok := pick(h, &h.on.qps); ok {
			h.ok(x.Close())
		}
	}
}

// ask looks at what there is.
func (h *hand) ask() {
	h.dev.Stats()
	h.dev.QueryPort()
	h.dev.Events().TryGet()
	if q, ok := pick(h, &h.on.qps); ok {
		_, err := q.Query()
		h.ok(err)
	}
	if s, ok := pick(h, &h.on.srqs); ok {
		_, err := s.Query()
		h.ok(err)
	}
	if c, ok := pick(h, &h.on.cqs); ok {
		_, _ = c.Cap(), c.Len()
	}
}

// closeAll closes everything that was ever on the table, in an order in which nothing needs what is
// closed.
func (x *table) closeAll(t *testing.T) {
	for _, a := range x.ahs {
		_ = a.pd.DestroyAH(a.ah) // most were destroyed before
	}
	closeEach(t, x.qps)
	closeEach(t, x.srqs)
	closeEach(t, x.xrcds)
	closeEach(t, x.cqs)
	closeEach(t, x.mws)
	closeEach(t, x.mrs)
	closeEach(t, x.pds)
}

func closeEach[T interface{ Close() error }](t *testing.T, list []T) {
	for _, x := range list {
		if err := x.Close(); err != nil {
			t.Errorf("%T: %v", x, err)
		}
	}
}

func TestManyHands(t *testing.T) {
	for _, kind := range []string{"udp", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			hands, each := 4, 20_000
			if testing.Short() {
				each = 3000
			}
			name := names[kind](t)
			first := &hand{t: t}
			for i := range first.devs {
				d, err := Open(name(i), &Config{Lanes: 4})
				must(t, err)
				t.Cleanup(func() { must(t, d.Close()) })
				b, err := AllocBuffer(8192, nil)
				must(t, err)
				t.Cleanup(func() { must(t, b.Close()) })
				first.devs[i], first.tables[i], first.buf[i] = d, &table{}, b.Bytes()
				t.Cleanup(func() { first.tables[i].closeAll(t) })
			}
			all := 0
			for _, d := range deeds {
				all += d.weight
			}
			first.Rand = rand.New(rand.NewPCG(2, 0))
			for range 4 { // what most deeds need
				first.turn()
				first.allocPD()
				first.createCQ()
				first.memory()
			}
			var work sync.WaitGroup
			for n := range hands {
				h := *first
				h.Rand = rand.New(rand.NewPCG(1, uint64(n)))
				work.Go(func() {
					for range each {
						h.turn()
						i := 0
						for at := h.IntN(all); at >= deeds[i].weight; i++ {
							at -= deeds[i].weight
						}
						deeds[i].do(&h)
					}
				})
			}
			work.Wait()
			for i, d := range first.devs {
				if s := d.Stats().Engine; s.SentPkts == 0 || s.RcvdPkts == 0 || s.SendErrors == 0 {
					t.Errorf("hands have done little with device %d: %+v", i, s)
				}
			}
		})
	}
}
