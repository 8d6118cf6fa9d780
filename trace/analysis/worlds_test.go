package analysis

// What the analysis says of simulated worlds, against what happened there, as the engines' records
// and counters know it.
//
// Stages of a world: play it, with a capture and records → analyse the capture → NAKs, repeated
// packets and messages, counted by both → each time that a sender went back: did it, why, and did
// the analysis see it?

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

var worlds = flag.Int("worlds", allWorlds, "how many worlds TestWorlds plays")

// allWorlds have more than 1,000 flows.
const allWorlds = 400

// tally is what all worlds come to.
type tally struct {
	packets, repeated, unseen, messages, flows, unfinished, unpaired int
	retries, guesses, misled, right, invented, missed                int // going back
	wrong                                                            map[string]int
	table                                                            truth
}

func TestWorlds(t *testing.T) {
	n := *worlds
	if testing.Short() {
		n = min(n, 60)
	}
	sum := tally{wrong: map[string]int{}}
	for seed := range n {
		s := newStudy(t, qptest.NewPlan(uint64(seed+1)), &sum)
		s.play()
		s.counters()
		s.messages()
		s.causes()
	}
	wrong := 0
	for _, k := range sum.wrong {
		wrong += k
	}
	t.Logf("%d packets, %d of them again (%d unnoticed); %d messages of %d flows, of which %d were not finished; %d flows without "+
		"their other way", sum.packets, sum.repeated, sum.unseen, sum.messages, sum.flows, sum.unfinished, sum.unpaired)
	t.Logf("senders went back %d times: the cause is right %d times, a guess %d times, unknowable %d times, wrong %d times: %v",
		sum.retries, sum.right, sum.guesses, sum.misled, wrong, sum.wrong)
	t.Logf("%d times the sender had only gone on; %d times nothing was said", sum.invented, sum.missed)
	require.Zero(t, wrong, "a cause that is not called a guess is wrong")
	require.Less(t, sum.invented*100, sum.retries, "more than 1 of 100 is invented")
	require.Less(t, sum.missed*33, sum.retries, "more than 3 of 100 are missed")
	require.Less(t, sum.guesses*4, sum.retries, "too much is a guess")
	require.LessOrEqual(t, sum.unseen*1000, sum.repeated)
	require.Less(t, sum.unfinished*25, sum.flows)
	require.Less(t, sum.unpaired*50, sum.flows)
	if n == allWorlds {
		require.Greater(t, sum.flows, 1000)
		sum.table.check(t, "simulated", sum.flows)
	}
}

// study is one world.
type study struct {
	t       *testing.T
	plan    *qptest.Plan
	w       *qptest.World
	a       *Analysis
	found   []found
	reasons map[int]string // of packets, by number: why they were sent again
	again   map[int]bool   // packets that were sent before
	said    map[int]int    // at a packet: responses that had been sent to its sender's queue pair
	told    map[uint32]int // the same, so far, by queue pair
	unheard map[int]bool   // some of them had not arrived
	fresh   map[int]bool   // the sender went back to this packet, and did not go on to it
	sum     *tally
}

func newStudy(t *testing.T, plan *qptest.Plan, sum *tally) *study {
	return &study{t: t, plan: plan, a: New(), reasons: map[int]string{}, again: map[int]bool{}, said: map[int]int{},
		unheard: map[int]bool{}, fresh: map[int]bool{}, told: map[uint32]int{}, sum: sum}
}

// found is what the analysis has said of a packet.
type found struct {
	number int
	text   string
}

func (s *study) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("world %d: %s", s.plan.Seed, fmt.Sprintf(format, args...))
}

// play plays the world and analyses its capture. It has no neighbour: that one makes its packets by
// hand, and no record says why.
func (s *study) play() {
	s.plan.Neighbours = nil
	s.w = qptest.NewWorld(s.plan.Seed)
	s.w.Capture, s.w.Records = &qptest.Capture{}, 1<<16
	require.NoError(s.t, s.plan.PlayIn(s.w))
	if len(s.w.Capture.Bytes()) == 0 { // nobody sent anything
		return
	}
	src, err := trace.NewSource(bytes.NewReader(s.w.Capture.Bytes()))
	require.NoError(s.t, err)
	sent := map[string][]int{} // numbers of packets, by node
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(s.t, err)
		sent[p.Name] = append(sent[p.Name], p.Number)
		s.take(p)
	}
	for _, n := range s.w.Nodes {
		s.because(n, sent[n.Name])
	}
}

// take analyses a packet.
func (s *study) take(p *trace.Packet) {
	s.sum.packets++
	before := s.repeated()
	r := s.a.Add(p)
	s.responses(p)
	s.again[p.Number] = s.repeated() > before
	if r.Finding != nil && strings.Contains(r.Finding.Text, "is sent again") {
		s.found = append(s.found, found{p.Number, r.Finding.Text + "; seen: " + r.Finding.Reasons()})
	}
}

