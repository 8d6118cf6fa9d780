package learn

// The oracle of TestTold: what a sentence says, worked out anew from packets, records and
// completions. A rule has a row in truths (or in ends of oracle_rules_test.go).

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// never is later than anything.
const never = int64(1) << 62

// oracle judges sentences about two plays.
type oracle struct {
	before, after *world.Play
	change        world.Change
}

// truth is nil if a sentence is true.
type truth func(o *oracle, s *told.Sentence) error

// judge holds a sentence against the plays.
func (o *oracle) judge(s *told.Sentence) error {
	for _, n := range s.Packets {
		if n < 1 || n > len(o.after.Packets) {
			return fmt.Errorf("there is no packet %d", n)
		}
	}
	is := truths[strings.TrimSuffix(s.Rule, ", event")]
	if is == nil {
		return fmt.Errorf("nobody knows whether %q is true", s.Rule)
	}
	return is(o, s)
}

// must is an error with the words unless something holds.
func must(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// first is the first error.
func first(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) packet(n int) *world.Packet { return &o.after.Packets[n-1] }

// entry says whether an entry of a kind is there, of a host at a time.
func (o *oracle) entry(p *world.Play, kind string, host int, at int64, is func(e *world.Entry) bool) error {
	return must(slices.ContainsFunc(p.Entries, func(e world.Entry) bool {
		return e.Kind == kind && e.Host == host && e.Time == at && is(&e)
	}), "%s has no %q at %d that fits", p.Hosts[host].Name, kind, at)
}

func (o *oracle) count(p *world.Play, kind string, is func(e *world.Entry) bool) (n int) {
	for i := range p.Entries {
		if e := &p.Entries[i]; e.Kind == kind && is(e) {
			n++
		}
	}
	return n
}

func any1(*world.Entry) bool { return true }

// arrives says that a packet is at a host at a time, the first copy or the second.
func arrives(p *world.Packet, host int, at int64) error {
	return must(p.To == host && (p.Arrived == at || p.Again == at), "packet %d is not at host %d at %d", p.N, host, at)
}

// ecn are the two bits of congestion in an IPv4 header.
func ecn(p *world.Packet) byte { return p.Bytes[1] & 3 }

// heard is when a host last heard of a peer on a queue pair before a time, by packets that are
// whole.
func (o *oracle) heard(host int, qpn uint32, before int64) (at int64) {
	for i := range o.after.Packets {
		x := &o.after.Packets[i]
		for _, t := range []int64{x.Arrived, x.Again} {
			if x.To == host && x.QPN == qpn && t < before && x.Fate != world.Corrupted {
				at = max(at, t)
			}
		}
	}
	return at
}

// peer is the queue pair at whose end a queue pair number is.
func (o *oracle) peer(qpn uint32) uint32 {
	for _, h := range o.after.Hosts {
		for _, q := range h.QPs {
			if q.QPN == qpn {
				return q.Peer
			}
		}
	}
	return 0
}

// span is how many PSNs a request takes: a READ those of its answers.
func span(x *world.Packet) uint32 {
	var p wire.Packet
	f, _ := wire.SplitFrame(x.Bytes)
	if wire.Parse(&f, &p) != wire.DropNone || p.Opcode != wire.RCReadRequest {
		return 1
	}
	return max(1, (p.RETH().DMALen()+1023)/1024)
}

// resent are the packets to a queue pair that a host sends in a span of time with PSNs that it has
// sent before.
func (o *oracle) resent(host int, to uint32, from, until int64) (all []int) {
	var top wire.PSN // one past the newest that was sent
	begun := false
	for i := range o.after.Packets {
		x := &o.after.Packets[i]
		if x.From != host || x.QPN != to || strings.Contains(x.Op, "RESPONSE") || strings.Contains(x.Op, "ACKNOWLEDGE") || x.Kind == "cnp" {
			continue
		}
		if begun && wire.PSN(x.PSN).Sub(top) < 0 && x.Sent >= from && x.Sent < until {
			all = append(all, x.N)
		}
		if end := wire.PSN(x.PSN).Add(span(x)); !begun || end.Sub(top) > 0 {
			top, begun = end, true
		}
	}
	return all
}

// next is when a host's queue pair next decides to send again or to stop, after a time.
func (o *oracle) next(host int, qpn uint32, at int64) int64 {
	next := never
	for i := range o.after.Entries {
		e := &o.after.Entries[i]
		if e.Host == host && e.QPN == qpn && e.Time > at && slices.Contains([]string{"retry", "probe", "gap", "wait", "give up"}, e.Kind) {
			next = min(next, e.Time)
		}
	}
	return next
}

// sendsAgain judges the packets of a sentence from the second on, or from the first: they are those
// that a host sends again from a time on.
func (o *oracle) sendsAgain(s *told.Sentence, kind string, packets []int) error {
	for i := range o.after.Entries {
		e := &o.after.Entries[i]
		if e.Kind != kind || e.Host != s.Host || e.Time != s.At || uint32(e.Record.PSN) != s.PSN {
			continue
		}
		want := o.resent(s.Host, o.peer(e.QPN), s.At, o.next(s.Host, e.QPN, s.At))
		return first(must(slices.Equal(want, packets), "sent again are %v", want), must(s.Count == len(want), "%d are sent again",
			len(want)))
	}
	return fmt.Errorf("no %q at %d", kind, s.At)
}

// executions counts how often a PSN was executed at a queue pair up to a time.
func (o *oracle) executions(qpn, psn uint32, until int64) int {
	return o.count(o.after, "executed", func(e *world.Entry) bool {
		return e.QPN == qpn && uint32(e.Record.PSN) == psn && e.Time <= until
	})
}

// bill adds up what is sent, and when the last completion comes.
func bill(p *world.Play) (packets, bytes int, last int64) {
	for i := range p.Packets {
		packets++
		bytes += len(p.Packets[i].Bytes)
	}
	for i := range p.Completions {
		last = max(last, p.Completions[i].Time)
	}
	return packets, bytes, last
}

// rest is when nothing happens any more, but for programs.
func rest(p *world.Play) (last int64) {
	for i := range p.Packets {
		last = max(last, p.Packets[i].Sent, p.Packets[i].Arrived, p.Packets[i].Again)
	}
	for i := range p.Entries {
		if e := &p.Entries[i]; !slices.Contains([]string{"call", "poll", "cpu"}, e.Kind) && (e.Kind != "event" || e.Async) {
			last = max(last, e.Time)
		}
	}
	return last
}

// costTruth judges the sentence about the price.
func costTruth(o *oracle, s *told.Sentence) error {
	n, bytes, last := bill(o.after)
	was, wasBytes, wasLast := bill(o.before)
	if s.Rule == "cost until quiet" {
		last, wasLast = rest(o.after), rest(o.before)
	}
	word := map[bool]string{true: "costs", false: "saves"}[last >= wasLast]
	return first(must(s.Count == n && s.Bytes == bytes && s.Without == was && s.Spared == wasBytes, "it is %d %d and %d %d", n, bytes,
		was, wasBytes),
		must(s.At == last && s.Before == wasLast && s.For == last-wasLast, "it is %d and %d", last, wasLast),
		must(strings.Contains(s.Text, word), "it does not say %q", word), o.wire(s))
}

// wire judges what is said of a packet that the others wait for: it takes so long, with what
// Ethernet adds, at 10 Gbit/s or, in the lesson "lossy", at 1.
func (o *oracle) wire(s *told.Sentence) error {
	if len(s.Packets) == 0 {
		return nil
	}
	p := o.packet(s.Packets[0])
	bits := int64(len(p.Bytes)+38) * 8
	return must((p.Again > 0 || p.Label == "CNP") && (bits/10 == s.For || bits == s.For || p.Again-p.Arrived == s.For), "it takes %d "+
		"bits", bits)
}

// program are the completions of a host.
func program(p *world.Play, host int) (all []world.Completion) {
	for _, c := range p.Completions {
		if c.Host == host {
			all = append(all, c)
		}
	}
	return all
}

// sameCompletions judges what the programs notice: the same completions, but for their times.
func sameCompletions(o *oracle, s *told.Sentence) error {
	worst := int64(0)
	for h := range o.after.Hosts {
		was, is := program(o.before, h), program(o.after, h)
		if len(was) != len(is) {
			return fmt.Errorf("host %d has %d completions, and had %d", h, len(is), len(was))
		}
		for i := range is {
			if was[i].WC != is[i].WC {
				return fmt.Errorf("completion %d of host %d is another", i, h)
			}
			worst = max(worst, is[i].Time-was[i].Time, was[i].Time-is[i].Time)
		}
	}
	if s.Rule == "later" {
		return first(must(worst > 0 && max(s.For, -s.For) == worst, "the most is %d", worst), must(s.At-s.Before == s.For, "not the "+
			"difference"),
			must(slices.ContainsFunc(program(o.after, s.Host), func(c world.Completion) bool {
				return c.Time == s.At &&
					c.WRID == s.WR
			}), "no such completion"))
	}
	return must(worst == 0, "a completion is %d later or earlier", worst)
}

// otherCompletions judges the same where they are others.
func otherCompletions(o *oracle, s *told.Sentence) error {
	was, is := program(o.before, s.Host), program(o.after, s.Host)
	find := func(list []world.Completion, wr uint64) int {
		return slices.IndexFunc(list, func(c world.Completion) bool { return c.WRID == wr })
	}
	a, b := find(was, s.WR), find(is, s.WR)
	switch s.Rule {
	case "fewer":
		return must(len(is) < len(was) && s.Count == len(is) && s.Without == len(was) && a >= 0 && (b < 0 || len(is) < len(was)), "they "+
			"are %d and %d", len(is), len(was))
	case "more":
		return must(len(is) > len(was) && s.Count == len(is) && s.Without == len(was) && b >= 0, "they are %d and %d", len(is), len(was))
	case "other order":
		return must(a >= 0 && b >= 0 && find(was, s.Other) == b, "wr %d is at %d, and was at %d", s.WR, b, a)
	}
	return first(must(a >= 0 && b >= 0, "no such completions"), must(is[b].Time == s.At &&
		(is[b].Status != was[a].Status) == (s.Rule == "other status"), "%v and %v", is[b], was[a]),
		must(strings.Contains(s.Text, is[b].Status) || s.Rule == "other length", "it does not say %s", is[b].Status))
}

// memory judges what is said of bytes at the end, of all hosts.
func (o *oracle) memory(s *told.Sentence) error {
	k := 0
	for h, host := range o.after.Hosts {
		n := 0
		for _, r := range host.Regions {
			was, is := o.before.Memory(host.Name, r.Name), o.after.Memory(host.Name, r.Name)
			for i := range is {
				if was[i] != is[i] {
					n++
				}
			}
		}
		if n == 0 {
			continue
		}
		if k == len(s.Memory) || s.Memory[k].Host != h || s.Memory[k].Bytes != n || !strings.Contains(s.Text, "But at the end") ||
			!strings.Contains(s.Text, host.Name+"'s memory") {
			return fmt.Errorf("%d bytes of %s are others: %+v", n, host.Name, s.Memory)
		}
		x := s.Memory[k]
		if x.Is != "" && (!shows(o.after.Memory(host.Name, x.Region)[x.At:], x.Is) ||
			!shows(o.before.Memory(host.Name, x.Region)[x.At:], x.Was) || x.Is == x.Was) {
			return fmt.Errorf("%+v is not so", x)
		}
		k++
	}
	return must(k == len(s.Memory), "%+v: no byte is another", s.Memory)
}

// shows says whether memory begins with what a sentence says: a number of 8 bytes, or bytes.
func shows(memory []byte, text string) bool {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return binary.NativeEndian.Uint64(memory) == n
	}
	want, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if quoted, wrong := strconv.Unquote(text); wrong == nil {
		want, err = []byte(quoted), nil
	}
	return err == nil && bytes.HasPrefix(memory, want)
}

