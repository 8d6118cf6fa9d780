package learn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// causeTruths are about what acted, what was seen of it, and what came twice.
var causeTruths = map[string]truth{
	"ack timeout":     asksTruth,
	"probe":           asksTruth,
	"sequence NAK":    backTruth,
	"probe answered":  backTruth,
	"no more answers": backTruth,
	"gap report":      gapTruth,
	"missing answer":  gapTruth,
	"RNR NAK": func(o *oracle, s *told.Sentence) error {
		nak := o.packet(s.Packets[0])
		if len(s.Packets) > 1 {
			p := o.packet(s.Packets[1])
			if p.PSN != s.PSN || p.From != s.Host || p.Sent-s.At != s.For {
				return fmt.Errorf("packet %d is sent at %d", p.N, p.Sent)
			}
		}
		return first(must(strings.HasPrefix(nak.Label, "RNR NAK") && nak.PSN == s.PSN, "it is %s", nak.Label), arrives(nak, s.Host, s.At))
	},
	"gives up": func(o *oracle, s *told.Sentence) error {
		n := 0
		to := uint32(0)
		for i := range o.after.Entries {
			if e := &o.after.Entries[i]; e.Kind == "give up" && e.Host == s.Host && e.Time == s.At {
				to = o.peer(e.QPN)
			}
		}
		for i := range o.after.Packets {
			if x := &o.after.Packets[i]; x.From == s.Host && x.QPN == to && x.PSN == s.PSN && x.Sent <= s.At && x.Kind == "request" {
				n++
			}
		}
		return first(must(n == s.Count, "it was sent %d times", n), must(slices.ContainsFunc(o.after.Completions,
			func(c world.Completion) bool {
				return c.Host == s.Host && c.Time == s.At && (c.Full.Status == qp.WCRetryExcErr && strings.Contains(s.Text, "retry_cnt") ||
					c.Full.Status == qp.WCRNRRetryExcErr && strings.Contains(s.Text, "rnr_retry"))
			}), "no completion says so"))
	},
	"CNP": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return first(must(p.Label == "CNP", "it is %s", p.Label), arrives(p, s.Host, s.At), o.entry(o.after, "slowed", s.Host, s.At,
			func(e *world.Entry) bool {
				return int(e.Record.Value) == s.Bytes && e.QPN == p.QPN
			}))
	},
	"refusal": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return first(must(strings.HasPrefix(p.Label, "NAK") && !strings.Contains(p.Label, "sequence") && p.PSN == s.PSN, "it is %s",
			p.Label),
			arrives(p, s.Host, s.At), o.entry(o.after, "completion", s.Host, s.At,
				func(e *world.Entry) bool { return e.Record.Length != 0 }))
	},
	"mark": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		err := first(must(ecn(p) == 3, "it has no mark"), arrives(p, s.Host, s.At))
		if len(s.Packets) > 1 && err == nil {
			cnp := o.packet(s.Packets[1])
			err = must(cnp.Label == "CNP" && cnp.From == s.Host && cnp.QPN == o.peer(p.QPN) && strings.Contains(s.Text,
				"tells "+o.after.Hosts[cnp.To].Name) && cnp.Sent >= s.At, "packet %d is %s", cnp.N, cnp.Label)
		}
		return err
	},
	"dropped":        droppedTruth,
	"cut off":        droppedTruth,
	"gap, asked for": droppedTruth,
	"gap": func(o *oracle, s *told.Sentence) error {
		n := len(s.Packets) - 1
		drops, nak := s.Packets[:n], o.packet(s.Packets[n])
		return first(must(nak.Label == "NAK PSN sequence error" && nak.PSN == s.Want && nak.From == s.Host && nak.Sent >= s.At, "packet "+
			"%d is %s", nak.N, nak.Label),
			must(s.Count == n && wire.PSN(s.PSN).Sub(wire.PSN(s.Want)) > 0 && o.packet(drops[0]).PSN == s.PSN, "PSN %d is not missing",
				s.Want),
			must(o.executions(o.packet(drops[0]).QPN, s.Want, s.At) == 0, "PSN %d is there", s.Want), o.areDropped(s.Host, drops,
				wire.DropOutOfSequence))
	},
	"kept": func(o *oracle, s *told.Sentence) error {
		return o.entry(o.after, "kept", s.Host, s.At, func(e *world.Entry) bool {
			return e.Packet == s.Packets[0] && o.executions(e.QPN, s.PSN, s.At) == 0 &&
				(len(s.Packets) < 2 || strings.HasPrefix(o.packet(s.Packets[1]).Label, "NAK PSN") && o.packet(s.Packets[1]).From == s.Host)
		})
	},
	"full queue": func(o *oracle, s *told.Sentence) error {
		lost := func(p *world.Play) (n int) {
			for _, x := range p.Packets {
				if x.Arrived == 0 && x.To >= 0 && x.Change != world.Drop && x.Fate != world.UnderWay {
					n++
				}
			}
			return n
		}
		return must(lost(o.after) == s.Count && lost(o.before) == s.Without, "they are %d and %d", lost(o.after), lost(o.before))
	},
	"ACK again":   duplicateTruth,
	"read again":  duplicateTruth,
	"kept answer": duplicateTruth,
	"ignored":     duplicateTruth,
	"known answer": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return first(arrives(p, s.Host, s.At), must(p.PSN == s.PSN && p.Kind != "request", "it is %s", p.Kind), o.entry(o.after,
			"dropped", s.Host, s.At, func(e *world.Entry) bool {
				r := wire.DropReason(e.Record.Value)
				n := o.count(o.after, "dropped", func(x *world.Entry) bool {
					return x.Host == e.Host && x.QPN == e.QPN && x.Record.Value == e.Record.Value
				})
				return e.Packet == p.N && (r == wire.DropGhost || r == wire.DropDuplicate) && s.Count >= 1 && s.Count <= n
			}))
	},
	"copy executed": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		kind := "executed"
		if strings.HasPrefix(p.Op, "UD") {
			kind = "completion"
		}
		return first(must(p.Again == s.At && !strings.HasPrefix(p.Op, "RC"), "%s at %d", p.Op, p.Again), o.entry(o.after, kind, s.Host,
			s.At, func(e *world.Entry) bool { return e.Packet == p.N }))
	},
	"copy dropped": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return first(must(p.Again == s.At, "at %d", p.Again), o.entry(o.after, "dropped", s.Host, s.At,
			func(e *world.Entry) bool { return e.Packet == p.N }))
	},
}

