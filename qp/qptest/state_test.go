package qptest

// The state machine: every transition with every attribute, as section 5.1 has it, and what each
// state accepts (5.2, 5.3).

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// row is a line of the table of section 5.1: attributes required and allowed, for RC, UC and UD.
type stateRow struct {
	from, to qp.QPState
	req, opt [3]qp.AttrMask
}

const (
	pkPortAccess = qp.AttrPKeyIndex | qp.AttrPort | qp.AttrAccessFlags
	pkPortQKey   = qp.AttrPKeyIndex | qp.AttrPort | qp.AttrQKey
	rtrBoth      = qp.AttrAV | qp.AttrPathMTU | qp.AttrDestQPN | qp.AttrRQPSN
	liveBoth     = qp.AttrCurState | qp.AttrAccessFlags | qp.AttrRateLimit
)

// stateTable is section 5.1 without ALT_PATH and PATH_MIG_STATE, which RoCE does not have, and
// with the rate limit of this stack.
var stateTable = []stateRow{
	{qp.StateReset, qp.StateReset, [3]qp.AttrMask{}, [3]qp.AttrMask{}},
	{qp.StateReset, qp.StateInit, [3]qp.AttrMask{pkPortAccess, pkPortAccess, pkPortQKey}, [3]qp.AttrMask{}},
	{qp.StateInit, qp.StateInit, [3]qp.AttrMask{}, [3]qp.AttrMask{pkPortAccess, pkPortAccess, pkPortQKey}},
	{qp.StateInit, qp.StateRTR, [3]qp.AttrMask{rtrBoth | qp.AttrMaxDestRdAtomic | qp.AttrMinRNRTimer, rtrBoth, 0},
		[3]qp.AttrMask{qp.AttrAccessFlags | qp.AttrPKeyIndex | qp.AttrSelectiveRepeat, qp.AttrAccessFlags | qp.AttrPKeyIndex,
			qp.AttrPKeyIndex | qp.AttrQKey}},
	{qp.StateRTR, qp.StateRTS, [3]qp.AttrMask{qp.AttrSQPSN | qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrMaxRdAtomic,
		qp.AttrSQPSN, qp.AttrSQPSN},
		[3]qp.AttrMask{liveBoth | qp.AttrMinRNRTimer, liveBoth, qp.AttrCurState | qp.AttrQKey | qp.AttrRateLimit}},
	{qp.StateRTS, qp.StateRTS, [3]qp.AttrMask{}, [3]qp.AttrMask{liveBoth | qp.AttrMinRNRTimer, liveBoth,
		qp.AttrCurState | qp.AttrQKey | qp.AttrRateLimit}},
	{qp.StateRTS, qp.StateSQD, [3]qp.AttrMask{}, [3]qp.AttrMask{qp.AttrEnSQDAsyncNotify, qp.AttrEnSQDAsyncNotify, qp.AttrEnSQDAsyncNotify}},
	{qp.StateSQD, qp.StateRTS, [3]qp.AttrMask{}, [3]qp.AttrMask{liveBoth | qp.AttrMinRNRTimer, liveBoth,
		qp.AttrCurState | qp.AttrQKey | qp.AttrRateLimit}},
	{qp.StateSQD, qp.StateSQD, [3]qp.AttrMask{},
		[3]qp.AttrMask{qp.AttrPort | qp.AttrAV | qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrMaxRdAtomic |
			qp.AttrMaxDestRdAtomic | qp.AttrAccessFlags | qp.AttrPKeyIndex | qp.AttrMinRNRTimer | qp.AttrRateLimit,
			qp.AttrAV | qp.AttrAccessFlags | qp.AttrPKeyIndex | qp.AttrRateLimit, qp.AttrPKeyIndex | qp.AttrQKey | qp.AttrRateLimit}},
	{qp.StateSQE, qp.StateRTS, [3]qp.AttrMask{}, [3]qp.AttrMask{0, liveBoth, qp.AttrCurState | qp.AttrQKey | qp.AttrRateLimit}},
}

