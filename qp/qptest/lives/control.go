package lives

// The deeds that are no posts of messages: windows and mistakes, new lives, memory that is closed,
// attributes, states.

import (
	"errors"
	"math/bits"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// windowGrant is the key of the application's window of type 2, nil if it has none.
func (a *app) windowGrant() *grant {
	for _, g := range a.grants {
		if g.isWindow(mr.Window2) && !g.dead {
			return g
		}
	}
	return nil
}

// bind opens a part of the region by a window. Its key may be valid from now on.
func (a *app) bind(d *Deed) bool {
	if !a.ready() || a.cfg.Type == qp.UD || a.windowGrant() != nil || len(a.grants) == 0 {
		return false
	}
	region := a.grants[0]
	if region.dead || region.window != nil || region.to <= targetAt {
		return false
	}
	if a.window == nil {
		var err error
		a.window, err = a.node.Memory.AllocWindow(a.node.PD, mr.Window2)
		a.must(err, "AllocWindow")
	}
	key := a.window.RKey()&^0xff | uint32(byte(d.R[0]))
	from := int(d.R[1]) % region.to &^ 7
	n := 1 + int(d.R[2])%(region.to-from)
	rights := []mr.Access{mr.RemoteWrite, mr.RemoteRead, mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic}[d.R[0]>>8%3]
	g := &grant{app: a, window: a.window, key: key, from: from, to: from + n, rights: rights,
		generation: region.generation, by: a.life}
	k := a.newWork(qp.WRBindMW)
	if b := a.life.bond; region.rights&mr.MWBind == 0 || rights&(mr.RemoteWrite|mr.RemoteAtomic) != 0 &&
		region.rights&mr.LocalWrite == 0 {
		b.excuse(qp.WCMWBindErr)
	}
	a.life.bond.excuse() // of the peer, should it fail
	if a.post(k, qp.SendWR{Flags: a.flags(d.R[0] >> 10), Bind: &qp.BindInfo{WindowKey: a.window.RKey(), NewKey: key,
		LKey: region.key, Addr: a.base + uint64(from), Length: uint64(n), Access: rights}}) {
		a.grants = append(a.grants, g)
		return true
	}
	return false
}

// bindCommon binds the window of type 1 to a part of the region, or to nothing, whatever it was
// bound to. The key from before may be valid until that has completed; the new one for longer than
// this life.
func (a *app) bindCommon(d *Deed) bool {
	if !a.ready() || a.cfg.Type == qp.UD || len(a.grants) == 0 {
		return false
	}
	region := a.grants[0]
	if region.dead || region.to <= targetAt {
		return false
	}
	if a.common == nil {
		var err error
		a.common, err = a.node.Memory.AllocWindow(a.node.PD, mr.Window1)
		a.must(err, "AllocWindow")
	}
	w := a.common
	key := w.RKey()&^0xff | uint32(byte(d.R[0]))
	from := int(d.R[1]) % region.to &^ 7
	n := int(d.R[2]) % (region.to - from)
	if d.R[2]>>24%4 == 0 {
		n = 0
	}
	g := &grant{app: a, window: w, key: key, from: from, to: from + n, rights: mr.RemoteWrite | mr.RemoteRead,
		generation: region.generation}
	k := a.newWork(qp.WRBindMW)
	k.after = func() {
		for _, old := range a.grants {
			if old == g { // what comes behind it was posted later
				break
			}
			old.dead = old.dead || old.window == w
		}
	}
	if n > 0 && (region.rights&mr.MWBind == 0 || region.rights&mr.LocalWrite == 0) {
		a.excuseBoth(qp.WCMWBindErr)
	}
	a.life.bond.excuse() // of the peer, should it fail
	b := qp.BindInfo{WindowKey: w.RKey(), NewKey: key, LKey: region.key, Addr: a.base + uint64(from), Length: uint64(n),
		Access: g.rights}
	flags := a.flags(d.R[0] >> 10)
	if !a.postBy(k, flags, func() (int, error) {
		if err := a.life.q.BindMW(k.id, flags, b, 0); err != nil {
			return 0, err
		}
		return 1, nil
	}) {
		return false
	}
	a.grants = append(a.grants, g)
	return true
}

// invalidate takes the window back.
func (a *app) invalidate(d *Deed) bool {
	g := a.windowGrant()
	if g == nil || !a.ready() {
		return false
	}
	k := a.newWork(qp.WRLocalInv)
	k.after = func() { g.dead = true }
	// The peer may have invalidated it, or may be using it.
	a.life.bond.excuse(qp.WCLocQPOpErr, qp.WCRemAccessErr)
	return a.post(k, qp.SendWR{Flags: qp.SendSignaled, InvalidateKey: g.key})
}

// badLocal posts a SEND whose local key is none, of one packet or several.
func (a *app) badLocal(d *Deed) bool {
	if !a.ready() {
		return false
	}
	k := a.newWork(qp.WRSend)
	k.local = nil
	a.excuseBoth(qp.WCLocProtErr)
	return a.post(k, qp.SendWR{Flags: qp.SendSignaled, AH: a.ah, RemoteQPN: k.to.life.q.QPN(), RemoteQKey: a.cfg.QKey,
		SGL: []qp.SGE{{Addr: a.base, Length: uint32(a.length(d.R[0], 16)), LKey: a.locals[0].key ^ 0x5500}}})
}

// badBind binds beyond the end of the region.
func (a *app) badBind(d *Deed) bool {
	if !a.ready() || a.cfg.Type == qp.UD || len(a.grants) == 0 || a.windowGrant() != nil {
		return false
	}
	if a.window == nil {
		var err error
		a.window, err = a.node.Memory.AllocWindow(a.node.PD, mr.Window2)
		a.must(err, "AllocWindow")
	}
	k := a.newWork(qp.WRBindMW)
	a.excuseBoth(qp.WCMWBindErr)
	return a.post(k, qp.SendWR{Flags: a.flags(d.R[0]), Bind: &qp.BindInfo{WindowKey: a.window.RKey(),
		NewKey: a.window.RKey() ^ 1, LKey: a.grants[0].key, Addr: a.base, Length: memorySize + 1,
		Access: mr.RemoteWrite}})
}

// foreignWindow writes through a window of an application that the peer's queue pair is not of,
// though it is on the same node and of the same protection domain.
func (a *app) foreignWindow(d *Deed) bool {
	if !a.ready() || a.cfg.Type == qp.UD {
		return false
	}
	k := a.newWork(qp.WRWrite)
	for _, x := range a.w.apps {
		g := x.windowGrant()
		if g == nil || x == k.to || x.node != k.to.node {
			continue
		}
		a.excuseBoth(qp.WCRemAccessErr, qp.WCRemInvReqErr)
		k.local, k.len, k.target = nil, 16, g
		return a.post(k, qp.SendWR{Flags: qp.SendSignaled | qp.SendInline, Inline: pattern(k, 16), RKey: g.key,
			RemoteAddr: x.base + uint64(g.from)})
	}
	return false
}

// excuseBoth excuses a failure of this end, which the other end then sees as silence.
func (a *app) excuseBoth(statuses ...qp.WCStatus) {
	for _, b := range []*bond{a.life.bond, a.coming} {
		if b != nil {
			b.excuse(statuses...)
		}
	}
}

// rejoin ends the lives of this end and of its peer and connects them again.
func (a *app) rejoin(d *Deed, reset bool) bool {
	b := a.life.bond
	if b == nil || a.coming != nil || a.w.coda {
		return false
	}
	return a.w.meet(a, b.peer(a), d.R, reset)
}

// meet connects two applications anew, whatever they are doing. Old packets of UC mean something to
// a new life of the same queue pair, so there it is always another one.
func (w *world) meet(a, b *app, r [3]uint32, reset bool) bool {
	if a.coming != nil || b.coming != nil || a == b || a.cfg.Type != opposite(b.cfg.Type) {
		return false
	}
	reset = reset && a.cfg.Type != qp.UC
	w.tell("%s and %s begin anew", a, b)
	w.After(qp.Time(r[0]&0xff)*200, func() { a.end(reset) })
	w.After(qp.Time(r[0]>>8&0xff)*200, func() { b.end(reset && r[1]%4 != 0) })
	w.join(a, b, r[0]|1)
	return true
}

// swap connects two applications that were not connected to each other; their peers are left alone.
func (a *app) swap(d *Deed) bool {
	other := a.w.apps[int(d.R[1])%len(a.w.apps)]
	if a.coming != nil || other.coming != nil || a.life.bond == nil || other.life.bond == nil || a.w.coda {
		return false
	}
	return a.w.meet(a, other, d.R, d.R[2]%2 == 0)
}

// restart ends all that its node has: new queue pairs, new keys. The others connect to it again.
func (a *app) restart(d *Deed) bool {
	done := false
	for _, x := range a.w.apps {
		if x.node == a.node && x.life.bond != nil && x.coming == nil {
			x.closeLocal(d)
			x.closeRemote(d)
			done = x.rejoin(d, false) || done
		}
	}
	return done
}

// abandon moves the queue pair to ERR.
func (a *app) abandon(*Deed) bool {
	if a.life.bond == nil || a.coming != nil || a.w.coda {
		return false
	}
	a.excuseBoth()
	a.modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState)
	return true
}

