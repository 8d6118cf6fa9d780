package analysis

// What the analysis says of captured flows, against what the device has recorded that sent them:
// over real UDP ports of this machine, with faults between, made once (-record) and kept.

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/wire"
)

var record = flag.Bool("record", false, "capture testdata/flows.gz anew; go generate makes the table of it")

const (
	flowsFile  = "testdata/flows.gz"
	flowsEach  = 25 // queue pairs of a network
	snapLength = 128
)

// networks are what happens between the two ends.
var networks = []struct {
	name      string
	faults    fault.Config
	selective bool
	late      bool // receives are posted late
}{
	{name: "requests are lost", faults: fault.Config{On: fault.Send, Loss: 0.06}},
	{name: "responses are lost", faults: fault.Config{On: fault.Recv, Loss: 0.15}},
	{name: "both are lost", faults: fault.Config{On: fault.Send | fault.Recv, Loss: 0.05}},
	{name: "out of order", faults: fault.Config{On: fault.Send, Reorder: 0.05}},
	{name: "twice", faults: fault.Config{On: fault.Send | fault.Recv, Duplicate: 0.1}},
	{name: "damaged", faults: fault.Config{On: fault.Send, Corrupt: 0.05}},
	{name: "selective repeat", faults: fault.Config{On: fault.Send, Loss: 0.06}, selective: true},
	{name: "no receives", late: true},
}

// TestCaptured: no cause is wrong that is not called a guess, of 200 flows.
func TestCaptured(t *testing.T) {
	if *record {
		recordFlows(t)
	}
	packed, err := os.ReadFile(flowsFile)
	require.NoError(t, err)
	sum := tally{wrong: map[string]int{}}
	in := bytes.NewReader(packed)
	z, err := gzip.NewReader(in)
	require.NoError(t, err)
	for i := range networks {
		z.Multistream(false)
		file, err := io.ReadAll(z)
		require.NoError(t, err)
		analyzeNetwork(t, uint64(i+1), file, &sum)
		if i < len(networks)-1 {
			require.NoError(t, z.Reset(in))
		}
	}
	t.Logf("%d packets of %d flows; went back %d times, right %d, guesses %d, unknowable %d; %d missed", sum.packets, sum.flows,
		sum.retries, sum.right, sum.guesses, sum.misled, sum.missed)
	require.Empty(t, sum.wrong, "a cause that is not called a guess is wrong")
	require.Equal(t, len(networks)*flowsEach, sum.flows)
	require.Less(t, sum.missed*20, sum.retries)
	sum.table.check(t, "captured", sum.flows)
}

// analyzeNetwork analyses what a device has captured and recorded.
func analyzeNetwork(t *testing.T, number uint64, file []byte, sum *tally) {
	src, err := trace.NewSource(bytes.NewReader(file))
	require.NoError(t, err)
	var records []qp.Record
	src.EachNotes(func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil {
				x.Record.At = qp.Time(x.Time)
				records = append(records, x.Record)
			}
		}
	})
	s := newStudy(t, &qptest.Plan{Seed: number}, sum)
	var sent []int
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if !p.Parsed {
			continue
		}
		if p.Direction == trace.DirSent {
			sent = append(sent, p.Number)
		}
		s.take(p)
	}
	require.NotEmpty(t, records)
	require.NotEmpty(t, sent)
	gid, err := wire.ParseGID(flowEnd(int(number-1), 0))
	require.NoError(t, err)
	s.explain(records, s.local([]wire.GID{gid}), sent)
	s.causes()
	for _, f := range s.a.Flows {
		if f.Src == gid && f.Peer != nil {
			sum.flows++
		}
	}
}

// flowEnd is the address of one of the two ends of a network.
func flowEnd(network, end int) string { return fmt.Sprintf("127.9.%d.%d", network+1, end+1) }

// recordFlows captures all networks, each as a gzip member of one file.
func recordFlows(t *testing.T) {
	var out bytes.Buffer
	for i := range networks {
		z := gzip.NewWriter(&out)
		recordNetwork(t, i, z)
		require.NoError(t, z.Close())
	}
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	require.NoError(t, os.WriteFile(flowsFile, out.Bytes(), 0o644))
}

