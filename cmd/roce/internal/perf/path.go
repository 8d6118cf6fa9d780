package perf

// What the queue pairs know of their path in the end, with --verbose: lines of text, or "paths" of
// --json.

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
)

// pathResult is roce.PathInfo of a queue pair, for --json.
type pathResult struct {
	QPN       string  `json:"qpn"`
	MTU       int     `json:"mtu"`
	RTT       float64 `json:"rtt_usec"` // smoothed; 0: not measured, and so the next two
	Deviation float64 `json:"rtt_deviation_usec"`
	Base      float64 `json:"rtt_base_usec"`
	State     string  `json:"window_state"`
	Window    int     `json:"window_packets"`
	Bytes     uint64  `json:"window_bytes"`
	Cuts      uint64  `json:"window_cuts"`
	Resent    uint64  `json:"sent_again"`
	Rate      uint64  `json:"pacing_bps"` // 0: not paced
	Limited   bool    `json:"rate_limited_by_marks"`
}

// paths are those of queue pairs that know: none of UC, UD, or a device of the kernel.
func (r *rig) paths() (all []pathResult) {
	usec := func(t roce.PathInfo) (a, b, c float64) {
		return float64(t.RTT) / 1e3, float64(t.Deviation) / 1e3, float64(t.BaseRTT) / 1e3
	}
	for _, q := range r.queues {
		p, err := q.PathInfo()
		if err != nil {
			return all
		}
		x := pathResult{QPN: fmt.Sprintf("0x%06x", q.QPN()), MTU: p.MTU.Bytes(), State: p.State.String(),
			Window: p.Window, Bytes: p.WindowBytes, Cuts: p.Cuts, Resent: p.Resent, Rate: p.Rate, Limited: p.Limited}
		x.RTT, x.Deviation, x.Base = usec(p)
		all = append(all, x)
	}
	return all
}

// line is a path in words.
func (p *pathResult) line() string {
	rtt := "round trip not measured"
	if p.RTT > 0 {
		rtt = fmt.Sprintf("round trip %v (least %v)", us(p.RTT), us(p.Base))
	}
	pace := "not paced"
	if p.Rate > 0 {
		pace = fmt.Sprintf("paced to %.3g Gbit/s", float64(p.Rate)/1e9)
		if p.Limited {
			pace += " after marks"
		}
	}
	return fmt.Sprintf(" Path of QP %s : MTU %d, %s, window %d packets (%s, cut %d times), %d packets sent again, %s\n",
		p.QPN, p.MTU, rtt, p.Window, p.State, p.Cuts, p.Resent, pace)
}

// us is a time in a unit that suits it.
func us(usec float64) time.Duration {
	return time.Duration(usec * 1e3).Round(100 * time.Nanosecond)
}

// shownPaths is how many lines of paths there are; --json has all.
const shownPaths = 2

// sayPaths prints them.
func (r *rig) sayPaths() {
	all := r.paths()
	for i := range all[:min(len(all), shownPaths)] {
		r.say(all[i].line())
	}
	if n := len(all) - shownPaths; n > 0 {
		r.say(fmt.Sprintf(" (and %d more queue pairs: --json has them)\n", n))
	}
}
