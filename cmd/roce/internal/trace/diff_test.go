package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace/diff"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
)

// end is a device whose packets are captured to a file, with faults between it and the network.
func end(t *testing.T, dev, file string, faults fault.Config) (*roce.Device, func()) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	sink, err := capture.NewPcapng(f)
	require.NoError(t, err)
	d, err := roce.Open(dev, &roce.Config{Wrap: func(p transport.Port) transport.Port {
		return capture.Wrap(fault.Wrap(p, faults), sink)
	}})
	require.NoError(t, err)
	return d, func() {
		require.NoError(t, d.Close())
		require.NoError(t, sink.Close())
		require.NoError(t, f.Close())
	}
}

// TestDiff: of two captures at both ends of a connection over real ports, with faults between, each
// packet that was lost or came twice is found, and nothing else.
func TestDiff(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	names := [2]string{filepath.Join(dir, "a.pcapng"), filepath.Join(dir, "b.pcapng")}
	a, closeA := end(t, "udp:127.8.7.1", names[0], fault.Config{Seed: 3, On: fault.Send, Loss: 0.04, Duplicate: 0.04})
	b, closeB := end(t, "udp:127.8.7.2", names[1], fault.Config{})
	var all []interface{ Close() error }
	half := func(d *roce.Device) (*roce.QP, *roce.MR) {
		pd, err := d.AllocPD()
		require.NoError(t, err)
		cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 256})
		require.NoError(t, err)
		q, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
		require.NoError(t, err)
		m, err := pd.RegMR(make([]byte, 8192), roce.LocalWrite|roce.RemoteWrite)
		require.NoError(t, err)
		all = append(all, q, m, cq, pd)
		return q, m
	}
	qa, ma := half(a)
	qb, mb := half(b)
	require.NoError(t, qa.Connect(ctx, qb.Endpoint(), nil))
	require.NoError(t, qb.Connect(ctx, qa.Endpoint(), nil))
	for i := range 60 {
		require.NoError(t, qa.PostSend(roce.SendWR{WRID: uint64(i), Opcode: roce.WRWrite, Flags: roce.SendSignaled,
			SGL: []roce.SGE{ma.SGE(0, ma.Len())}, RemoteAddr: mb.Addr(), RKey: mb.RKey()}))
		var wcs [1]roce.WC
		_, err := qa.SendCQ().Wait(ctx, wcs[:])
		require.NoError(t, err)
		require.Equal(t, roce.WCSuccess, wcs[0].Status)
	}
	for _, x := range all {
		require.NoError(t, x.Close())
	}
	closeA()
	closeB()

	var out bytes.Buffer
	require.NoError(t, Diff(ctx, &out, names[1], names[0], Choice{}, true)) // the other way round
	var r diff.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Pairs, 1)
	p := r.Pairs[0]
	require.Equal(t, [2]string{"127.8.7.2", "127.8.7.1"}, p.Addresses)
	require.False(t, p.Guess)
	require.Less(t, max(p.Clock.Offset, -p.Clock.Offset), p.Clock.RoundTrip, "it is one clock")
	back, there := p.Ways[0], p.Ways[1]
	require.Empty(t, back.Lost)
	require.Equal(t, back.Sent, back.Arrived+back.Outside)
	require.NotEmpty(t, there.Lost)
	require.NotEmpty(t, there.Twice)
	require.Empty(t, there.Strange)
	require.Equal(t, there.Sent, there.Arrived+len(there.Lost)+there.Outside)
	require.Equal(t, r.Packets[0]-back.Sent, there.Arrived+len(there.Twice), "all that B has received")

	out.Reset()
	require.NoError(t, Diff(ctx, &out, names[0], names[1], Choice{Filter: "infiniband.aeth"}, false))
	require.Contains(t, out.String(), "nothing is known of the clocks")
	require.ErrorContains(t, Diff(ctx, &out, names[0], "-", Choice{Filter: "x"}, false), "is no field")
}
