package qptest

// What a query of a queue pair tells, in every state.

import (
	"reflect"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestQueryEverywhere: in every state a query tells what was set, and nothing else.
func TestQueryEverywhere(t *testing.T) {
	for _, typ := range []qp.QPType{qp.RC, qp.UC, qp.UD} {
		s := NewScript(t)
		q, _ := inState(s, typ, qp.StateReset)
		peer := s.AddNode(NodeConfig{Raw: true})
		// a datagram's path MTU is the port's, and Cap stays
		want := q.Node.Engine.QueryQP(q.QP.QP)
		set := qp.QPAttr{PathMTU: wire.MTU512, QKey: 0x1234, RQPSN: 0x123456, SQPSN: 0x654321, DestQPN: 0x777,
			AccessFlags: mr.RemoteRead | mr.RemoteWrite, Port: 1, MaxRdAtomic: 7, MaxDestRdAtomic: 9, MinRNRTimer: 11, Timeout: 12,
			RetryCnt: 5, RNRRetry: 6, SelectiveRepeat: true, FlowControl: true, RateLimit: 5000,
			AV: qp.AHAttr{DGID: peer.GID, TrafficClass: 0x68, HopLimit: 3, FlowLabel: 0xabcde, SL: 2}}
		// modify sets all that a transition takes, and looks at all.
		modify := func(to qp.QPState, notify bool) {
			t.Helper()
			row := lookup(q.State(), to)
			column := map[qp.QPType]int{qp.UC: 1, qp.UD: 2}[typ]
			mask := row.req[column] | row.opt[column] | qp.AttrState
			set.State, set.CurState, set.EnSQDAsyncNotify = to, q.State(), notify
			if err := q.Modify(set, mask); err != nil {
				t.Fatalf("%v to %v: %v", typ, to, err)
			}
			expect(&want, &set, mask)
			want.State, want.CurState = to, to
			if got := q.Node.Engine.QueryQP(q.QP.QP); got != want {
				t.Errorf("%v in %v: queried\n%+v, want\n%+v", typ, to, got, want)
			}
		}
		modify(qp.StateInit, false)
		modify(qp.StateRTR, false)
		modify(qp.StateRTS, false)
		set.AccessFlags, set.MinRNRTimer, set.RateLimit, set.QKey = mr.RemoteAtomic, 31, 0, 0x99
		modify(qp.StateRTS, false)
		modify(qp.StateSQD, true)
		set.AV.HopLimit, set.Timeout, set.RetryCnt, set.RNRRetry, set.MaxRdAtomic, set.MaxDestRdAtomic = 0, 0, 0, 7, 128, 0
		modify(qp.StateSQD, true)
		modify(qp.StateErr, true)
		want = qp.QPAttr{Cap: want.Cap} // RESET forgets it
		if typ == qp.UD {
			want.PathMTU = wire.MTU4096
		}
		modify(qp.StateReset, false)
	}
}

// expect notes in want what a modify with this mask sets.
func expect(want, set *qp.QPAttr, mask qp.AttrMask) {
	fields := map[qp.AttrMask]string{qp.AttrEnSQDAsyncNotify: "EnSQDAsyncNotify", qp.AttrAccessFlags: "AccessFlags",
		qp.AttrPKeyIndex: "PKeyIndex", qp.AttrPort: "Port", qp.AttrQKey: "QKey", qp.AttrAV: "AV", qp.AttrPathMTU: "PathMTU",
		qp.AttrTimeout: "Timeout", qp.AttrRetryCnt: "RetryCnt", qp.AttrRNRRetry: "RNRRetry", qp.AttrRQPSN: "RQPSN",
		qp.AttrMaxRdAtomic: "MaxRdAtomic", qp.AttrMinRNRTimer: "MinRNRTimer", qp.AttrSQPSN: "SQPSN",
		qp.AttrMaxDestRdAtomic: "MaxDestRdAtomic", qp.AttrDestQPN: "DestQPN", qp.AttrSelectiveRepeat: "SelectiveRepeat",
		qp.AttrFlowControl: "FlowControl", qp.AttrRateLimit: "RateLimit"}
	for ; mask != 0; mask &= mask - 1 {
		if name, ok := fields[mask&-mask]; ok {
			reflect.ValueOf(want).Elem().FieldByName(name).Set(reflect.ValueOf(set).Elem().FieldByName(name))
		}
	}
}