// asksTruth: a packet is sent again for the stated time, and nothing acknowledged it before.
func asksTruth(o *oracle, s *told.Sentence) error {
	p := o.packet(s.Packets[0])
	own := o.peer(p.QPN)
	kind, was := qp.TimerProbe, uint64(s.Trip)
	if s.Rule == "ack timeout" {
		kind, was = qp.TimerAck, uint64(s.For)
		if s.Code > 0 && int64(4096)<<s.Code != s.For {
			return fmt.Errorf("4.096 us * 2^%d is not %d", s.Code, s.For)
		}
	} else if last := o.heard(s.Host, own, s.At); s.At-last != s.For && o.firstSent(s.Host, p.QPN, s.PSN) != s.At-s.For {
		return fmt.Errorf("it has heard something at %d", last)
	}
	asked := func(play *world.Play) int {
		return o.count(play, "probe", func(e *world.Entry) bool {
			return e.Host == s.Host && e.QPN == own && uint32(e.Record.PSN) == s.PSN && e.Time >= o.packet(o.change.Packet).Sent
		})
	}
	done := o.count(o.after, "executed", func(e *world.Entry) bool { return e.Packet == p.N && uint32(e.Record.PSN) == p.PSN })
	return first(
		must(p.From == s.Host && p.PSN == s.PSN && p.Sent >= s.At && slices.Contains(o.resent(s.Host, p.QPN, s.At, never), p.N), "packet "+
			"%d does not repeat it", p.N),
		must(slices.ContainsFunc(o.after.Entries, func(e world.Entry) bool {
			return e.Kind == "timer" && e.Host == s.Host && e.QPN == own && e.Time <= s.At && qp.TimerKind(e.Record.Op) == kind &&
				e.Record.Value == was
		}), "no timer of %d", was),
		must(!o.acknowledged(s.Host, own, s.PSN, s.At), "it was acknowledged before"),
		must(asked(o.after) == s.Count && asked(o.before) == s.Without, "it asks %d times, and before %d", asked(o.after), asked(o.before)),
		must(len(s.Packets) < 2 || o.packet(s.Packets[1]).Kind == "nak" && o.packet(s.Packets[1]).PSN == s.PSN && done == 0, "packet %d "+
			"refuses nothing", s.Packets[len(s.Packets)-1]),
		must((done > 0) == (s.Done > 0) && (s.Done == 0 || o.executions(p.QPN, p.PSN, s.Done-1) == 0), "%d executions", done))
}