// closeLocal deregisters the memory of the application's own requests and registers it again: what
// is outstanding has lost it.
func (a *app) closeLocal(d *Deed) bool {
	if a.w.coda {
		return false
	}
	i := int(d.R[0] % 3)
	a.must(a.node.Memory.Deregister(a.locals[i].region), "Deregister")
	a.locals[i].dead = true
	for _, k := range a.life.sends {
		if k.local == a.locals[i] {
			k.reuse()
		}
	}
	if len(a.life.sends)+len(a.life.recvs) > 0 {
		a.excuseBoth(qp.WCLocProtErr, qp.WCRemOpErr)
	}
	a.openLocal(i)
	return true
}

// postAndClose posts several requests, and soon the memory of some of them is gone: before they
// leave, while they are on their way, when they have to be sent again.
func (a *app) postAndClose(d *Deed) bool {
	for i := range 2 + d.R[0]%4 {
		each := Deed{R: [3]uint32{bits.RotateLeft32(d.R[0], int(7*i)), d.R[1] | 1, bits.RotateLeft32(d.R[2], int(5*i))}}
		switch d.R[1] >> (8 + i) % 4 {
		case 0:
			a.postSend(&each)
		case 1:
			a.postRDMA(qp.WRRead, &each)
		default:
			a.postRDMA(qp.WRWrite, &each)
		}
	}
	a.w.After(qp.Time(d.R[2]%64)*500, func() { a.closeLocal(d) })
	return true
}

