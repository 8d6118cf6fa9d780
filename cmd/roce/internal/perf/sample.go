package perf

// What of a bandwidth run counts: averages over its measured part, and the best part of all.
//
// Stages: move the ends of the measured part with each batch of completions, then make figures of
// it.

import "time"

// sample counts the messages of the measured part of a run. With a duration its ends are cut off,
// without it is all of it.
type sample struct {
	from, to    time.Duration // wanted
	first, last time.Duration // found
	base, count int           // messages done at first and at last
	open        bool
}

// window is the measured part of a run that has a duration.
func (o *Options) window() (from, to time.Duration) {
	margin := o.Margin
	if margin == 0 {
		margin = o.Duration / 4
	}
	return margin, o.Duration - margin
}

// peakLimit is up to how many messages the times of all are kept, to look for the best part of the
// run.
const peakLimit = 20000

// mark counts what the last batch moved, and moves the ends of the measured part.
func (s *stream) mark() {
	sent, got := s.counts()
	s.progress.add(sent+got-s.counted, s.size)
	s.counted = sent + got
	done := sent
	if !s.sends {
		done = got
	}
	m := &s.sample
	if s.now < m.from || m.to > 0 && s.now > m.to {
		return
	}
	if !m.open && (m.to > 0 || !s.sends) {
		// a sender's clock starts with its first post, which is time 0
		m.first, m.base = s.now, done
	}
	m.open = true
	m.last, m.count = s.now, done
}

// counts are the messages that this end has sent, as far as it knows, and received.
func (s *stream) counts() (sent, got int) {
	for _, q := range s.queues {
		sent += q.done
		got += q.got
	}
	return sent, got
}

// figures are the results: averages over the measured part, and the best part of the run.
func (s *stream) figures() figures {
	m := &s.sample
	n := m.count - m.base
	if s.takes && !s.sends && m.base > 0 && s.o.Duration == 0 {
		// the first batch counts: perftest's clock starts when it is here, and it counts it
		n = m.count
	}
	seconds := (m.last - m.first).Seconds()
	f := figures{Size: uint64(s.size), Iters: uint64(n)}
	if seconds <= 0 {
		return f
	}
	f.Avg = float64(n) * float64(s.size) / seconds / s.unit()
	f.Rate = float64(n) / seconds / 1e6
	f.Peak = s.peak() * float64(s.size) / s.unit()
	return f
}

// unit is how many bytes a unit of bandwidth has: MiB, or with --report-gbits 10^9 bits.
func (r *rig) unit() float64 {
	if r.o.Gbits {
		return 1e9 / 8
	}
	return 1 << 20
}

// inOurUnit turns the peer's figures into the unit of this end's report. Which unit the peer has
// does not go over the wire, but its message rate, which has no unit, says it.
func (r *rig) inOurUnit(f figures) figures {
	if f.Avg > 0 && f.Rate > 0 {
		avg := f.Rate * 1e6 * float64(f.Size) / r.unit()
		f.Peak *= avg / f.Avg
		f.Avg = avg
	}
	return f
}

// peak is the highest rate, in messages a second, of any part of the run that starts with a post
// and ends with a completion.
func (s *stream) peak() float64 {
	best := 0.0
	for j, done := range s.dones {
		if done == 0 {
			continue
		}
		for i, posted := range s.posts[:min(j+1, len(s.posts))] {
			if d := done - posted; d > 0 {
				best = max(best, float64(j-i+1)/d.Seconds())
			}
		}
	}
	return best
}