// responses counts what was said to each queue pair.
func (s *study) responses(p *trace.Packet) {
	if p.Wire.Op.Has(wire.OpResponse) {
		s.told[p.Wire.BTH.DestQP()]++
	}
	for _, f := range s.a.Flows {
		if src, dst := p.GIDs(); f.Src == src && f.Dst == dst && f.DestQP == p.Wire.BTH.DestQP() && f.Peer != nil {
			s.said[p.Number] = s.told[f.Peer.DestQP]
		}
	}
}

// repeated is how many packets the analysis has seen again.
func (s *study) repeated() (n uint64) {
	for _, f := range s.a.Flows {
		n += f.Requests.Repeated
	}
	return n
}

// because finds out from a node's records why it sent packets again. numbers are those of the
// packets that it sent.
func (s *study) because(n *qptest.Node, numbers []int) {
	records, next := n.Recorder.Append(nil, 0)
	require.EqualValues(s.t, len(records), next, "not all records were kept")
	s.explain(records, s.local(n.GIDs), numbers)
}

// explain does so from an engine's records. local says which of its queue pairs sends to which.
func (s *study) explain(records []qp.Record, local map[uint32]uint32, numbers []int) {
	why := map[uint32]*reason{}
	for _, r := range records {
		x := why[r.QPN]
		if x == nil {
			x = &reason{}
			why[r.QPN] = x
		}
		switch r.Kind {
		case qp.RecordTimer:
			x.timer, x.ticked = r.At, true
		case qp.RecordRetry:
			if x.decide("NAK", r.PSN); x.timer == r.At {
				x.what = "silence"
			}
			if x.spoken == r.At { // both at once
				x.what += " or NAK"
			}
		case qp.RecordReceived:
			if wire.Opcode(r.Op).Info().Has(wire.OpResponse) {
				x.heard++
				x.spoken = r.At
			}
		case qp.RecordWait:
			x.decide("RNR", r.PSN)
		case qp.RecordGap:
			x.decide("report", r.PSN)
		case qp.RecordSent:
			if len(numbers) == 0 {
				return
			}
			if q := why[local[r.QPN]]; q != nil && s.again[numbers[0]] {
				what, fresh := q.repeats(r.PSN)
				if s.reasons[numbers[0]] = what; s.said[numbers[0]] > q.heard {
					s.unheard[numbers[0]] = true
				}
				if fresh {
					s.fresh[numbers[0]] = true
				}
			}
			if q := why[local[r.QPN]]; q != nil && !s.again[numbers[0]] && wire.Opcode(r.Op).Info().Has(wire.OpRequest) {
				q.next = r.PSN.Next()
			}
			numbers = numbers[1:]
		}
	}
}

// reason is why an engine sends again.
type reason struct {
	what  string
	timer qp.Time // when a deadline came
	heard int     // responses that have arrived
	acted bool    // something was sent again since

	spoken qp.Time  // when a response came
	ticked bool     // a deadline came since something was sent again
	at     wire.PSN // of the packet that is to be sent again next
	next   wire.PSN // of the next packet that was not sent before
	end    wire.PSN // the same when it was decided to go back
}

// decide notes that the engine goes back, to psn.
func (x *reason) decide(what string, psn wire.PSN) {
	x.what, x.at, x.acted, x.end = what, psn, false, x.next
}

// repeats takes a packet that is sent again. It says why that is, and whether it is the first one
// for this reason. A packet out of turn, for no new reason, behind a deadline: that is a probe. A
// deadline alone says nothing, as those of the rate come too.
func (x *reason) repeats(psn wire.PSN) (what string, fresh bool) {
	ticked := x.ticked
	x.ticked = false
	if ticked && (x.what == "" || psn.Sub(x.end) >= 0 || x.acted && psn != x.at) {
		return "silence", true
	}
	fresh, x.acted, x.at = !x.acted, true, psn.Next()
	return x.what, fresh
}

// local says which queue pair of a node sends to one of another.
func (s *study) local(gids []wire.GID) map[uint32]uint32 {
	all := map[uint32]uint32{}
	for _, f := range s.a.Flows {
		if f.Peer != nil && slices.Contains(gids, f.Src) {
			all[f.DestQP] = f.Peer.DestQP
		}
	}
	return all
}

// counters: what was sent again, NAKs and RNR NAKs are counted by the engines too.
func (s *study) counters() {
	var again, naks, rnr, ours, ourNAKs, ourRNR uint64
	for _, n := range s.w.Nodes {
		again += n.Engine.Stats().Retransmitted
		records, _ := n.Recorder.Append(nil, 0)
		for _, r := range records {
			if r.Kind == qp.RecordSent && wire.Opcode(r.Op).Operation() == wire.RCAcknowledge {
				switch v := wire.Syndrome(r.Value); {
				case v == wire.SynNAKSeq:
					naks++
				case v.Kind() == wire.KindRNR:
					rnr++
				}
			}
		}
	}
	for _, f := range s.a.Flows {
		ours, ourNAKs, ourRNR = ours+f.Requests.Repeated, ourNAKs+f.Responses.Sequence, ourRNR+f.Responses.RNR
		if f.Peer == nil && f.Service != wire.ServiceUD && f.Service != wire.ServiceUC {
			s.sum.unpaired++
		}
	}
	s.sum.repeated += int(again)
	s.sum.unseen += int(again - ours)
	if ours > again || ourNAKs != naks || ourRNR != rnr {
		s.fail("sent again %d, NAKs %d, RNR NAKs %d; they were %d, %d, %d", ours, ourNAKs, ourRNR, again, naks, rnr)
	}
}