// reregister gives peers' region another end, or other rights, or both. With another end its key is
// another, and the old one is dead at once.
func (a *app) reregister(d *Deed) bool {
	if len(a.grants) == 0 || a.w.coda || a.grants[0].region == nil {
		return false
	}
	old := a.grants[0]
	c := mr.Change(1 | 4&(d.R[0]<<1))
	if d.R[0]%3 == 0 {
		c = mr.ChangeAccess
	}
	to := []int{memorySize - ownSize, targetAt + 1000, targetAt + 100, sourceSize}[d.R[1]%4]
	rights := []mr.Access{a.access | mr.LocalWrite | mr.MWBind, mr.LocalWrite | mr.RemoteWrite,
		mr.RemoteRead | mr.FlushGlobal}[d.R[1]>>2%3]
	err := a.node.Memory.Reregister(old.region, c, mr.Registration{Mem: a.mem[:to], IOVA: a.base, Access: rights})
	if errors.Is(err, mr.ErrBusy) && (a.window != nil || a.common != nil) {
		return false
	}
	a.must(err, "Reregister")
	a.excuseBoth(qp.WCRemAccessErr, qp.WCMWBindErr)
	if c&mr.ChangeTranslation != 0 {
		a.excuseBoth(qp.WCRemOpErr) // of a FLUSH that storage is at
	}
	g := &grant{app: a, region: old.region, key: old.region.RKey(), to: old.to, rights: old.rights,
		generation: old.generation}
	if c&mr.ChangeTranslation != 0 {
		g.to = to
	}
	if c&mr.ChangeAccess != 0 {
		g.rights = rights
	}
	for _, each := range a.grants {
		each.dead = each.dead || each.region != nil
	}
	a.grants[0] = g
	return true
}