// lookup returns the row of a transition; the ones to RESET and ERR are the same from everywhere.
func lookup(from, to qp.QPState) *stateRow {
	for i := range stateTable {
		if r := &stateTable[i]; r.from == from && r.to == to {
			return r
		}
	}
	if from != qp.StateReset && (to == qp.StateReset || to == qp.StateErr) {
		return &stateRow{from: from, to: to}
	}
	return nil
}

// allAttrs are the attributes that a modify can name, but for the state.
var allAttrs = []qp.AttrMask{qp.AttrCurState, qp.AttrEnSQDAsyncNotify, qp.AttrAccessFlags, qp.AttrPKeyIndex, qp.AttrPort, qp.AttrQKey,
	qp.AttrAV, qp.AttrPathMTU, qp.AttrTimeout, qp.AttrRetryCnt, qp.AttrRNRRetry, qp.AttrRQPSN, qp.AttrMaxRdAtomic, qp.AttrAltPath,
	qp.AttrMinRNRTimer, qp.AttrSQPSN, qp.AttrMaxDestRdAtomic, qp.AttrPathMigState, qp.AttrCap, qp.AttrDestQPN, qp.AttrSelectiveRepeat,
	qp.AttrRateLimit}

// TestTransitions tries every from, to, type: with what is required, without each required
// attribute, with each other one.
func TestTransitions(t *testing.T) {
	tried := 0
	for column, typ := range []qp.QPType{qp.RC, qp.UC, qp.UD} {
		for from := qp.StateReset; from <= qp.StateErr; from++ {
			for to := qp.StateReset; to <= qp.StateErr+1; to++ {
				if from == qp.StateSQE && typ == qp.RC {
					continue
				}
				try := func(mask qp.AttrMask, want bool, what string) {
					tried++
					s := NewScript(t)
					q, attr := inState(s, typ, from)
					attr.State, attr.CurState = to, from
					err := q.Modify(attr, mask|qp.AttrState)
					name := fmt.Sprintf("%v %v → %v %s", typ, from, to, what)
					switch {
					case want && err != nil:
						t.Errorf("%s: %v", name, err)
					case !want && !errors.Is(err, qp.ErrInvalid):
						t.Errorf("%s: %v, want ErrInvalid", name, err)
					case want && q.State() != to, !want && q.State() != from:
						t.Errorf("%s: it is in %v now", name, q.State())
					}
				}
				r := lookup(from, to)
				if r == nil {
					try(0, false, "which does not exist")
					try(pkPortAccess, false, "which does not exist")
					continue
				}
				req, opt := r.req[column], r.opt[column]
				try(req, true, "with what it needs")
				try(req|opt, true, "with all it may have")
				for _, a := range allAttrs {
					switch {
					case req&a != 0:
						try(req&^a, false, "without "+a.String())
					case opt&a != 0:
						try(req|a, true, "with "+a.String())
					default:
						try(req|a, false, "with "+a.String())
					}
				}
			}
		}
	}
	t.Logf("%d transitions tried", tried)
}

// inState returns a queue pair in a state, and attributes whose values are all legal.
func inState(s *Script, typ qp.QPType, state qp.QPState) (*End, qp.QPAttr) {
	a := s.newEnd(NodeConfig{}, QPConfig{Type: typ, DontConnect: true})
	peer := s.AddNode(NodeConfig{Raw: true})
	a.WalkTo(min(state, qp.StateRTS), peer.GID, 0x777, 0)
	attr := a.attr(peer.GID, 0x777, 0)
	switch state {
	case qp.StateSQD, qp.StateErr:
		if err := a.Modify(qp.QPAttr{State: state}, qp.AttrState); err != nil {
			s.T.Fatalf("%v", err)
		}
	case qp.StateSQE:
		wr := qp.SendWR{Opcode: qp.WRSend, SGL: []qp.SGE{{Addr: 1, Length: 1, LKey: 1}}}
		if typ == qp.UD {
			wr.AH = a.handle(peer.GID, qp.AHAttr{})
		}
		s.Post(a, wr)
	}
	if a.State() != state {
		s.T.Fatalf("%v is in %v, should be in %v", typ, a.State(), state)
	}
	return a, attr
}

