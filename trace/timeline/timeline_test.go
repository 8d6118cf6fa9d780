package timeline

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// TestWorld: a lost packet in a simulated world, from the work request to the completion.
func TestWorld(t *testing.T) {
	s := qptest.NewScript(t)
	s.Records, s.Capture = 1000, &qptest.Capture{}
	a, b := s.Pair(qptest.QPConfig{}, qptest.QPConfig{})
	s.Post(a, a.Write(0, 3000, b.Remote, 0))
	for _, step := range []func(){
		func() { s.Expect(a, qptest.Pkt(wire.RCWriteFirst, 0)) },
		func() { s.Expect(b, qptest.Ack(0)) }, // the first packet of a connection asks for it
		func() { s.Drop(a, qptest.Pkt(wire.RCWriteMiddle, 1)) },
		func() { s.Expect(a, qptest.Pkt(wire.RCWriteLast, 2)) },
		func() { s.Expect(b, qptest.Nak(wire.SynNAKSeq, 1)) },
		func() { s.Expect(a, qptest.Pkt(wire.RCWriteMiddle, 1)) },
		func() { s.Expect(a, qptest.Pkt(wire.RCWriteLast, 2)) },
		func() { s.Expect(b, qptest.Ack(2)) },
	} {
		s.Advance(qptest.Microsecond)
		step()
	}
	var entries []Entry
	for _, n := range s.Nodes {
		records, next := n.Recorder.Append(nil, 0)
		require.Equal(t, uint64(len(records)), next)
		entries = Entries(entries, n.Name, records, 0)
	}
	src, err := trace.NewSource(bytes.NewReader(s.Capture.Bytes()))
	require.NoError(t, err)
	var out bytes.Buffer
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Time, b.Time) })
	require.NoError(t, Write(&out, src, slices.Values(entries), Options{}))
	inOrder(t, out.String(), "A          qp", "state RTS", "request RDMA_WRITE wr", "packet 1", "RDMA_WRITE_FIRST",
		"executed RC RDMA_WRITE_FIRST psn 0, 1024 B at 0x7f0000100000", "dropped RC RDMA_WRITE_LAST psn 2, 952 B: out of sequence",
		"NAK PSN sequence error", "retry from psn 1", "executed RC RDMA_WRITE_LAST psn 2, 952 B at 0x7f0000100800", "completion", "success")
	out.Reset()
	require.NoError(t, Write(&out, nil, slices.Values(entries), Options{}))
	inOrder(t, out.String(), "sent RC RDMA_WRITE_FIRST", "received RC RDMA_WRITE_FIRST", "sent RC ACKNOWLEDGE psn 1")
}

// inOrder says that the texts are there, one after the other.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := text
	for _, w := range want {
		i := strings.Index(rest, w)
		require.GreaterOrEqual(t, i, 0, "%q is not behind the others in\n%s", w, text)
		rest = rest[i+len(w):]
	}
}

// TestDevice: a device tells what it has done, once.
func TestDevice(t *testing.T) {
	dev, err := roce.Open("pipe:TestTimelineDevice", &roce.Config{Records: 100})
	require.NoError(t, err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	require.NoError(t, err)
	cq, err := dev.CreateCQ(roce.CQInitAttr{CQE: 16})
	require.NoError(t, err)
	q, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, q.Connect(t.Context(), q.Endpoint(), nil)) // to itself
	records := dev.Records(nil)
	var states []qp.QPState
	for _, r := range records {
		if r.Kind == qp.RecordState && r.QPN == q.QPN() {
			states = append(states, qp.QPState(r.Op))
		}
	}
	require.Equal(t, []qp.QPState{qp.StateInit, qp.StateRTR, qp.StateRTS}, states)
	require.Empty(t, dev.Records(nil))
	clock, err := dev.QueryRTValues()
	require.NoError(t, err)
	now := time.Now()
	for _, x := range Entries(nil, "dev", records, now.UnixNano()-int64(clock.RawClock)) {
		require.WithinDuration(t, now, time.Unix(0, x.Time), time.Hour)
	}
}