// closeRemote deregisters what peers may use and registers some of it again, with other rights.
func (a *app) closeRemote(d *Deed) bool {
	if len(a.grants) == 0 || a.w.coda {
		return false
	}
	for _, w := range []**mr.Window{&a.window, &a.common} {
		if *w != nil && d.R[0]%2 == 0 {
			a.must(a.node.Memory.DeallocWindow(*w), "DeallocWindow")
			for _, g := range a.grants {
				g.dead = g.dead || g.window == *w
			}
			*w = nil
		}
	}
	region := a.grants[0]
	err := a.node.Memory.Deregister(region.region)
	if errors.Is(err, mr.ErrBusy) && (a.window != nil || a.common != nil) {
		return false
	}
	a.must(err, "Deregister")
	a.excuseBoth(qp.WCRemAccessErr, qp.WCMWBindErr, qp.WCRemOpErr) // FLUSH: the last
	for _, g := range a.grants {
		g.dead = true
	}
	a.grants = a.grants[:0]
	a.renewSource()
	to := []int{memorySize - ownSize, targetAt + 1000, targetAt + 100, sourceSize}[d.R[1]%4]
	rights := []mr.Access{a.access | mr.LocalWrite | mr.MWBind, mr.LocalWrite | mr.RemoteWrite, mr.RemoteRead,
		mr.LocalWrite | mr.RemoteAtomic | mr.RemoteRead | mr.MWBind}[d.R[1]>>2%4]
	a.openRemote(to, rights)
	return true
}

// drain goes to SQD.
func (a *app) drain(*Deed) bool { return a.drainTo(false) }

// drainTo is drain that may ask for an event.
func (a *app) drainTo(beTold bool) bool {
	if !a.connected() || a.life.q.State() != qp.StateRTS {
		return false
	}
	mask := qp.AttrState
	if a.life.awaits = beTold; beTold {
		mask |= qp.AttrEnSQDAsyncNotify
	}
	a.modify(qp.QPAttr{State: qp.StateSQD, EnSQDAsyncNotify: beTold}, mask)
	return true
}

// drainAndModify does it all: SQD, other attributes as soon as all is complete, and on.
func (a *app) drainAndModify(d *Deed) bool {
	if !a.drain(d) {
		return false
	}
	l := a.life
	var again func()
	again = func() {
		if a.life != l || l.q.State() != qp.StateSQD {
			return
		}
		if attr := a.node.Engine.QueryQP(l.q); attr.SQDraining {
			a.w.After(3*qptest.Microsecond, again)
			return
		}
		each := *d
		each.R[2] = 0
		a.modifyDrained(&each)
	}
	a.w.After(qp.Time(d.R[2]%4)*qptest.Microsecond, again)
	return true
}

// modifyLive changes attributes in RTS.
func (a *app) modifyLive(d *Deed) bool {
	if !a.connected() || a.life.q.State() != qp.StateRTS || a.cfg.Type == qp.UD {
		return false
	}
	mask := qp.AttrAccessFlags
	attr := qp.QPAttr{AccessFlags: mr.RemoteAny, MinRNRTimer: uint8(1 + d.R[1]%6)}
	if d.R[0]%4 == 0 && !a.w.plan.Calm {
		attr.AccessFlags = []mr.Access{0, mr.RemoteWrite, mr.RemoteRead}[d.R[1]%3]
		a.excuseBoth(qp.WCRemInvReqErr, qp.WCRemAccessErr)
	}
	if a.cfg.Type == qp.RC || a.cfg.Type == qp.XRCRecv {
		mask |= qp.AttrMinRNRTimer
	}
	a.modify(attr, mask)
	return true
}