// firstSent is when a host first sent a PSN to a queue pair.
func (o *oracle) firstSent(host int, to, psn uint32) int64 {
	for i := range o.after.Packets {
		if x := &o.after.Packets[i]; x.From == host && x.QPN == to && x.PSN == psn && x.Kind == "request" {
			return x.Sent
		}
	}
	return -1
}

// acknowledged says whether a queue pair has got an ACK of a PSN before a time.
func (o *oracle) acknowledged(host int, qpn, psn uint32, before int64) bool {
	return slices.ContainsFunc(o.after.Packets, func(x world.Packet) bool {
		return x.To == host && x.QPN == qpn && x.Kind == "ack" && x.Arrived > o.firstSent(host, o.peer(qpn), psn) && x.Arrived < before &&
			x.Fate != world.Corrupted &&
			x.Label == "ACK" && wire.PSN(x.PSN).Sub(wire.PSN(psn)) >= 0
	})
}

// backTruth: the position goes back, because of the named packet or for want of answers.
func backTruth(o *oracle, s *told.Sentence) error {
	packets := s.Packets
	if s.Rule == "no more answers" {
		return o.sendsAgain(s, "retry", packets)
	}
	p := o.packet(packets[0])
	return first(arrives(p, s.Host, s.At), must((p.Label == "NAK PSN sequence error") == (s.Rule == "sequence NAK"), "it is %s", p.Label),
		must(p.PSN == s.PSN || s.Rule != "sequence NAK", "it names %d", p.PSN), o.sendsAgain(s, "retry", packets[1:]))
}

// gapTruth: what is missing, and only that, is sent again.
func gapTruth(o *oracle, s *told.Sentence) error {
	p := o.packet(s.Packets[0])
	late := wire.PSN(p.PSN).Sub(wire.PSN(s.PSN)) > 0
	return first(arrives(p, s.Host, s.At), must((p.Kind == "nak") == (s.Rule == "gap report"), "it is %s", p.Label),
		must(s.Rule == "gap report" || late && s.Want == p.PSN, "PSN %d is not behind %d", p.PSN, s.PSN), o.sendsAgain(s, "gap",
			s.Packets[1:]),
		o.entry(o.after, "gap", s.Host, s.At, func(e *world.Entry) bool { return int(e.Record.Length) == s.Without && e.Packet == p.N }))
}

// areDropped says that a host drops packets for a reason.
func (o *oracle) areDropped(host int, packets []int, reason wire.DropReason) error {
	for _, n := range packets {
		if o.count(o.after, "dropped", func(e *world.Entry) bool {
			return e.Host == host && e.Packet == n && wire.DropReason(e.Record.Value) == reason
		}) == 0 {
			return fmt.Errorf("packet %d is not dropped so", n)
		}
	}
	return nil
}

