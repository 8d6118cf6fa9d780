package analysis

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/wire"
)

// talk is a conversation between A (10.0.0.1, queue pair 0xa) and B (10.0.0.2, 0xb), packet by
// packet, a microsecond apart.
type talk struct {
	t   testing.TB
	a   *Analysis
	now int64
	n   int
	qps [2]uint32
}

func newTalk(t testing.TB) *talk { return &talk{t: t, a: New(), qps: [2]uint32{0xa, 0xb}} }

// sides of a talk.
const (
	fromA = 0
	fromB = 1
)

// send adds a packet; fill completes its headers.
func (k *talk) send(from int, op wire.Opcode, psn wire.PSN, n int, fill func(p *wire.Packet)) Remark {
	k.t.Helper()
	p := k.packet(from, op, psn, n, fill)
	require.True(k.t, p.Parsed)
	return k.a.Add(p)
}

// packet makes the next packet of the talk.
func (k *talk) packet(from int, op wire.Opcode, psn wire.PSN, n int, fill func(p *wire.Packet)) *trace.Packet {
	k.t.Helper()
	ends := [2]string{"10.0.0.1", "10.0.0.2"}
	src, err := wire.ParseGID(ends[from])
	require.NoError(k.t, err)
	dst, err := wire.ParseGID(ends[1-from])
	require.NoError(k.t, err)
	path, err := wire.NewPath(src, dst, 0xc123, 2, 64, 0)
	require.NoError(k.t, err)
	f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.BodyLen(op, n))}
	path.PutHead(f.Head, len(f.Body), 0)
	var p wire.Packet
	require.True(k.t, p.Lay(&f, op, n))
	p.BTH.Put(op, 0, uint8(wire.Pad(n)), wire.DefaultPKey, k.qps[1-from], psn)
	if h := p.AETH(); h != nil {
		h.Put(wire.SynACK, 0)
	}
	if fill != nil {
		fill(&p)
	}
	wire.Seal(&f)
	k.n++
	k.now += 1000
	x := &trace.Packet{Record: trace.Record{Number: k.n, Time: k.now, Link: trace.LinkRaw, Data: wire.AppendFrame(nil, &f)}}
	x.Decode()
	return x
}

// says is an AETH with a syndrome.
func says(s wire.Syndrome) func(p *wire.Packet) { return func(p *wire.Packet) { p.AETH().Put(s, 0) } }

// wants is a RETH for so many bytes.
func wants(n uint32) func(p *wire.Packet) { return func(p *wire.Packet) { p.RETH().Put(0x1000, 7, n) } }

// report is what Write says, and must contain.
func (k *talk) report(want ...string) string {
	k.t.Helper()
	var out bytes.Buffer
	require.NoError(k.t, k.a.Write(&out))
	for _, w := range want {
		require.Contains(k.t, out.String(), w)
	}
	return out.String()
}

func (k *talk) ack(psn wire.PSN) Remark { return k.send(fromB, wire.RCAcknowledge, psn, 0, nil) }

// TestNothingWrong: each kind of message is completed by what completes it, and there is no
// finding.
func TestNothingWrong(t *testing.T) {
	k := newTalk(t)
	k.send(fromA, wire.RCSendFirst, 100, 1024, nil)
	k.send(fromA, wire.RCSendLast, 101, 10, nil)
	k.ack(101)
	k.send(fromA, wire.RCWriteOnly, 102, 77, wants(77))
	k.send(fromA, wire.RCReadRequest, 103, 0, wants(2500))
	k.send(fromB, wire.RCReadResponseFirst, 103, 1024, nil) // acknowledges the WRITE
	k.send(fromB, wire.RCReadResponseMiddle, 104, 1024, nil)
	k.send(fromB, wire.RCReadResponseLast, 105, 452, nil)
	k.send(fromA, wire.RCFetchAdd, 106, 0, nil)
	k.send(fromB, wire.RCAtomicAcknowledge, 106, 0, nil)
	k.send(fromA, wire.RCFlush, 107, 0, wants(8))
	k.send(fromB, wire.RCReadResponseOnly, 107, 0, nil)
	text := k.report("A  10.0.0.1 qp 0x00000a", "B  10.0.0.2 qp 0x00000b", "path MTU 1024", "recognised by sequence numbers",
		"1 × SEND, 1034 B", "1 × RDMA_WRITE, 77 B", "1 × RDMA_READ, 2500 B", "1 × ATOMIC", "1 × FLUSH")
	for _, bad := range []string{"not acknowledged", "went back", "wrong", "loss", "section"} {
		require.NotContains(t, text, bad)
	}
	f := k.a.Flows[0]
	require.InDelta(t, 1000, f.Requests.Latency(1), 30)
}