// modifyInit changes the rights before the queue pair is connected.
func (a *app) modifyInit(d *Deed) bool {
	if a.life.q.State() != qp.StateInit || a.cfg.Type == qp.UD {
		return false
	}
	access := mr.RemoteAny
	if d.R[0]%2 == 0 && !a.w.plan.Calm {
		access = mr.RemoteRead
		a.excuseBoth(qp.WCRemInvReqErr, qp.WCRemAccessErr)
	}
	a.modify(qp.QPAttr{AccessFlags: access}, qp.AttrAccessFlags)
	return true
}

// destroyHandle ends the handle that datagrams are posted with: those that have not left fail.
func (a *app) destroyHandle(*Deed) bool {
	if !a.ready() || !a.there() || a.cfg.Type != qp.UD {
		return false
	}
	a.excuseBoth(qp.WCLocQPOpErr)
	attr := a.ah.Attr()
	a.must(a.node.Control(func() (err error) {
		if err = a.node.Engine.DestroyAH(a.ah); err == nil {
			a.ah, err = a.node.Engine.CreateAH(a.node.PD, attr)
		}
		return err
	}), "DestroyAH, CreateAH")
	return true
}

// modifyDrained changes in SQD what can be changed there, or goes on.
func (a *app) modifyDrained(d *Deed) bool {
	if !a.connected() || !a.there() || a.life.q.State() != qp.StateSQD {
		return false
	}
	if attr := a.node.Engine.QueryQP(a.life.q); attr.SQDraining {
		return false
	}
	if a.cfg.Type == qp.RC {
		depth := 1 + int(d.R[0]%16)
		if a.w.plan.Calm {
			depth = min(depth+a.life.bond.peer(a).cfg.RdAtomic, qp.MaxRdAtomic)
		}
		if b := a.life.bond; b.peer(a).cfg.RdAtomic > depth {
			b.shallow = true
			b.excuse(qp.WCRemInvReqErr)
		}
		a.cfg.DestRdAtomic = depth
		a.cfg.RdAtomic = 1 + int(d.R[1]>>8)%max(a.life.bond.peer(a).cfg.DestRdAtomic, 1)
		a.modify(qp.QPAttr{MaxDestRdAtomic: uint8(depth), MaxRdAtomic: uint8(a.cfg.RdAtomic), RetryCnt: 7, RNRRetry: 7,
			MinRNRTimer: uint8(1 + d.R[1]%6), Timeout: a.cfg.Timeout,
			AV: qp.AHAttr{DGID: a.life.bond.peer(a).node.GID}},
			qp.AttrMaxDestRdAtomic|qp.AttrMaxRdAtomic|qp.AttrRetryCnt|qp.AttrRNRRetry|qp.AttrMinRNRTimer|
				qp.AttrTimeout|qp.AttrAV)
	}
	if d.R[2]%2 == 0 {
		a.modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState)
	}
	return true
}

// recover leaves SQE or SQD.
func (a *app) recover(*Deed) bool {
	if a.life.bond != nil && a.coming == nil {
		switch a.life.q.State() {
		case qp.StateSQE, qp.StateSQD:
			a.help(false)
			return true
		}
	}
	return false
}

// resize changes the size of a completion queue, whatever is in it and whoever completes there.
func (a *app) resize(d *Deed, cqe int) bool {
	c := a.life.cqs[d.R[0]%2]
	before, there, broken := c.Cap(), c.Len(), c.Err() != nil
	err := a.node.Control(func() error { return a.node.Engine.ResizeCQ(c, cqe) })
	switch {
	case broken && !errors.Is(err, qp.ErrOverrun), !broken && cqe < there && !errors.Is(err, qp.ErrInvalid):
		a.fail("ResizeCQ(%d) with %d completions, overrun %v: %v", cqe, there, broken, err)
	case err != nil && c.Cap() != before, err == nil && c.Cap() < cqe:
		a.fail("ResizeCQ(%d): the queue holds %d instead of %d, %v", cqe, c.Cap(), before, err)
	case err != nil && !broken && cqe >= there:
		a.fail("ResizeCQ(%d) with %d completions: %v", cqe, there, err)
	}
	return err == nil
}
