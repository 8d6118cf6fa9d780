package qp

// Congestion: DCQCN, as RoCE NICs speak it (section 10).
//
// Stages: the receiver of a packet marked "congestion experienced" owes its sender a CNP, at most
// one per interval (congested) → the sender of the data cuts its rate (cut) → time and bytes
// without another CNP raise it again (raise), in three phases: back towards the rate before the
// cut, then by steps, then by big steps → a queue pair below the line rate spaces its packets
// (mayPace), and has no more of them unacknowledged than its rate sends in a little while (bound).
//
// A queue pair that never got a CNP is not limited. Its user may set a limit of his own
// (QPAttr.RateLimit): then that is its line rate, limited or not. One that has neither is not paced
// and pays one comparison a packet.

import (
	"cmp"

	"github.com/goroce/goroce/wire"
)

// CongestionParams are the constants of DCQCN. What is zero stands for DefaultCongestion's.
type CongestionParams struct {
	LineRate       uint64  // bits per second: where rates begin and end
	MinRate        uint64  // bits per second: no cut goes below
	G              float64 // weight of the newest mark in the estimate of congestion, 0..1
	AlphaTimer     Time    // without a CNP for this long the estimate shrinks
	CutInterval    Time    // at most one cut of the rate in this time
	RaiseTimer     Time    // a raise each time, but at most one a round trip
	RaiseBytes     uint64  // and a raise each so many bytes
	FastRecoveries uint32  // raises towards the old rate before it is exceeded
	StepRate       uint64  // bits per second: R_AI; 0 is LineRate / 2500
	BigStepRate    uint64  // bits per second: R_HAI; 0 is LineRate / 500
	CNPInterval    Time    // at most one CNP per queue pair in this time
}

// DefaultCongestion holds the constants of the SIGCOMM 2015 paper, as section 10.3 lists them, with
// two differences.
//
// The paper's senders hear of a mark within 55 us, and raise their rates as often. Here marks and
// CNPs may come milliseconds late, from the queues of slower links and to a thread that must wake
// up. In that time a sender raised its rate by more than a cut took away: two flows through 1
// Gbit/s filled the queue with both their windows and shared 64:100. So raises wait for the round
// trip that is measured, and the steps are a share of the line rate: that which the paper's are of
// 100 Gbit/s.
//
// The least rate is a tenth of that of the ns-3 model, so that a hundred flows fit into 1 Gbit/s.
var DefaultCongestion = CongestionParams{
	LineRate: 100e9, MinRate: 10e6, G: 1.0 / 256, AlphaTimer: 55_000, CutInterval: 50_000, RaiseTimer: 55_000,
	RaiseBytes: 10e6, FastRecoveries: 5, CNPInterval: 50_000,
}

// withDefaults fills in what is zero. With an interval of zero catchUp would never end.
func (p CongestionParams) withDefaults() CongestionParams {
	d := &DefaultCongestion
	p.LineRate = cmp.Or(p.LineRate, d.LineRate)
	p.MinRate = cmp.Or(p.MinRate, d.MinRate)
	p.G = cmp.Or(p.G, d.G)
	p.AlphaTimer = cmp.Or(p.AlphaTimer, d.AlphaTimer)
	p.CutInterval = cmp.Or(p.CutInterval, d.CutInterval)
	p.RaiseTimer = cmp.Or(p.RaiseTimer, d.RaiseTimer)
	p.RaiseBytes = cmp.Or(p.RaiseBytes, d.RaiseBytes)
	p.FastRecoveries = cmp.Or(p.FastRecoveries, d.FastRecoveries)
	p.StepRate = cmp.Or(p.StepRate, p.LineRate/2500)
	p.BigStepRate = cmp.Or(p.BigStepRate, p.LineRate/500)
	p.CNPInterval = cmp.Or(p.CNPInterval, d.CNPInterval)
	return p
}