// recordNetwork captures at one end of flows over a network.
func recordNetwork(t *testing.T, i int, out io.Writer) {
	n := networks[i]
	w := trace.NewWriter(out)
	see := capture.Func(func(dir capture.Direction, at time.Time, f *wire.Frame) {
		data := wire.AppendFrame(nil, f)
		rec := trace.Record{Time: at.UnixNano(), Link: trace.LinkRaw, Name: "received", Direction: trace.DirReceived, Length: len(data),
			Data: data[:min(len(data), snapLength)]}
		if dir == capture.Sent {
			rec.Name, rec.Direction = "sent", trace.DirSent
		}
		if err := w.Write(&rec); err != nil {
			panic(err)
		}
	})
	n.faults.Seed = uint64(i + 1)
	a, err := roce.Open("udp:"+flowEnd(i, 0), &roce.Config{Records: 1 << 18, Wrap: func(p transport.Port) transport.Port {
		return capture.Wrap(fault.Wrap(p, n.faults), see)
	}})
	require.NoError(t, err)
	defer a.Close()
	b, err := roce.Open("udp:"+flowEnd(i, 1), nil)
	require.NoError(t, err)
	defer b.Close()
	for k := range flowsEach {
		flow(t, a, b, n.selective, n.late, k)
	}
	entries := timeline.Entries(nil, "A", a.Records(nil), 0)
	var text []byte
	for k := range entries {
		if text = append(entries[k].AppendJSON(text), '\n'); len(text) > 1<<18 || k == len(entries)-1 {
			require.NoError(t, w.WriteNotes(text))
			text = text[:0]
		}
	}
	// notes lie before a packet
	require.NoError(t, w.Write(&trace.Record{Link: trace.LinkEthernet, Data: make([]byte, 60), Length: 60}))
	require.NoError(t, w.Flush())
}

// flow sends messages of all kinds over a queue pair.
func flow(t *testing.T, a, b *roce.Device, selective, late bool, k int) {
	o := roce.DefaultConnectOptions()
	o.Timeout, o.MinRNRTimer, o.SelectiveRepeat, o.MTU = 10, 5, selective, wire.MTU1024
	qa, ma := half(t, a)
	qb, mb := half(t, b)
	require.NoError(t, qa.Connect(context.Background(), qb.Endpoint(), &o))
	require.NoError(t, qb.Connect(context.Background(), qa.Endpoint(), &o))
	receive := func() {
		for range 8 {
			require.NoError(t, qb.PostRecv(roce.RecvWR{SGL: []roce.SGE{mb.SGE(0, mb.Len())}}))
		}
	}
	if !late {
		receive()
	}
	ops := []roce.SendWR{{Opcode: roce.WRSend}, {Opcode: roce.WRWrite}, {Opcode: roce.WRRead}, {Opcode: roce.WRWrite}}
	for i := range 12 {
		wr := ops[(i+k)%len(ops)]
		wr.WRID, wr.Flags, wr.RemoteAddr, wr.RKey = uint64(i), roce.SendSignaled, mb.Addr(), mb.RKey()
		wr.SGL = []roce.SGE{ma.SGE(0, 500+(i*k*911)%7000)}
		require.NoError(t, qa.PostSend(wr))
	}
	if late {
		time.Sleep(2 * time.Millisecond) // so that RNR NAKs are there to be captured
		receive()
	}
	for done := 0; done < 12; {
		var wcs [12]roce.WC
		n, err := qa.SendCQ().Wait(context.Background(), wcs[:])
		require.NoError(t, err)
		for _, c := range wcs[:n] {
			require.Equal(t, roce.WCSuccess, c.Status)
		}
		done += n
	}
	require.NoError(t, qa.Close())
	require.NoError(t, qb.Close())
}

// half is a queue pair with memory of its own.
func half(t *testing.T, d *roce.Device) (*roce.QP, *roce.MR) {
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 64})
	require.NoError(t, err)
	q, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	require.NoError(t, err)
	m, err := pd.RegMR(make([]byte, 8192), roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
	require.NoError(t, err)
	return q, m
}