// TestJSON: an entry of each kind comes back from JSON as it was.
func TestJSON(t *testing.T) {
	for k := qp.RecordKind(1); k.String() != "?"; k++ {
		x := Entry{1_700_000_000_123_456_789, "udp:127.0.0.1", qp.Record{
			Kind:   k,
			QPN:    0xabcdef,
			PSN:    0x123456,
			Op:     4,
			Value:  1<<63 + 1,
			Length: 7,
		}}
		got, err := ParseEntry(x.AppendJSON(nil))
		require.NoError(t, err)
		require.Equal(t, x, got)
	}
	hostile := Entry{Node: "\x1b]0;mine\x07\n", Record: qp.Record{Kind: qp.RecordState}}
	got, err := ParseEntry(hostile.AppendJSON(nil))
	require.NoError(t, err)
	require.Equal(t, trace.Printable(got.Node), got.Node, "what a terminal obeys")
	for text, want := range map[string]string{"{": "no JSON", `{"record":"x"}`: "not known", `{"time":7}`: "no JSON"} {
		_, err := ParseEntry([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// TestNotes: what a recorder has put between the packets of a file is found there, and the packets
// are as before.
func TestNotes(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	made := 0
	r := Recorder{Node: "A", Shift: 5, Records: func(dst []qp.Record) []qp.Record {
		for range 700 {
			made++
			dst = append(dst, qp.Record{At: qp.Time(made), Kind: qp.RecordRequest, Value: uint64(made)})
		}
		return dst
	}, Block: func(kind uint32, body []byte) error {
		require.Equal(t, uint32(trace.NotesBlock), kind)
		return w.WriteNotes(body)
	}}
	for i := range 3 {
		require.NoError(t, w.Write(&trace.Record{Time: int64(i), Link: trace.LinkRaw, Data: []byte("nothing")}))
		require.NoError(t, r.Collect())
	}
	require.NoError(t, w.Flush())
	src, err := trace.NewSource(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	n := NewNotes(src)
	seen := 0
	for x := range n.All() {
		seen++
		require.Equal(t, Entry{int64(seen) + 5, "A", qp.Record{Kind: qp.RecordRequest, Value: uint64(seen)}}, x)
	}
	require.NoError(t, n.Err())
	require.Equal(t, made, seen)
	var out bytes.Buffer
	packets, err := trace.NewSource(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	again, err := trace.NewSource(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	require.NoError(t, Write(&out, packets, NewNotes(again).All(), Options{JSON: true}))
	require.Equal(t, made+3, strings.Count(out.String(), "\n"))
}

// FuzzNotes reads anything as the notes of a file: lines that are no entries are an error, and what
// is an entry is shown.
func FuzzNotes(f *testing.F) {
	x := Entry{1_700_000_000_000_000_000, "A", qp.Record{Kind: qp.RecordSent, QPN: 7, Op: 4}}
	f.Add(x.AppendJSON(nil))
	f.Add([]byte(`{"record":"timer","node":"\u001b[31m","time":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte("{}\nnull\n[]\n{\"record\":\"timer\",\"time\":\"0001-01-01T00:00:00Z\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var file bytes.Buffer
		w := trace.NewWriter(&file)
		if w.WriteNotes(text) != nil || w.Flush() != nil {
			return
		}
		var sources [2]*trace.Source
		for i := range sources {
			var err error
			sources[i], err = trace.NewSource(bytes.NewReader(file.Bytes()))
			require.NoError(t, err)
		}
		notes := NewNotes(sources[1])
		var out bytes.Buffer
		require.NoError(t, Write(&out, sources[0], notes.All(), Options{}))
		require.NotContains(t, out.String(), "\x1b")
		require.NotContains(t, strings.ReplaceAll(out.String(), string(text), ""), "%!(")
	})
}

// TestWords: every kind of record has words, of every value.
func TestWords(t *testing.T) {
	for k := range 20 {
		for _, v := range []uint64{0, 1, 255, 1 << 40} {
			x := Entry{Record: qp.Record{Kind: qp.RecordKind(k), Op: uint8(v), Value: v, Length: uint32(v)}}
			require.NotContains(t, string(x.AppendLine(nil)), "%!")
		}
	}
}

// TestRing: the newest records are kept.
func TestRing(t *testing.T) {
	s := qptest.NewScript(t)
	s.Records = 8
	a, b := s.Pair(qptest.QPConfig{}, qptest.QPConfig{})
	records, next := a.Node.Recorder.Append(nil, 0)
	for range 30 {
		s.Post(a, a.Write(0, 10, b.Remote, 0))
		s.Clear()
		records, next = a.Node.Recorder.Append(records[:0], next)
		require.LessOrEqual(t, len(records), 8)
	}
	kept, all := a.Node.Recorder.Append(nil, 0)
	require.Len(t, kept, 8)
	require.Equal(t, next, all)
}

// TestManyNotes: entries are not kept, however many of them lie between two packets.
func TestManyNotes(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	block := bytes.Repeat(append((&Entry{Node: "A", Record: qp.Record{Kind: qp.RecordState}}).AppendJSON(nil), '\n'), 1000)
	for range 20 {
		require.NoError(t, w.WriteNotes(block))
	}
	require.NoError(t, w.Flush())
	src, err := trace.NewSource(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	for range NewNotes(src).All() {
		require.Less(t, src.Offset(), int64(2*len(block)))
		break
	}
}

// TestLost: a device that keeps fewer records than it makes says how many are lost.
func TestLost(t *testing.T) {
	records := func(name string, keep int) []qp.Record {
		dev, err := roce.Open("pipe:"+name, &roce.Config{Records: keep})
		require.NoError(t, err)
		defer dev.Close()
		pd, err := dev.AllocPD()
		require.NoError(t, err)
		cq, err := dev.CreateCQ(roce.CQInitAttr{CQE: 16})
		require.NoError(t, err)
		for range 20 {
			q, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
			require.NoError(t, err)
			require.NoError(t, q.Connect(t.Context(), q.Endpoint(), nil))
		}
		return dev.Records(nil)
	}
	all, few := records("TestLostAll", 1000), records("TestLostFew", 8)
	require.NotEqual(t, qp.RecordLost, all[0].Kind)
	require.Equal(t, qp.RecordLost, few[0].Kind)
	require.Equal(t, uint64(len(all)), few[0].Value+uint64(len(few)-1))
}