// ECT is a traffic class with ECT(0), "ECN-capable transport", in its ECN field, unless that field
// says something already. When a switch is congested, it marks only such packets and drops the
// others; without marks there are no CNPs, and nothing bounds the rates. RoCE NICs set it for every
// address vector (section 13, row 37). We set it for connected queue pairs and their replies only:
// no rate is kept for datagrams, so they must not claim to slow down.
func ECT(trafficClass uint8) uint8 {
	if trafficClass&3 == 0 {
		trafficClass |= wire.ECNCapable0
	}
	return trafficClass
}

// rate is the sending rate of one queue pair.
type rate struct {
	paced   bool    // limited, or there is a ceiling: each packet has its time
	limited bool    // by congestion
	waited  bool    // a packet was ready before sendAt and has not caught up yet
	ceiling float64 // bytes per second: QPAttr.RateLimit; 0: none
	sendAt  Time    // not before; Never is never stored
	cnpAt   Time    // when the last CNP was owed
	*slowdown
}

// slowdown is what is known about congestion. It is there from the first CNP on: most queue pairs
// never hear one.
type slowdown struct {
	current, target float64 // bytes per second
	alpha           float64 // estimate of congestion, 0..1
	alphaAt         Time    // when it shrinks next
	cutAt           Time    // of the last cut
	raiseAt         Time    // when the timer raises next
	raiseEvery      Time
	bytes           uint64 // sent since the last raise by bytes
	byTimer, byByte uint32 // raises since the last cut
}

// congested owes the peer a CNP for a marked packet.
func (e *Engine) congested(q *QP) {
	e.stats.RcvdECN++
	e.recordDecision(RecordMarked, q)
	r := &q.rate
	if r.cnpAt != 0 && e.now-r.cnpAt < e.cc.CNPInterval {
		return
	}
	r.cnpAt = max(e.now, 1)
	e.urge(q, dueCNP)
}

// putCNP makes a congestion notification: 16 zero bytes behind a BTH with BECN, outside the PSN
// sequence (section 1.7).
func (e *Engine) putCNP(q *QP, b *wire.Batch) verdict {
	info := wire.CNP.Info()
	path := q.path.WithTrafficClass(cnpTrafficClass)
	f := b.Reserve(&path, int(info.HdrLen)+wire.ICRCLen)
	if f == nil {
		return verdictFull
	}
	(*wire.BTH)(f.Body).Put(wire.CNP, wire.BTHBECN, 0, wire.DefaultPKey, q.attr.DestQPN, 0)
	clear(f.Body[wire.BTHLen:info.HdrLen])
	wire.Seal(f)
	e.stats.SentPkts++
	e.stats.SentCNP++
	return verdictSent
}

// cut answers a CNP. The rate before it is the one that fast recovery goes back to. The rate is
// raised at most once a round trip, because what a raise does is not heard of sooner.
func (r *rate) cut(now, srtt Time, p *CongestionParams) {
	line := r.line(p)
	if r.limited {
		r.catchUp(now, p)
		if now-r.cutAt < p.CutInterval {
			return
		}
	}
	if !r.limited { // or not any more
		if r.slowdown == nil {
			r.slowdown = new(slowdown)
		}
		r.paced, r.limited = true, true
		*r.slowdown = slowdown{current: line, target: line, alpha: 1}
	}
	r.target = r.current
	r.current = max(r.current*(1-r.alpha/2), min(float64(p.MinRate)/8, line))
	r.alpha = (1-p.G)*r.alpha + p.G
	r.raiseEvery = max(p.RaiseTimer, srtt)
	r.cutAt, r.alphaAt, r.raiseAt = now, now+p.AlphaTimer, now+r.raiseEvery
	r.bytes, r.byTimer, r.byByte = 0, 0, 0
}

// catchUp lets the timers that have run out have their effect. Nobody wakes up for them.
func (r *rate) catchUp(now Time, p *CongestionParams) {
	for ; r.alphaAt <= now; r.alphaAt += p.AlphaTimer {
		r.alpha *= 1 - p.G
		if r.alpha < 1e-9 { // idle for long: the rest changes nothing
			r.alphaAt = now
		}
	}
	for ; r.limited && r.raiseAt <= now; r.raiseAt += r.raiseEvery {
		r.byTimer++
		r.raise(p)
	}
}