// application adds the memory to what is judged of completions.
func application(is truth) truth {
	return func(o *oracle, s *told.Sentence) error {
		return first(is(o, s), o.memory(s))
	}
}

// truths are what must hold of a sentence, by its rule.
var truths = func() map[string]truth {
	all := map[string]truth{
		"cost": costTruth, "cost until quiet": costTruth,
		"nothing": application(sameCompletions), "later": application(sameCompletions),
		"fewer": application(otherCompletions), "more": application(otherCompletions),
		"other order": application(otherCompletions), "other status": application(otherCompletions),
		"other length": application(otherCompletions),
	}
	maps.Copy(all, changeTruths)
	maps.Copy(all, causeTruths)
	maps.Copy(all, reasonTruths)
	return all
}()

// changeTruths are about what was done to the packet.
var changeTruths = map[string]truth{
	"lost": fateTruth(world.Drop, world.Lost), "no room": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return must(p.Fate == world.Lost || p.Change == world.Duplicate && p.Again == 0, "%v", p.Fate)
	},
	"late": func(o *oracle, s *told.Sentence) error {
		p, over := o.packet(s.Packets[0]), 0
		for _, x := range o.after.Packets[s.Packets[0]:] {
			if x.From == p.From && x.To == p.To && x.QPN == p.QPN && x.Arrived > 0 && x.Arrived < p.Arrived {
				over++
			}
		}
		return must(p.Arrived == s.At && over == s.Count && s.For == 50_000 && p.Change == world.Delay, "%d overtake it", over)
	},
	"twice": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return must(p.Arrived == s.At && p.Again == s.Before && p.Fate == world.Duplicated, "%v", p.Fate)
	},
	"marked": func(o *oracle, s *told.Sentence) error {
		return must(ecn(o.packet(s.Packets[0])) == 3, "it has no mark")
	},
	"no mark": func(o *oracle, s *told.Sentence) error {
		return must(ecn(o.packet(s.Packets[0])) == 0, "it could have a mark")
	},
	"corrupt": fateTruth(world.Corrupt, world.Corrupted),
	"corrupt, dropped": func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		return first(must(p.Fate == world.Corrupted, "%v", p.Fate), o.entry(o.after, "dropped", p.To, s.At, func(e *world.Entry) bool {
			return e.Packet == p.N && (wire.DropReason(e.Record.Value) == wire.DropICRC) == (s.Section == "3.1")
		}))
	},
	"delivered": func(o *oracle, s *told.Sentence) error {
		return must(o.packet(s.Packets[0]).Arrived == s.At, "it arrives at %d", o.packet(s.Packets[0]).Arrived)
	},
	"saved": func(o *oracle, s *told.Sentence) error {
		return must(o.packet(s.Packets[0]).Arrived == s.At && o.before.Packets[s.Packets[0]-1].Fate == world.Lost, "it was not lost")
	},
	"nobody": func(o *oracle, s *told.Sentence) error { return must(o.packet(s.Packets[0]).To < 0, "somebody has it") },
	"under way": func(o *oracle, s *told.Sentence) error {
		return must(o.packet(s.Packets[0]).Fate == world.UnderWay, "it is not")
	},
}

// fateTruth: a packet has been changed so, and that became of it. Of the lesson's own packets only
// one has another number, which the sentence names.
func fateTruth(action world.Action, fate world.Fate) truth {
	return func(o *oracle, s *told.Sentence) error {
		p := o.packet(s.Packets[0])
		if len(s.Packets) > 1 {
			own := o.packet(s.Packets[1])
			if own.Change == "" || own.N == o.change.Packet || o.before.Packets[s.Without-1].Change != own.Change {
				return fmt.Errorf("the lesson does nothing to packet %d", own.N)
			}
		}
		return must(p.Change == action && p.Fate == fate && p.N == o.change.Packet && s.PSN == p.PSN, "%v, %v", p.Change, p.Fate)
	}
}