// shown are things that go wrong; the last packet of each is the one that shows it.
var shown = []struct {
	name  string
	play  func(k *talk) Remark
	text  string
	rule  string
	count string // in the report
}{
	{"a NAK", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		k.send(fromA, wire.RCSendOnly, 6, 1, nil)
		return k.send(fromB, wire.RCAcknowledge, 5, 0, says(wire.SynNAKSeq))
	}, "where PSN 5 was expected", "section 4.5", "1 NAKs: PSN sequence error"},
	{"again after it", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		k.send(fromA, wire.RCSendOnly, 6, 1, nil)
		k.send(fromB, wire.RCAcknowledge, 5, 0, says(wire.SynNAKSeq))
		return k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	}, "PSN 5 is sent again after a NAK (PSN sequence error)", "section 4.4", "went back 1 × after a NAK"},
	{"receiver not ready", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		return k.send(fromB, wire.RCAcknowledge, 5, 0, says(wire.RNRSyndrome(14)))
	}, "the sender is to wait 1.28ms", "section 4.7", "1 RNR NAKs"},
	{"again after that", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		k.send(fromB, wire.RCAcknowledge, 5, 0, says(wire.RNRSyndrome(14)))
		return k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	}, "PSN 5 is sent again after an RNR NAK", "section 4.7", "went back 1 × after an RNR NAK"},
	{"a timer", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		k.now += 67_000_000
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		k.now += 10_000
		return k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	}, "nothing was acknowledged for 67.01ms (a guess); for the 2nd time", "section 4.7", "went back 2 × after silence"},
	{"retries in vain", func(k *talk) (r Remark) {
		k.send(fromA, wire.RCSendOnly, 4, 1, nil)
		k.ack(4)
		for range 8 {
			k.now += 10_000_000
			r = k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		}
		return r
	}, "for the 7th time", "section 4.7",
		"the oldest is the SEND of packet 3; PSN 5 was sent again 7 times in vain: if the timer did it each time, retry_cnt 7 ends it"},
	{"refused", func(k *talk) Remark {
		k.send(fromA, wire.RCWriteOnly, 5, 1, wants(1))
		return k.send(fromB, wire.RCAcknowledge, 5, 0, says(wire.SynNAKAccess))
	}, "the RDMA_WRITE that packet 1 began is refused: NAK remote access error; it ends with IBV_WC_REM_ACCESS_ERR (10)", "section 6.3",
		"1 NAKs that fail a request"},
	{"the rest of a READ", func(k *talk) Remark {
		k.send(fromA, wire.RCReadRequest, 5, 0, wants(3000))
		k.send(fromB, wire.RCReadResponseFirst, 5, 1024, nil)
		k.send(fromB, wire.RCReadResponseLast, 7, 952, nil)
		k.send(fromA, wire.RCSendOnly, 8, 1, nil)
		k.send(fromA, wire.RCReadRequest, 9, 0, wants(3000))
		k.send(fromB, wire.RCReadResponseFirst, 9, 1024, nil)
		return k.send(fromA, wire.RCReadRequest, 10, 0, wants(1976))
	}, "PSN 10 is sent again for an answer that was missing", "section 4.4", "went back 1 × for an answer that was missing"},
	{"a gap", func(k *talk) Remark {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
		return k.send(fromA, wire.RCSendOnly, 8, 1, nil)
	}, "2 packets before this one are not in the capture", "section 4.1", "2 packets missing in the capture"},
	{"a gap of UC", func(k *talk) Remark {
		k.send(fromA, wire.UCSendFirst, 5, 1024, nil)
		return k.send(fromA, wire.UCSendLast, 7, 1, nil)
	}, "if they were lost, so is their message", "section 6.4", "messages seen in part only"},
	{"out of order", func(k *talk) Remark {
		k.send(fromA, wire.RCSendFirst, 5, 1024, nil)
		return k.send(fromA, wire.RCWriteOnly, 6, 1, wants(1))
	}, "RDMA_WRITE_ONLY begins a message while another is unfinished", "section 2.7", "wrong  packet 2"},
	{"a wrong ICRC", func(k *talk) Remark {
		p := k.packet(fromA, wire.RCSendOnly, 5, 4, nil)
		p.Data[len(p.Data)-5] ^= 1
		p.Decode()
		return k.a.Add(p)
	}, "the ICRC is wrong", "section 3", "1 packets with a wrong ICRC"},
}

// TestFindings: what goes wrong is found at the packet that shows it, with its rule.
func TestFindings(t *testing.T) {
	for _, c := range shown {
		t.Run(c.name, func(t *testing.T) {
			k := newTalk(t)
			r := c.play(k)
			require.NotNil(t, r.Finding)
			require.Contains(t, r.Finding.Text, c.text)
			require.Equal(t, c.rule, r.Finding.Rule)
			k.report(c.count, c.text)
		})
	}
}