// raise is one step up.
func (r *rate) raise(p *CongestionParams) {
	switch most, least := max(r.byTimer, r.byByte), min(r.byTimer, r.byByte); {
	case most < p.FastRecoveries:
	case least > p.FastRecoveries:
		r.target += float64(least-p.FastRecoveries) * float64(p.BigStepRate) / 8
	default:
		r.target += float64(p.StepRate) / 8
	}
	line := r.line(p)
	r.target = min(r.target, line)
	r.current = (r.target + r.current) / 2
	if r.current > 0.999*line {
		r.limited, r.paced = false, r.ceiling != 0
	}
}

// line is where rates begin and end, in bytes per second.
func (r *rate) line(p *CongestionParams) float64 {
	if line := float64(p.LineRate) / 8; r.ceiling == 0 || line < r.ceiling {
		return line
	}
	return r.ceiling
}

// limitRate puts QPAttr.RateLimit into effect, from the next packet on.
func (e *Engine) limitRate(q *QP) {
	r := &q.rate
	r.ceiling = float64(q.attr.RateLimit) * 1000 / 8
	r.paced = r.limited || r.ceiling != 0
	if r.limited {
		r.current, r.target = min(r.current, r.line(&e.cc)), min(r.target, r.line(&e.cc))
	}
	r.sendAt, r.waited = 0, false
	if q.paused {
		q.paused = false
		e.schedule(q, dueRequest|dueReply)
		e.setDeadline(q)
	}
}

// pausedUntil is when a packet held back by the rate may leave; Never: there is none.
func (q *QP) pausedUntil() Time {
	if !q.paused {
		return Never
	}
	return q.rate.sendAt
}

// heldByRate says whether a request packet would leave now, were it not for the rate.
func (q *QP) heldByRate() bool { return q.paused && q.req.next != q.sq.tail.Load() && q.windowOpen() }

// mayPace says whether a data packet may leave now; if not, the queue pair wakes up when it may.
func (e *Engine) mayPace(q *QP) bool {
	r := &q.rate
	if !r.paced || r.sendAt <= e.now {
		return true
	}
	q.paused, r.waited = true, true
	e.setDeadline(q)
	return false
}

// bound is how many packets may be unacknowledged at a limited rate: those of the least round trip,
// and those of rateQueue, which stand in the queue that marked them. A sender may hear of the marks
// late, because somebody sleeps or the machine is busy; without a bound it would fill that queue
// with its whole window.
func (r *rate) bound(base Time, mtu uint32) int32 {
	return int32(min(max(r.current*float64(base+rateQueue)/1e9/float64(mtu), minWindow), psnSpan))
}

// takes is how long n bytes take at the present rate; 0: nothing is limited.
func (r *rate) takes(n uint32) Time {
	switch {
	case r.limited:
		return Time(float64(n) / r.current * 1e9)
	case r.ceiling != 0:
		return Time(float64(n) / r.ceiling * 1e9)
	}
	return 0
}

// madeUp is how much of a delay the packets behind it make up for.
func (r *rate) madeUp(mtu uint32) Time {
	if r.limited { // a burst is what a queue that is full needs least
		return maxLate
	}
	return max(maxLate, min(r.takes(maxBurst*mtu), maxLateTimer))
}

// spend accounts for a data packet of n bytes.
func (e *Engine) spend(q *QP, n int) {
	r := &q.rate
	if !r.paced {
		return
	}
	if r.limited {
		r.catchUp(e.now, &e.cc)
		for r.bytes += uint64(n); r.bytes >= e.cc.RaiseBytes; r.bytes -= e.cc.RaiseBytes {
			r.byByte++
			r.raise(&e.cc)
		}
	}
	from := max(r.sendAt, e.now)
	if r.waited { // it was woken up late, which may not lower the rate: those behind make up for it
		from = max(r.sendAt, e.now-r.madeUp(q.mtu))
	}
	r.sendAt = from + r.takes(uint32(n))
	r.waited = r.waited && r.sendAt <= e.now
}