// droppedTruth: all packets are dropped for the reason of the first, which comes at the time.
func droppedTruth(o *oracle, s *told.Sentence) error {
	for i := range o.after.Entries {
		if e := &o.after.Entries[i]; e.Kind == "dropped" && e.Host == s.Host && e.Time == s.At && e.Packet == s.Packets[0] {
			reason := wire.DropReason(e.Record.Value)
			if strings.Contains(s.Text, "in ERR") {
				return first(o.areDropped(s.Host, s.Packets[:s.Count], wire.DropQPState), o.entry(o.after, "state", s.Host, s.Before,
					func(x *world.Entry) bool {
						return x.QPN == e.QPN && qp.QPState(x.Record.Op) == qp.StateErr && (len(s.Packets) == s.Count ||
							x.Packet == s.Packets[s.Count])
					}))
			}
			return first(o.areDropped(s.Host, s.Packets, reason), must(s.Rule != "dropped" || strings.Contains(s.Text, reason.Explain()),
				"it is %v", reason))
		}
	}
	return fmt.Errorf("packet %d is not dropped at %d", s.Packets[0], s.At)
}

// duplicateTruth: a request that was there before is not executed again, and what answers it comes.
func duplicateTruth(o *oracle, s *told.Sentence) error {
	p := o.packet(s.Packets[0])
	rest := s.Packets[1:]
	if s.Rule != "ignored" && len(rest) > 0 {
		answer := o.packet(rest[len(rest)-1])
		begins := map[string]string{"ACK again": "ACK", "read again": "RDMA_READ_RESPONSE", "kept answer": "ATOMIC_ACKNOWLEDGE"}[s.Rule]
		if answer.From == s.Host && (!strings.HasPrefix(answer.Label, begins) || answer.Sent < s.At || answer.QPN != o.peer(p.QPN)) {
			return fmt.Errorf("packet %d is %s", answer.N, answer.Label)
		}
	}
	if len(rest) > 0 && o.packet(rest[0]).From == p.From && o.packet(rest[0]).PSN != s.PSN {
		return fmt.Errorf("packet %d has PSN %d", rest[0], o.packet(rest[0]).PSN)
	}
	n := o.count(o.after, "duplicate", func(e *world.Entry) bool { return e.Host == s.Host && e.QPN == p.QPN })
	return first(arrives(p, s.Host, s.At), must(p.PSN == s.PSN && s.Count >= 1 && s.Count <= n, "%d duplicates", n),
		must(o.executions(p.QPN, s.PSN, s.At) <= 1 && o.executions(p.QPN, s.PSN, s.At) == o.executions(p.QPN, s.PSN, never), "it is "+
			"executed again"))
}