// TestAttributeValues: what is out of range is refused, and nothing of the call is done.
func TestAttributeValues(t *testing.T) {
	for name, c := range map[string]struct {
		state  qp.QPState // to be in
		to     qp.QPState
		change func(a *qp.QPAttr)
	}{
		"pkey_index":         {qp.StateReset, qp.StateInit, func(a *qp.QPAttr) { a.PKeyIndex = 1 }},
		"port":               {qp.StateReset, qp.StateInit, func(a *qp.QPAttr) { a.Port = 2 }},
		"port 0":             {qp.StateReset, qp.StateInit, func(a *qp.QPAttr) { a.Port = 0 }},
		"access":             {qp.StateReset, qp.StateInit, func(a *qp.QPAttr) { a.AccessFlags = 1 << 17 }},
		"path_mtu 0":         {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.PathMTU = 0 }},
		"path_mtu 6":         {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.PathMTU = 6 }},
		"dest_qp_num":        {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.DestQPN = 1 << 24 }},
		"max_dest_rd_atomic": {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.MaxDestRdAtomic = 129 }},
		"min_rnr_timer":      {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.MinRNRTimer = 32 }},
		"no destination":     {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.AV.DGID = wire.GID{} }},
		"sgid_index":         {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.AV.SGIDIndex = 1 }},
		"IPv6 destination":   {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.AV.DGID = wire.GID{0: 0xfd, 15: 1} }},
		"multicast":          {qp.StateInit, qp.StateRTR, func(a *qp.QPAttr) { a.AV.DGID[12] = 224 }},
		"timeout":            {qp.StateRTR, qp.StateRTS, func(a *qp.QPAttr) { a.Timeout = 32 }},
		"retry_cnt":          {qp.StateRTR, qp.StateRTS, func(a *qp.QPAttr) { a.RetryCnt = 8 }},
		"rnr_retry":          {qp.StateRTR, qp.StateRTS, func(a *qp.QPAttr) { a.RNRRetry = 8 }},
		"max_rd_atomic":      {qp.StateRTR, qp.StateRTS, func(a *qp.QPAttr) { a.MaxRdAtomic = 129 }},
	} {
		s := NewScript(t)
		q, attr := inState(s, qp.RC, c.state)
		before := q.Node.Engine.QueryQP(q.QP.QP)
		attr.State = c.to
		c.change(&attr)
		if err := q.Modify(attr, lookup(c.state, c.to).req[0]|qp.AttrState); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if after := q.Node.Engine.QueryQP(q.QP.QP); after != before {
			t.Errorf("%s: attributes have changed:\n%+v\n%+v", name, before, after)
		}
	}
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.MaxMTU = wire.MTU1024
	small := s.newEnd(nc, QPConfig{DontConnect: true})
	small.WalkTo(qp.StateInit, small.Node.GID, 1, 0)
	attr := small.attr(small.Node.GID, 1, 0)
	attr.State, attr.PathMTU = qp.StateRTR, wire.MTU2048
	if err := small.Modify(attr, lookup(qp.StateInit, qp.StateRTR).req[0]|qp.AttrState); !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("path_mtu above the port's: %v", err)
	}
}

