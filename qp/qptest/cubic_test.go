package qptest

// A sender of TCP beside ours on the same link, as most networks have it: CUBIC (RFC 9438) with
// HyStart's way out of slow start and SACK's knowledge of what is lost.
//
// Stages: as many segments as the window has room for enter the link (fill) → one that the queue
// takes is acknowledged a round trip later (acked) → what left three segments before it and was not
// is lost: the window is cut once for all that had left by then → without any ACK the
// retransmission timeout begins anew.

import (
	"math"
	"slices"

	"github.com/goroce/goroce/qp"
)

const (
	tcpPayload = 1448 // of a segment at MTU 1500, with time stamps
	tcpSegment = 1500
	tcpRTO     = 200 * Millisecond // Linux' least
	cubicC     = 0.4
	cubicBeta  = 0.7
)

// tcp is one flow. A segment is its number: what is sent again is another one.
type tcp struct {
	w    *World
	link *Link
	back qp.Time // until an ACK of what has arrived is here

	window, slow float64 // segments: congestion window, and where slow start ends
	top, una     int     // segments sent; one past the newest that was acknowledged
	missing      []int   // before una, neither acknowledged nor lost
	flying       int
	recover      int // losses before this segment were cut for
	delivered    int // bytes of payload

	segment [tcpSegment]byte

	base, srtt      qp.Time
	most            float64 // the window before the last cut
	since           qp.Time // the last cut, or 0
	friendly        float64 // what Reno's window would be
	lastACK, waking qp.Time
}

// tcp starts a flow through a link.
func (w *World) tcp(l *Link) *tcp {
	f := &tcp{w: w, link: l, back: l.Delay, window: 10, slow: math.Inf(1)}
	f.fill()
	return f
}

// fill sends what the window has room for.
func (f *tcp) fill() {
	for float64(f.flying) < f.window {
		n, left := f.top, f.w.Now
		f.top++
		f.flying++
		if segment := (Flight{pkt: f.segment[:]}); !f.link.chance(f.link.Loss) && f.link.enqueue(&segment) {
			at := f.link.busy + f.link.Delay
			if f.link.chance(f.link.Reorder) {
				at += qp.Time(f.link.rnd.Int64N(int64(f.link.ReorderBy)))
			}
			f.w.At(at+f.back+qp.Time(f.link.rnd.Int64N(int64(jitter))), func() { f.acked(n, left) })
		}
	}
	f.lastACK = f.w.Now
	if f.waking <= f.w.Now {
		f.wake(f.w.Now + tcpRTO)
	}
}

// wake looks at a time whether the flow has heard nothing for too long.
func (f *tcp) wake(at qp.Time) {
	f.waking = at
	f.w.At(at, func() {
		if late := f.lastACK + tcpRTO; late > f.w.Now {
			f.wake(late)
			return
		}
		f.cut()
		f.window, f.una, f.missing, f.flying, f.recover = 1, f.top, nil, 0, f.top
		f.fill()
	})
}

// acked takes the ACK of segment n, which left at that time.
func (f *tcp) acked(n int, left qp.Time) {
	f.delivered += tcpPayload
	if i, late := slices.BinarySearch(f.missing, n); late {
		f.missing = slices.Delete(f.missing, i, i+1)
	} else if n < f.una { // it was given up for lost
		return
	}
	for ; f.una < n; f.una++ {
		f.missing = append(f.missing, f.una)
	}
	f.una = max(f.una, n+1)
	f.flying--
	for len(f.missing) > 0 && f.missing[0] <= n-3 {
		if f.missing[0] >= f.recover {
			f.cut()
			f.recover = f.top
		}
		f.missing = f.missing[1:]
		f.flying--
	}
	rtt := f.w.Now - left
	if f.base == 0 || rtt < f.base {
		f.base = rtt
	}
	if f.srtt == 0 {
		f.srtt = rtt
	}
	f.srtt += (rtt - f.srtt) / 8
	f.grow(rtt)
	f.fill()
}

// cut is the answer to a loss.
func (f *tcp) cut() {
	if f.window < f.most { // less than last time: there is somebody new
		f.most = f.window * (1 + cubicBeta) / 2
	} else {
		f.most = f.window
	}
	f.window = max(f.window*cubicBeta, 2)
	f.slow, f.friendly, f.since = f.window, f.window, f.w.Now
}

// grow is the effect of one ACK on the window.
func (f *tcp) grow(rtt qp.Time) {
	if f.window < f.slow {
		f.window++
		if rtt > f.base+min(max(f.base/8, 4*Millisecond), 16*Millisecond) {
			f.slow, f.most, f.since, f.friendly = f.window, f.window, f.w.Now, f.window
		}
		return
	}
	k := math.Cbrt(f.most * (1 - cubicBeta) / cubicC)
	t := float64(f.w.Now-f.since+f.srtt) / float64(Second)
	target := cubicC*math.Pow(t-k, 3) + f.most
	f.friendly += 3 * (1 - cubicBeta) / (1 + cubicBeta) / f.window
	switch {
	case target < f.friendly:
		f.window = max(f.window, f.friendly)
	case target > f.window:
		f.window += (min(target, 1.5*f.window) - f.window) / f.window
	default:
		f.window += 0.01 / f.window
	}
}