// reasonTruths are about why nothing acted.
var reasonTruths = map[string]truth{
	"one ACK for all": func(o *oracle, s *told.Sentence) error {
		if x := o.packet(s.Packets[0]); len(s.Packets) > 1 && o.entry(o.after, "duplicate", x.From, x.Sent, func(e *world.Entry) bool {
			return e.Packet == s.Packets[1]
		}) != nil {
			return fmt.Errorf("packet %d is not known", s.Packets[1])
		}
		p, own := o.packet(s.Packets[0]), o.packet(o.change.Packet)
		soon := own.Fate != world.Lost && own.Fate != world.Corrupted && own.Arrived < p.Arrived
		return first(arrives(p, s.Host, s.At), must(wire.PSN(p.PSN).Sub(wire.PSN(s.Want)) >= 0 && p.From == own.From &&
			own.PSN == s.Want && !soon, "packet %d does not speak for it", p.N),
			must(p.Kind == "ack" || p.Kind == "response", "it is %s", p.Kind))
	},
	"shows the gap": func(o *oracle, s *told.Sentence) error {
		p, by, nak := o.packet(s.Packets[0]), o.packet(s.Packets[1]), o.packet(s.Packets[2])
		is := func(x *world.Packet, from int, at int64) bool {
			return x.From == from && strings.HasPrefix(x.Label, "NAK PSN") && x.PSN == s.Want && x.Sent == at
		}
		was := slices.ContainsFunc(o.before.Packets, func(x world.Packet) bool { return is(&x, s.Host, s.Before) })
		return first(must(was, "no NAK leaves at %d without the change", s.Before), must(is(nak, s.Host, s.At), "nor at %d", s.At),
			must(o.before.Packets[p.N-1].Arrived == s.Before || o.before.Packets[p.N-1].Again == s.Before,
				"packet %d comes elsewhere", p.N),
			arrives(by, s.Host, s.At), must(s.For == s.At-s.Before, "not the difference"),
			must(wire.PSN(by.PSN).Sub(wire.PSN(s.Want)) > 0 && by.From == p.From, "packet %d shows nothing", by.N))
	},
	"dropped anyway": func(o *oracle, s *told.Sentence) error {
		return o.entry(o.before, "dropped", s.Host, s.At, func(e *world.Entry) bool {
			return e.Packet == s.Packets[0] && strings.Contains(s.Text, wire.DropReason(e.Record.Value).Explain())
		})
	},
	"no acknowledgements": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		answered := slices.ContainsFunc(o.after.Packets, func(x world.Packet) bool {
			return x.To == p.From && x.Kind == "ack" &&
				x.QPN == o.peer(p.QPN)
		})
		return must(!answered && !strings.HasPrefix(p.Op, "RC") && s.At == p.Sent, "it is %s", p.Op)
	},
	"executed now": func(o *oracle, s *told.Sentence) error {
		is := func(e *world.Entry) bool { return e.Host == s.Host && uint32(e.Record.PSN) == s.PSN }
		return first(o.entry(o.after, "executed", s.Host, s.At, is), must(o.count(o.before, "executed", is) < o.count(o.after,
			"executed", is), "it is executed anyway"))
	},
	"spared": func(o *oracle, s *told.Sentence) error {
		for i := range o.before.Entries {
			e := &o.before.Entries[i]
			if e.Host != s.Host || e.Time != s.Before || uint32(e.Record.PSN) != s.PSN {
				continue
			}
			same := func(x *world.Entry) bool { return x.Host == e.Host && x.QPN == e.QPN && x.Record.PSN == e.Record.PSN }
			if o.count(o.before, e.Kind, same) > o.count(o.after, e.Kind, same) {
				return nil
			}
		}
		return fmt.Errorf("it comes all the same")
	},
	"waits for it": func(o *oracle, s *told.Sentence) error {
		p, x := o.packet(s.Packets[0]), &o.before.Packets[s.Packets[0]-1]
		asked := func(play *world.Play) int {
			return o.count(play, "probe", func(e *world.Entry) bool { return e.QPN == p.QPN || e.QPN == o.peer(p.QPN) })
		}
		return must(p.Arrived == s.At && x.Arrived == s.Before && asked(o.after) <= asked(o.before), "it is there at %d and %d",
			p.Arrived, x.Arrived)
	},
	"copy unused": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		sent := slices.ContainsFunc(o.after.Packets, func(x world.Packet) bool {
			return x.From == p.To && x.Sent == p.Again && x.QPN == o.peer(p.QPN) && len(o.after.Packets) != len(o.before.Packets)
		})
		return must(p.Again == s.At && !sent, "it leads to a packet")
	},
	"the same": func(o *oracle, s *told.Sentence) error { return must(!o.different(), "it is not") },
	"lost anyway": func(o *oracle, s *told.Sentence) error {
		was, is := o.before.Packets[s.Packets[0]-1].Fate, o.packet(s.Packets[0]).Fate
		return must(was != world.Delivered && is != world.Delivered && (was == world.Lost || was == world.Corrupted), "%v, %v", was, is)
	},
	"not capable": func(o *oracle, s *told.Sentence) error { return must(ecn(o.packet(s.Packets[0])) == 0, "it is") },
	"no CNP for CNP": func(o *oracle, s *told.Sentence) error {
		return must(o.packet(s.Packets[0]).Label == "CNP", "it is none")
	},
	"no connection": func(o *oracle, s *told.Sentence) error {
		return must(strings.HasPrefix(o.packet(s.Packets[0]).Op, "UD"), "it has one")
	},
	"completes": func(o *oracle, s *told.Sentence) error {
		return first(arrives(o.packet(s.Packets[0]), s.Host, s.At), must(slices.ContainsFunc(o.after.Completions,
			func(c world.Completion) bool {
				return c.Host == s.Host && c.Time == s.At && c.WRID == s.WR
			}), "nothing completes"))
	},
}