// TestQuery returns what was set, in the states in which it means something.
func TestQuery(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{PSN: 77, Timeout: 9, RetryCnt: 3, RNRRetry: 5, MinRNRTimer: 12, RdAtomic: 4, DestRdAtomic: 6, MTU: wire.MTU2048,
		TrafficClass: 0x20}, QPConfig{PSN: 99})
	got := a.Node.Engine.QueryQP(a.QP.QP)
	if got.State != qp.StateRTS || got.PathMTU != wire.MTU2048 || got.SQPSN != 77 || got.RQPSN != 99 || got.DestQPN != b.QPN() ||
		got.Timeout != 9 || got.RetryCnt != 3 || got.RNRRetry != 5 || got.MinRNRTimer != 12 || got.MaxRdAtomic != 4 ||
		got.MaxDestRdAtomic != 6 || got.AV.DGID != b.Node.GID || got.AV.TrafficClass != 0x20 || got.AccessFlags != a.Cfg.Access ||
		got.Port != 1 || got.SQDraining || got.Cap.MaxSendWR < a.Cfg.Cap.MaxSendWR {
		t.Errorf("attributes %+v", got)
	}
	if err := a.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	if got := a.Node.Engine.QueryQP(a.QP.QP); got.State != qp.StateReset || got.SQPSN != 0 || got.RQPSN != 0 || got.DestQPN != 0 {
		t.Errorf("after RESET %+v", got)
	}
}

// TestPSNMasked: PSNs are cut to 24 bits, as the kernel does.
func TestPSNMasked(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{PSN: 0x7_000010}, QPConfig{})
	s.Post(a, a.Write(0, 1, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCWriteOnly, 0x10))
	s.Expect(b, Ack(0x10))
}

// TestPosting: what each state takes (section 5.2).
func TestPosting(t *testing.T) {
	for state := qp.StateReset; state <= qp.StateErr; state++ {
		for _, typ := range []qp.QPType{qp.RC, qp.UC} {
			if state == qp.StateSQE && typ == qp.RC {
				continue
			}
			s := NewScript(t)
			a, _ := inState(s, typ, state)
			a.SendWCs = nil
			_, err := a.PostRecv()
			if (err == nil) != (state != qp.StateReset) || err != nil && !errors.Is(err, qp.ErrState) {
				t.Errorf("%v %v: PostRecv: %v", typ, state, err)
			}
			_, err = a.PostSend(qp.SendWR{Opcode: qp.WRSend})
			if (err == nil) != (state >= qp.StateRTS) || err != nil && !errors.Is(err, qp.ErrState) {
				t.Errorf("%v %v: PostSend: %v", typ, state, err)
			}
			flushed := map[qp.QPState][2]int{qp.StateSQE: {1, 0}, qp.StateErr: {1, 1}}[state]
			if got := [2]int{count(a.SendWCs, qp.WCWRFlushErr), count(a.RecvWCs, qp.WCWRFlushErr)}; got != flushed {
				t.Errorf("%v %v: %v flushed, want %v", typ, state, got, flushed)
			}
			if sends := len(s.held) == 1; sends != (state == qp.StateRTS) {
				t.Errorf("%v %v: %d packets sent", typ, state, len(s.held))
			}
		}
	}
}

func count(wcs []qp.WC, status qp.WCStatus) (n int) {
	for i := range wcs {
		if wcs[i].Status == status {
			n++
		}
	}
	return n
}

// TestFlushOrder: ERR flushes sends and receives in posting order, signaled or not; ones posted
// later too.
func TestFlushOrder(t *testing.T) {
	s := NewScript(t)
	a, _ := s.Against(QPConfig{RdAtomic: 2, SharedCQ: true}, 0)
	var sends, recvs []uint64
	for i := range 6 {
		recvs = append(recvs, s.Receive(a, 10))
		wr := a.Send(0, 3000)
		if i%2 == 1 {
			wr = With(a.Read(0, 10, a.Remote, 0), Unsignaled)
		}
		sends = append(sends, s.Post(a, wr))
	}
	s.Clear()
	if err := a.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	sends = append(sends, s.Post(a, qp.SendWR{Opcode: qp.WRSend}))
	recvs = append(recvs, s.Receive(a, 0))
	for _, id := range sends {
		s.Sent(a, id, qp.WCWRFlushErr)
	}
	for _, id := range recvs {
		s.Received(a, id, qp.WCWRFlushErr)
	}
	s.Quiet()
	s.Advance(1000 * Second)
	s.Quiet()
	s.NoCompletions(a)
}

