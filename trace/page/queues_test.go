package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// TestQueues: requests are there from when the device takes them to the completion of a later one,
// and what a device tells late is put where it belongs.
func TestQueues(t *testing.T) {
	l := NewLive("", 0)
	did := func(node string, at int64, r qp.Record) { l.Did([]timeline.Entry{{Time: at, Node: node, Record: r}}) }
	did("A", 100, qp.Record{Kind: qp.RecordState, QPN: 3, Op: uint8(qp.StateRTS)})
	did("A", 110, qp.Record{Kind: qp.RecordRequest, QPN: 3, Value: 1, Length: 64, Op: uint8(qp.WRSend)})
	did("A", 120, qp.Record{Kind: qp.RecordRequest, QPN: 3, Value: 2, Length: 65, Op: uint8(qp.WRSend)})
	did("A", 130, qp.Record{Kind: qp.RecordCompletion, QPN: 3, Value: 9, Op: uint8(qp.WCRecv)})
	did("A", 140, qp.Record{Kind: qp.RecordCompletion, QPN: 3, Value: 2, Op: uint8(qp.WCSend)})
	did("B", 115, qp.Record{Kind: qp.RecordState, QPN: 4, Op: uint8(qp.StateErr)})
	did("B", 116, qp.Record{Kind: qp.RecordCompletion, QPN: 5, Value: 2}) // of another one
	p, _ := l.after(0)
	var queued []int
	for _, m := range p.Moments {
		require.Nil(t, m.Hosts[0].QPs[0].RQ) // records do not tell
		queued = append(queued, len(m.Hosts[0].QPs[0].SQ))
	}
	require.Equal(t, []int{0, 1, 1, 2, 0}, queued)
	require.Equal(t, []world.QPState{{QPN: 4, State: "ERR", SQ: []world.WorkRequest{}}}, p.Moments[2].Hosts[1].QPs)
	var texts []int64
	for _, e := range p.Entries {
		texts = append(texts, e.Time)
	}
	require.IsNonDecreasing(t, texts)

	l.Restart()
	did("A", 200, qp.Record{Kind: qp.RecordState, QPN: 7, Op: uint8(qp.StateInit)})
	p, _ = l.after(0)
	require.Len(t, p.Moments[len(p.Moments)-1].Hosts[0].QPs, 1)
}

// TestQueuesAreBounded, whatever a device tells.
func TestQueuesAreBounded(t *testing.T) {
	l := NewLive("", 10)
	for i := range 3 * maxChanges {
		l.Did([]timeline.Entry{{Time: int64(i), Node: "A", Record: qp.Record{Kind: qp.RecordRequest, QPN: 3, Value: uint64(i)}}})
	}
	p, _ := l.after(0)
	require.Len(t, p.Moments, maxChanges)
	require.Len(t, p.Moments[0].Hosts[0].QPs[0].SQ, maxRequests)
	require.Len(t, p.Entries, 10)
}

// TestBehindItsPacket: what a device did with a packet is drawn below it, although the packet's
// time was read later than the device's.
func TestBehindItsPacket(t *testing.T) {
	all := fill(t, &Window{Count: 20}).packets
	l := NewLive("", 0)
	p := all[len(all)-1]
	const late = 40
	start := int64(1_000_000)
	l.Add(trace.Record{Time: start, Link: trace.LinkRaw, Length: len(p.Bytes), Data: p.Bytes})
	l.Add(trace.Record{Time: start + 1000 + late, Link: trace.LinkRaw, Length: len(p.Bytes), Data: p.Bytes})
	op := -1
	for i := range 256 {
		if wire.Opcode(i).String() == p.Op {
			op = i
		}
	}
	require.GreaterOrEqual(t, op, 0)
	at := start + 1000
	l.Did([]timeline.Entry{
		{Time: at, Node: "A", Record: qp.Record{Kind: qp.RecordReceived, QPN: p.QPN, PSN: wire.PSN(p.PSN), Op: uint8(op)}},
		{Time: at, Node: "A", Record: qp.Record{Kind: qp.RecordCompletion, QPN: 9, Value: 2}},
		{Time: at, Node: "B", Record: qp.Record{Kind: qp.RecordTimer, QPN: 9}},
	})
	got, _ := l.after(0)
	require.Len(t, got.Entries, 2)
	require.Equal(t, "timer", got.Entries[0].Kind)
	require.EqualValues(t, 1000, got.Entries[0].Time)
	require.Equal(t, "completion", got.Entries[1].Kind)
	require.EqualValues(t, got.Packets[1].Sent+1, got.Entries[1].Time)
}