// TestTimeoutBehind: two requests are lost. The sender asks by the first alone; that is answered,
// and the second follows only after another timeout. So there were two, also if the first is a READ
// with several packets of answer.
func TestTimeoutBehind(t *testing.T) {
	for _, read := range []bool{false, true} {
		k := newTalk(t)
		k.send(fromA, wire.RCSendOnly, 99, 10, nil)
		k.ack(99)
		k.answersRead(100) // it shows the path MTU
		next := wire.PSN(104)
		ask := func() { k.send(fromA, wire.RCWriteOnly, 103, 77, wants(77)) }
		answer := func() { k.ack(103) }
		if read {
			next = 106
			ask = func() { k.send(fromA, wire.RCReadRequest, 103, 0, wants(2500)) }
			answer = func() { k.answersRead(103) }
		}
		ask()
		k.send(fromA, wire.RCWriteOnly, next, 77, wants(77))
		k.now += 1e9
		ask()
		answer()
		k.now += 1e9
		k.send(fromA, wire.RCWriteOnly, next, 77, wants(77))
		k.ack(next)
		require.EqualValues(t, 2, k.a.Flows[0].Requests.Retries[AfterSilence], "a READ: %v", read)
	}
}

// answersRead is the answer to a READ of 2500 bytes, with its request where that is the first.
func (k *talk) answersRead(psn wire.PSN) {
	if psn == 100 {
		k.send(fromA, wire.RCReadRequest, psn, 0, wants(2500))
	}
	k.send(fromB, wire.RCReadResponseFirst, psn, 1024, nil)
	k.send(fromB, wire.RCReadResponseMiddle, psn.Add(1), 1024, nil)
	k.send(fromB, wire.RCReadResponseLast, psn.Add(2), 452, nil)
}

// TestUnknownMTU: a READ is asked for before the path MTU is known. Its first answer shows that,
// the rest of the answer is lost and asked for again: that is no second READ.
func TestUnknownMTU(t *testing.T) {
	k := newTalk(t)
	k.send(fromA, wire.RCSendOnly, 99, 10, nil)
	k.ack(99)
	k.send(fromA, wire.RCReadRequest, 100, 0, wants(8192))
	k.send(fromB, wire.RCReadResponseFirst, 100, 4096, nil)
	k.now += 1e9
	k.send(fromA, wire.RCReadRequest, 101, 0, wants(4096))
	k.send(fromB, wire.RCReadResponseOnly, 101, 4096, nil)
	k.report("1 × RDMA_READ, 8192 B", "path MTU 4096")
}

// TestFromTheMiddle: a capture that begins anywhere has no finding and loses no later message.
func TestFromTheMiddle(t *testing.T) {
	for begin := range 9 {
		k := newTalk(t)
		steps := []func(){
			func() { k.send(fromA, wire.RCSendFirst, 1<<24-2, 256, nil) },
			func() { k.send(fromA, wire.RCSendMiddle, 1<<24-1, 256, nil) },
			func() { k.send(fromA, wire.RCSendLast, 0, 1, nil) },
			func() { k.ack(0) },
			func() { k.send(fromA, wire.RCReadRequest, 1, 0, wants(600)) },
			func() { k.send(fromB, wire.RCReadResponseFirst, 1, 256, nil) },
			func() { k.send(fromB, wire.RCReadResponseMiddle, 2, 256, nil) },
			func() { k.send(fromB, wire.RCReadResponseLast, 3, 88, nil) },
			func() { k.send(fromA, wire.RCWriteOnly, 4, 1, wants(1)) },
			func() { k.ack(4) },
		}
		for _, step := range steps[begin:] {
			step()
		}
		text := k.report("1 × RDMA_WRITE, 1 B", "recognised by")
		for _, bad := range []string{"loss ", "wrong ", "failed ", "retry ", "note "} {
			require.NotContains(t, text, "    "+bad, "from %d", begin)
		}
	}
}