// TestReset: what was outstanding is forgotten without completions, and the queue pair can be
// connected anew with other PSNs.
func TestReset(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{PSN: 100}, QPConfig{PSN: 200})
	s.Receive(a, 10)
	s.Post(a, a.Send(0, 10))
	s.Post(a, a.Read(0, 10, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCSendOnly, 100))
	for _, q := range []*End{a, b} {
		if err := q.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	s.Clear()
	s.Advance(Second)
	s.Quiet()
	s.NoCompletions(a, b)
	a.Cfg.PSN, b.Cfg.PSN = 5000, 6000
	s.Connect(a.QP, b.QP)
	id := s.Receive(b, 10)
	sent := s.Post(a, a.Send(0, 10))
	s.Expect(a, Pkt(wire.RCSendOnly, 5000))
	s.Expect(b, Ack(5000, MSN(1)))
	s.Sent(a, sent, qp.WCSuccess)
	s.Received(b, id, qp.WCSuccess)
	s.NoCompletions(a, b)
}

// TestDrain: in SQD what was started ends, the rest waits; SQ_DRAINED comes when asked for and when
// all is done; RTS goes on.
func TestDrain(t *testing.T) {
	for _, notify := range []bool{true, false} {
		s := NewScript(t)
		a := s.newEnd(NodeConfig{Engine: qp.Config{Window: 1}}, QPConfig{})
		b := s.newEnd(NodeConfig{}, QPConfig{})
		s.Connect(a.QP, b.QP)
		first := s.Post(a, a.Write(0, 2000, b.Remote, 0))
		second := s.Post(a, a.Write(0, 10, b.Remote, 0))
		a.Node.Events, b.Node.Events = nil, nil
		if err := a.Modify(qp.QPAttr{State: qp.StateSQD, EnSQDAsyncNotify: notify}, qp.AttrState|qp.AttrEnSQDAsyncNotify); err != nil {
			t.Fatal(err)
		}
		if attr := a.Node.Engine.QueryQP(a.QP.QP); !attr.SQDraining {
			t.Error("sq_draining should be set")
		}
		if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err == nil {
			t.Error("RTS was accepted while draining")
		}
		held := s.Post(a, a.Write(0, 10, b.Remote, 0))
		s.Expect(a, Pkt(wire.RCWriteFirst, 0))
		s.Expect(b, Ack(0))
		s.Expect(a, Pkt(wire.RCWriteLast, 1)) // started, so it goes to its end
		if len(a.Node.Events) > 0 {
			t.Errorf("event %v before the end", a.Node.Events[0].Type)
		}
		s.Expect(b, Ack(1))
		s.Sent(a, first, qp.WCSuccess)
		if notify {
			s.Event(a, qp.EventSQDrained)
		}
		if len(a.Node.Events) > 0 {
			t.Errorf("event %v", a.Node.Events[0].Type)
		}
		if attr := a.Node.Engine.QueryQP(a.QP.QP); attr.SQDraining {
			t.Error("sq_draining is still set")
		}
		s.Quiet()
		id := s.Receive(a, 10) // receiving goes on
		s.Post(b, b.Send(0, 10))
		s.Settle()
		s.Received(a, id, qp.WCSuccess)
		drain := qp.QPAttr{State: qp.StateSQD, Timeout: 9, AccessFlags: mr.RemoteRead}
		if err := a.Modify(drain, qp.AttrState|qp.AttrTimeout|qp.AttrAccessFlags); err != nil {
			t.Fatal(err)
		}
		if attr := a.Node.Engine.QueryQP(a.QP.QP); attr.SQDraining || len(a.Node.Events) > 0 {
			t.Errorf("it drains once more: sq_draining %v, events %v", attr.SQDraining, a.Node.Events)
		}
		if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
			t.Fatal(err)
		}
		s.Settle()
		s.Sent(a, second, qp.WCSuccess)
		s.Sent(a, held, qp.WCSuccess)
		if err := a.Modify(qp.QPAttr{State: qp.StateSQD}, qp.AttrState); err != nil || len(a.Node.Events) > 0 {
			t.Errorf("drained without having asked for the event: %v, events %v", err, a.Node.Events)
		}
	}
}