// messages: what was asked for on a connection that has not failed is done. A long WRITE or READ
// may be several messages, so of these bytes are compared.
func (s *study) messages() {
	for _, n := range s.w.Nodes {
		records, _ := n.Recorder.Append(nil, 0)
		asked, failed := map[uint32]*[numKinds]uint64{}, map[uint32]bool{}
		for _, r := range records {
			switch {
			case r.Kind == qp.RecordState && qp.QPState(r.Op) != qp.StateInit && qp.QPState(r.Op) != qp.StateRTR &&
				qp.QPState(r.Op) != qp.StateRTS:
				failed[r.QPN] = true
			case r.Kind == qp.RecordRequest:
				if asked[r.QPN] == nil {
					asked[r.QPN] = new([numKinds]uint64)
				}
				if k, ok := kindOfRequest[qp.WROpcode(r.Op)]; ok && (k == Write || k == Read) {
					asked[r.QPN][k] += uint64(r.Length)
				} else if ok {
					asked[r.QPN][k]++
				}
			}
		}
		for dest, q := range s.local(n.GIDs) {
			f := s.flow(n, dest, q)
			if failed[q] || f == nil || asked[q] == nil {
				continue
			}
			done := f.Requests.Messages
			done[Write], done[Read] = f.Requests.Bytes[Write], f.Requests.Bytes[Read]
			for _, m := range f.Requests.Messages {
				s.sum.messages += int(m)
			}
			for i := range f.req.flight.len() { // whose acknowledgement nobody awaits
				if m := f.req.flight.at(i); m.kind == Write || m.kind == Read {
					done[m.kind] += m.bytes
				} else {
					done[m.kind]++
				}
			}
			s.sum.flows++
			short := done != *asked[q]
			for k, n := range done {
				if n > asked[q][k] {
					short = false
				}
			}
			if short { // destroyed before it was done, or what it did is not told
				s.sum.unfinished++
			} else if done != *asked[q] {
				s.fail("qp 0x%06x: done are %v, were asked for %v (%d broken, %d in flight)",
					q, done, *asked[q], f.Requests.Broken, f.req.flight.len())
			}
		}
	}
}

// flow is what a node's queue pair sends to another one.
func (s *study) flow(n *qptest.Node, dest, q uint32) *Flow {
	for _, f := range s.a.Flows {
		if slices.Contains(n.GIDs, f.Src) && f.DestQP == dest && f.Peer != nil && f.Peer.DestQP == q {
			return f
		}
	}
	return nil
}

var kindOfRequest = map[qp.WROpcode]Kind{qp.WRSend: Send, qp.WRSendWithImm: Send, qp.WRSendWithInv: Send, qp.WRWrite: Write,
	qp.WRWriteWithImm: Write, qp.WRRead: Read, qp.WRAtomicCmpAndSwp: Atomic, qp.WRAtomicFetchAndAdd: Atomic, qp.WRFlush: Flush,
	qp.WRAtomicWrite: AtomicWrite}

// causes: what is said of a retry without calling it a guess is so, but where the capture misleads:
// it has what the responder said, and the sender had not.
func (s *study) causes() {
	for _, x := range s.found {
		s.sum.retries++
		why, known := s.reasons[x.number]
		said, row := "", (*verdicts5)(nil)
		for c := range numCauses {
			if strings.Contains(x.text, "is sent again "+c.String()) {
				said, row = saidAs[c], &s.sum.table[c]
			}
		}
		if said == "" {
			s.fail("packet %d: %q names no cause", x.number, x.text)
		}
		fresh := s.fresh[x.number]
		delete(s.fresh, x.number)
		switch {
		case strings.Contains(x.text, Guess):
			s.sum.guesses++
			row.guess(known && tells(said, why) || said == "any" && s.unheard[x.number])
		case known && !fresh && !s.unheard[x.number] && !tells(said, why):
			s.sum.invented++
			row.invented++
		case tells(said, why), said == "any" && s.unheard[x.number]:
			s.sum.right++
			row.right++
		case !known || s.unheard[x.number] || said == "any":
			s.sum.misled++
			row.unknowable++
		default:
			row.wrong++
			s.sum.wrong[said+", but it was "+why]++
			s.t.Errorf("world %d, packet %d: %s; but it was %s", s.plan.Seed, x.number, x.text, why)
		}
	}
	s.sum.missed += len(s.fresh)
}

// tells says whether a cause is what happened. A report of selective repeat is a NAK too.
func tells(said, why string) bool {
	return strings.Contains(why, said) || said == "NAK" && why == "report"
}

// saidAs are the causes by the names of reasons.
var saidAs = [numCauses]string{
	AfterNAK:     "NAK",
	AfterRNR:     "RNR",
	AfterSilence: "silence",
	AfterGap:     "NAK",
	AfterReport:  "report",
	AfterLoss:    "any",
}
