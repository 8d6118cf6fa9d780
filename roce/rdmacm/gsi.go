package rdmacm

// Queue pair 1 of a device, which carries the connection manager's messages: 256 bytes each, as
// datagrams (section 9.1).
//
// Stages: opening it with its receives; taking in what has come; sending, for which the way to the
// peer must be known (an address handle, of which some are kept); closing.
//
// Its users take turns by the machine's lock.

import (
	"context"
	"errors"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// Sizes. A message that finds no place is lost, as one that the network loses: its sender repeats.
const (
	gsiRecvs  = 4096 // datagrams that wait to be looked at: 1.2 MiB
	gsiSends  = 128  // on their way
	gsiSignal = 32   // of so many one completes
	gsiTurn   = 256  // completions that are taken in before something else is done
	gsiWays   = 256  // peers whose address handles are kept
	gsiAsking = 16   // peers whose link address is being found out at a time
	// gsiPatience is how long a search may take that another one waits for. A peer that is there
	// answers within a millisecond; addresses that a forger has made up never do, and one that
	// sends from many of them would have all searches to itself.
	gsiPatience = 5 * time.Millisecond
	gsiKept     = 64 // messages for each of these that wait: 16 KiB
)

const gsiSlot = roce.GRHSize + wire.MADLen

// handle is a way's address handle, nil until it is known.
type handle struct {
	ah      *roce.AH
	waiting []wire.MAD
	used    uint64    // when, by gsi.uses
	began   time.Time // the search for it
	end     context.CancelFunc
	givenUp bool // nobody waits for it any more
}

// found is the end of a search for a way.
type found struct {
	way cm.Path
	of  *handle
	ah  *roce.AH
	err error
}

type gsi struct {
	dev  *roce.Device
	pd   *roce.PD
	ch   *roce.CompChannel
	cq   *roce.CQ
	mr   *roce.MR
	qp   *roce.QP
	slow bool // the port must find out link addresses

	find func(context.Context, cm.Path) (*roce.AH, error) // search
	kick func()                                           // says that one has ended

	posted, done uint64 // messages: all, and those that have left
	ways         map[cm.Path]*handle
	asking       int // searches
	givenUp      int // of these, those that have not ended for all that
	uses         uint64
	answers      chan found
	lost         uint64 // messages that found no place, or no way
}

// openGSI makes queue pair 1 of a device and posts its receives. The error is ErrBusy if the device
// has one, and ErrNotSupported if it cannot have one.
func openGSI(dev *roce.Device) (g *gsi, err error) {
	kind := dev.PortInfo().Kind
	g = &gsi{
		dev:     dev,
		slow:    kind != "udp" && kind != "pipe",
		ways:    make(map[cm.Path]*handle),
		answers: make(chan found, 2*gsiAsking),
	}
	g.find, g.kick = g.search, func() {}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.pd, err = dev.AllocPD(); err != nil {
		return g, err
	}
	if g.ch, err = dev.CreateCompChannel(); err != nil {
		return g, err
	}
	if g.cq, err = dev.CreateCQ(roce.CQInitAttr{CQE: gsiRecvs + gsiSends, Channel: g.ch}); err != nil {
		return g, err
	}
	if g.mr, err = g.pd.RegMR(make([]byte, gsiRecvs*gsiSlot), roce.LocalWrite); err != nil {
		return g, err
	}
	g.qp, err = g.pd.CreateQP(roce.QPInitAttr{Type: roce.GSI, SendCQ: g.cq,
		Cap: roce.QPCap{
			MaxSendWR:     gsiSends,
			MaxRecvWR:     gsiRecvs,
			MaxSendSGE:    1,
			MaxRecvSGE:    1,
			MaxInlineData: wire.MADLen,
		}})
	if err != nil {
		return g, err
	}
	if err = g.qp.Activate(wire.GSIQKey); err != nil {
		return g, err
	}
	for i := range gsiRecvs {
		if err = g.postRecv(uint64(i)); err != nil {
			return g, err
		}
	}
	return g, g.cq.ReqNotify(false)
}

func (g *gsi) postRecv(slot uint64) error {
	return g.qp.PostRecv(roce.RecvWR{WRID: slot, SGL: []roce.SGE{g.mr.SGE(int(slot)*gsiSlot, gsiSlot)}})
}

// Ready implements QP1, but for the ends of searches.
func (g *gsi) Ready() <-chan struct{} { return g.ch.Ready() }

// Receive implements QP1. It arms the queue: the channel is told of what comes later. It takes in
// gsiTurn at a time, so that peers who never pause keep nothing else from being done.
func (g *gsi) Receive(take func(w cm.Path, mad []byte)) (more bool, err error) {
	g.ch.TryGet()
	for len(g.answers) > 0 {
		g.answered(<-g.answers)
	}
	var wcs [32]roce.WC
	armed := false
	for taken := 0; taken < gsiTurn; {
		n, err := g.cq.Poll(wcs[:])
		if err != nil {
			return false, err
		}
		for i := range wcs[:n] {
			if err := g.completed(&wcs[i], take); err != nil {
				return false, err
			}
		}
		taken += n
		switch {
		case n > 0:
			armed = false
		case armed:
			return false, nil
		default: // what comes between a poll and the arming is not told: look once more
			if err := g.cq.ReqNotify(false); err != nil {
				return false, err
			}
			armed = true
		}
	}
	return true, nil
}

func (g *gsi) completed(wc *roce.WC, take func(w cm.Path, mad []byte)) error {
	if wc.Opcode != roce.WCRecv {
		g.done = wc.WRID + 1 // and so have those before it
		if wc.Status == roce.WCSuccess {
			return nil
		}
		g.lost++
		if g.qp.State() != roce.StateSQE { // it goes on already
			return nil
		}
		return g.qp.Modify(context.Background(), &roce.QPAttr{State: roce.StateRTS}, roce.AttrState)
	}
	slot := g.mr.Bytes()[int(wc.WRID)*gsiSlot:][:gsiSlot]
	if attr, err := roce.AHAttrFromWC(wc, slot[:roce.GRHSize]); err == nil && wc.Status == roce.WCSuccess &&
		wc.ByteLen == gsiSlot {
		to, _ := qp.GRHDestination(slot)
		take(cm.Path{Local: to, Remote: attr.DGID}, slot[roce.GRHSize:])
	}
	return g.postRecv(wc.WRID)
}

// Room implements QP1.
func (g *gsi) Room() bool { return g.posted-g.done < gsiSends }

// Send implements QP1. A way that is not known yet is looked for while the message waits.
func (g *gsi) Send(w cm.Path, mad *wire.MAD) {
	w.FlowLabel = 0 // each connection has one of its own, and they all go the same way
	h := g.ways[w]
	switch {
	case h != nil && h.ah != nil:
		g.post(h, mad)
	case h != nil:
		if len(h.waiting) < gsiKept {
			h.waiting = append(h.waiting, *mad)
		} else {
			g.lost++
		}
	case !g.slow:
		ah, err := g.find(context.Background(), w)
		if err != nil {
			g.lost++
			return
		}
		g.post(g.keep(w, &handle{ah: ah}), mad)
	case g.mayAsk():
		ctx, end := context.WithCancel(context.Background())
		h := g.keep(w, &handle{waiting: []wire.MAD{*mad}, began: time.Now(), end: end})
		g.asking++
		find := g.find
		go func() {
			defer end()
			ah, err := find(ctx, w)
			g.answers <- found{w, h, ah, err}
			g.kick()
		}()
	default:
		g.lost++
	}
}

// mayAsk says whether there is room for another search. If not, the oldest is given up if it has
// had its time.
func (g *gsi) mayAsk() bool {
	if g.asking-g.givenUp < gsiAsking {
		return true
	}
	var way cm.Path
	var oldest *handle
	for w, h := range g.ways {
		if h.ah == nil && (oldest == nil || h.began.Before(oldest.began)) {
			way, oldest = w, h
		}
	}
	if g.givenUp == gsiAsking || oldest == nil || time.Since(oldest.began) < gsiPatience {
		return false
	}
	oldest.end()
	oldest.givenUp = true
	g.givenUp++
	g.lost += uint64(len(oldest.waiting))
	delete(g.ways, way)
	return true
}

// search makes the address handle of a way, which may have to wait for a neighbour's answer.
func (g *gsi) search(ctx context.Context, w cm.Path) (*roce.AH, error) {
	return g.pd.CreateAH(ctx, addressVector(g.dev, w))
}

// answered takes in the end of a search.
func (g *gsi) answered(f found) {
	g.asking--
	switch {
	case f.of.givenUp:
		g.givenUp--
	case f.of.ah != nil: // found meanwhile
	case f.err != nil:
		g.lost += uint64(len(f.of.waiting))
		delete(g.ways, f.way)
	default:
		g.found(f.of, f.ah)
		return
	}
	if f.err == nil {
		g.pd.DestroyAH(f.ah)
	}
}

// found sends what waits for a way.
func (g *gsi) found(h *handle, ah *roce.AH) {
	h.ah = ah
	for i := range h.waiting {
		if g.Room() {
			g.post(h, &h.waiting[i])
		} else {
			g.lost++
		}
	}
	h.waiting = nil
}

// learn takes over the address handle of a way that somebody else has found.
func (g *gsi) learn(w cm.Path, ah *roce.AH) {
	switch h := g.ways[w]; {
	case h == nil:
		g.keep(w, &handle{ah: ah})
	case h.ah == nil:
		g.found(h, ah)
	default:
		g.pd.DestroyAH(ah)
	}
}

// keep remembers a handle. In a full table it takes the place of the one that was not used for
// longest.
func (g *gsi) keep(w cm.Path, h *handle) *handle {
	if len(g.ways) >= gsiWays {
		var oldest cm.Path
		age := uint64(0)
		for w, h := range g.ways {
			if h.ah != nil && g.uses-h.used >= age {
				oldest, age = w, g.uses-h.used
			}
		}
		// a message that is still in the queue is lost, and those behind it (completed)
		g.pd.DestroyAH(g.ways[oldest].ah)
		delete(g.ways, oldest)
	}
	h.used = g.uses
	g.ways[w] = h
	return h
}

func (g *gsi) post(h *handle, mad *wire.MAD) {
	g.uses++
	h.used = g.uses
	wr := roce.SendWR{WRID: g.posted, Opcode: roce.WRSend, Flags: roce.SendInline, Inline: mad[:], AH: h.ah,
		RemoteQPN: wire.GSIQPN, RemoteQKey: wire.GSIQKey}
	if wr.WRID%gsiSignal == gsiSignal-1 {
		wr.Flags |= roce.SendSignaled
	}
	if g.qp.PostSend(wr) != nil {
		g.lost++
		return
	}
	g.posted++
}

// Close gives everything back, also of what openGSI could not finish.
func (g *gsi) Close() (err error) {
	for _, h := range g.ways {
		if h.ah == nil {
			h.end()
		}
	}
	for ; g.asking > 0; g.asking-- {
		if f := <-g.answers; f.err == nil {
			err = errors.Join(err, g.pd.DestroyAH(f.ah))
		}
	}
	for w, h := range g.ways {
		if h.ah != nil {
			err = errors.Join(err, g.pd.DestroyAH(h.ah))
		}
		delete(g.ways, w)
	}
	if g.qp != nil {
		err = errors.Join(err, g.qp.Close())
	}
	if g.mr != nil {
		err = errors.Join(err, g.mr.Close())
	}
	if g.cq != nil {
		err = errors.Join(err, g.cq.Close())
	}
	if g.ch != nil {
		err = errors.Join(err, g.ch.Close())
	}
	if g.pd != nil {
		err = errors.Join(err, g.pd.Close())
	}
	return err
}

// addressVector is that of a way: from the row of the GID table that has its source now, or row 0
// if none has it any more.
func addressVector(dev *roce.Device, w cm.Path) roce.AHAttr {
	row, _ := rowOf(dev, w.Local)
	return roce.AHAttr{DGID: w.Remote, SGIDIndex: row, TrafficClass: w.TrafficClass, HopLimit: w.HopLimit,
		FlowLabel: w.FlowLabel, SL: w.SL}
}