// TestManagedConnection: REQ and REP name both queue pairs, and what goes on after them is theirs.
func TestManagedConnection(t *testing.T) {
	k := newTalk(t)
	k.qps = [2]uint32{1, 1}
	mad := func(m wire.CMMessage) func(p *wire.Packet) {
		return func(p *wire.Packet) {
			p.DETH().Put(wire.GSIQKey, 1)
			wire.PutCM((*wire.MAD)(p.Payload), 9, m)
		}
	}
	k.send(fromA, wire.UDSendOnly, 1, 256, mad(&wire.CMReq{
		LocalCommID: 77,
		LocalQPN:    0xa,
		PathMTU:     wire.MTU1024,
		ServiceID:   wire.CMServiceID(wire.CMPortSpaceTCP, 7471),
	}))
	k.send(fromB, wire.UDSendOnly, 1, 256, mad(&wire.CMRep{LocalCommID: 78, RemoteCommID: 77, LocalQPN: 0xb}))
	r := k.send(fromB, wire.UDSendOnly, 2, 256, mad(&wire.CMRej{RemoteCommID: 79, Reason: wire.CMRejInvalidService}))
	require.Contains(t, r.Finding.Text, "invalid service ID")
	k.qps = [2]uint32{0xa, 0xb}
	k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	k.ack(5)
	k.report("recognised by connection manager, port 7471, packets 1 and 2", "path MTU 1024", "1 × SEND, 1 B")
}

// TestManyFlows: what is beyond the bounds is counted, and nothing grows with it.
func TestManyFlows(t *testing.T) {
	k := newTalk(t)
	for range 3 {
		k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	}
	f := k.a.Flows[0]
	for range 10 * maxFindings {
		f.find(&trace.Packet{}, Again, "x", "section 4.7")
	}
	for range 10 * maxFailures {
		f.find(&trace.Packet{}, Failed, "x", "section 6.3")
	}
	require.Len(t, f.Findings, maxFailures)
	q := flight{sum: new(int)}
	for i := range 3 * maxFlight {
		require.Equal(t, i >= maxFlight, q.push(message{first: wire.PSN(i), last: wire.PSN(i), whole: true}))
	}
	require.Equal(t, maxFlight, q.len())
	require.LessOrEqual(t, cap(q.all), 8*maxFlight)
	require.Equal(t, wire.PSN(2*maxFlight+5), q.find(wire.PSN(2*maxFlight+5)).first)
	require.Nil(t, q.find(5))
	for n := range maxFlows + 10 {
		k.a.flowOf(flowKey{qp: uint32(n)})
	}
	require.Len(t, k.a.Flows, maxFlows)
}

// TestTwoPlaces: packets that were captured twice are followed once.
func TestTwoPlaces(t *testing.T) {
	k := newTalk(t)
	for i, c := range []struct {
		psn   wire.PSN
		place string
		twice bool
	}{{5, "sent", false}, {5, "received", true}, {6, "sent", false}, {6, "received", true}, {7, "received", false}} {
		p := k.packet(fromA, wire.RCSendOnly, c.psn, 1, nil)
		p.Name = c.place
		require.Equal(t, c.twice, k.a.Add(p).Twice, "packet %d", i+1)
	}
	require.Zero(t, k.a.Flows[0].Requests.Repeated)
}

// TestMiddleNAK: a capture begins in the middle, and the first that the responder says in it is a
// NAK of go-back-N. Its MSN is not known to be another than the responder's.
func TestMiddleNAK(t *testing.T) {
	k := newTalk(t)
	k.send(fromA, wire.RCWriteFirst, 1000, 256, wants(100*256))
	for psn := wire.PSN(1001); psn < 1099; psn++ {
		k.send(fromA, wire.RCWriteMiddle, psn, 256, nil)
	}
	r := k.send(fromB, wire.RCAcknowledge, 1001, 0, func(p *wire.Packet) { p.AETH().Put(wire.SynNAKSeq, 37) })
	require.Contains(t, r.Finding.Text, "a later packet arrived where PSN 1001 was expected")
	r = k.send(fromA, wire.RCWriteMiddle, 1001, 256, nil)
	require.Equal(t, "PSN 1001 is sent again after a NAK (PSN sequence error)", r.Finding.Text)
}

// TestAllFlights: the messages of many flows of which nothing is acknowledged, as in a capture of
// one direction, are bounded together. A flow always has its newest.
func TestAllFlights(t *testing.T) {
	sum := 0
	flows := make([]flight, 200)
	for n := range 2 * maxFlight {
		for i := range flows {
			flows[i].sum = &sum
			flows[i].push(message{number: n})
			if flows[i].newest().number != n {
				t.Fatalf("flow %d: message %d is not its newest", i, n)
			}
		}
	}
	held := 0
	for i := range flows {
		held += flows[i].len()
	}
	require.Equal(t, held, sum)
	require.Equal(t, maxFlights, sum)
	for i := range flows {
		flows[i].dropNewest()
		if i%2 == 0 && flows[i].len() > 0 {
			flows[i].pop()
		}
		flows[i].clear()
	}
	require.Zero(t, sum)
}

// TestLostRecords: who has lost records does not say that it has recorded all.
func TestLostRecords(t *testing.T) {
	k := newTalk(t)
	k.a.Told(&timeline.Entry{Node: "A", Record: qp.Record{Kind: qp.RecordLost, Value: 12}})
	k.report("12 records of the device are lost")
}