// TestDrainUnreliable: UC has drained when the started message has left.
func TestDrainUnreliable(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{Type: qp.UC})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	started, held := s.Post(a, a.Send(0, 3000)), s.Post(a, a.Send(0, 1))
	s.Drop(a, Pkt(wire.UCSendFirst, 0))
	s.Drop(a, Pkt(wire.UCSendMiddle, 1)) // the second post was a turn too
	if err := a.Modify(qp.QPAttr{State: qp.StateSQD, EnSQDAsyncNotify: true}, qp.AttrState|qp.AttrEnSQDAsyncNotify); err != nil {
		t.Fatal(err)
	}
	s.Advance(Millisecond)
	s.Drop(a, Pkt(wire.UCSendLast, 2))
	s.Quiet()
	s.Sent(a, started, qp.WCSuccess)
	s.Event(a, qp.EventSQDrained)
	if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	s.Sent(a, held, qp.WCSuccess)
}

// TestDrainFails: in SQE, where a request that fails while draining takes a UC queue pair, nothing
// drains any more.
func TestDrainFails(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{Type: qp.UC})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	id := s.Post(a, a.Send(0, 3000))
	s.Drop(a, Pkt(wire.UCSendFirst, 0))
	if err := a.Modify(qp.QPAttr{State: qp.StateSQD}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	s.close(a.Local)
	s.Advance(Millisecond)
	s.Sent(a, id, qp.WCLocProtErr)
	s.InState(a, qp.StateSQE)
	if attr := a.Node.Engine.QueryQP(a.QP.QP); attr.SQDraining {
		t.Error("sq_draining is still set")
	}
}

// TestEndMidway: what a queue pair still had to send is not sent after ERR, RESET or its end, and
// no deadline of it stays.
func TestEndMidway(t *testing.T) {
	for _, end := range []string{"ERR", "RESET", "destroy"} {
		s := NewScript(t)
		a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{})
		p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
		s.Post(a, a.Write(0, 10_000, a.Remote, 0))
		p.Inject(a.read(0, 0, 10_000))
		s.Advance(3 * Microsecond)
		s.Clear()
		e := a.Node.Engine
		if err := a.Node.Control(func() error {
			switch end {
			case "ERR":
				return e.ModifyQP(s.Now, a.QP.QP, &qp.QPAttr{State: qp.StateErr}, qp.AttrState)
			case "RESET":
				return e.ModifyQP(s.Now, a.QP.QP, &qp.QPAttr{State: qp.StateReset}, qp.AttrState)
			}
			return e.DestroyQP(a.QP.QP)
		}); err != nil {
			t.Fatal(err)
		}
		s.Advance(Microsecond)
		s.Quiet()
		if at := e.PollTimeout(); at != qp.Never && end != "ERR" {
			t.Errorf("%s: a deadline stays", end)
		}
		s.Advance(10 * Second)
		s.Quiet()
		if at := e.PollTimeout(); at != qp.Never {
			t.Errorf("%s: a deadline stays for ever", end)
		}
	}
}

// TestDestroy: no completions afterwards, its number is unknown, what depends on it is free again.
func TestDestroy(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	s.Post(a, a.Send(0, 10))
	s.Receive(a, 10)
	s.Clear()
	e := a.Node.Engine
	if err := e.DestroyCQ(a.SendCQ()); !errors.Is(err, qp.ErrBusy) {
		t.Errorf("destroying a queue in use: %v", err)
	}
	if err := a.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := a.Destroy(); err == nil {
		t.Error("destroyed twice")
	}
	p.Inject(a.write(0, 0, []byte{1}))
	s.Advance(Second)
	s.Quiet()
	s.NoCompletions(a)
	if st := e.Stats(); st.Drops[wire.DropUnknownQPN] != 1 {
		t.Errorf("dropped %v", drops(&st))
	}
	if err := e.DestroyCQ(a.SendCQ()); err != nil {
		t.Errorf("destroying a free queue: %v", err)
	}
}
