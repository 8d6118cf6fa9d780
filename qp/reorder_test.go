package qp

// What selective repeat keeps, and that it gives it back. Its rules on the wire are in qptest.

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// gapped is two connected ends of which b, the responder, has n packets behind a gap; and the
// packet that fills it.
func gapped(t *testing.T, n int) (a, b *end, missing wire.Frame) {
	a, b = newEnd(t, "10.0.0.1", 1, 1<<16), newEnd(t, "10.0.0.2", 2, 1<<16)
	a.selective, b.selective = true, true
	a.connect(t, b, wire.MTU256)
	b.connect(t, a, wire.MTU256)
	a.post(t, SendWR{Opcode: WRWrite, SGL: []SGE{a.sge(0, 256*(n+1))}, RemoteAddr: b.reg.IOVA(), RKey: b.reg.RKey()})
	a.e.HandlePosted(0)
	a.out.Reset()
	require.Equal(t, n+1, a.e.PollTransmit(0, a.out))
	frames := a.out.Frames()
	b.receive(frames[1:]...)
	require.Equal(t, n, b.e.keptBodies)
	return a, b, frames[0]
}

func (d *end) receive(frames ...wire.Frame) { d.e.HandleFrames(0, frames) }

// TestKeptIsGivenBack: a queue pair has a store only while it has a gap, whatever ends that.
func TestKeptIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(b *end, missing wire.Frame){
		"filled": func(b *end, missing wire.Frame) { b.receive(missing) },
		"ERR": func(b *end, _ wire.Frame) {
			require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateErr}, AttrState))
		},
		"RESET": func(b *end, _ wire.Frame) {
			require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateReset}, AttrState))
		},
		"destroy": func(b *end, _ wire.Frame) { require.NoError(t, b.e.DestroyQP(b.q)) },
		"refused": func(b *end, missing wire.Frame) {
			require.NoError(t, b.mem.Deregister(b.reg))
			b.receive(missing)
			require.Equal(t, StateErr, b.q.State())
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, b, missing := gapped(t, 20)
			end(b, missing)
			require.Nil(t, b.q.resp.kept)
			require.Zero(t, b.e.keptBodies)
			require.Len(t, b.e.spareBodies, 20)
			for i := range b.e.spareStores[0].slots {
				require.Nil(t, b.e.spareStores[0].slots[i].body)
			}
		})
	}
}

// TestKeptIsBounded: an engine that keeps as many packets as it may drops what comes after gaps,
// and asks for it as go-back-N does.
func TestKeptIsBounded(t *testing.T) {
	_, b, missing := gapped(t, 5)
	b.e.keptBodies = maxKept
	before := b.q.resp.kept.n
	f := missing
	// A MIDDLE has no RETH.
	f.Body = slices.Delete(slices.Clone(missing.Body), wire.BTHLen, wire.BTHLen+len(wire.RETH{}))
	bth := (*wire.BTH)(f.Body)
	bth.Put(wire.RCWriteMiddle, 0, 0, wire.DefaultPKey, b.q.QPN(), bth.PSN().Add(9))
	wire.Seal(&f)
	b.receive(f)
	require.Equal(t, before, b.q.resp.kept.n)
	require.True(t, b.q.resp.kept.short)
	require.EqualValues(t, 1, b.e.stats.Drops[wire.DropOutOfSequence])
	b.receive(missing)
	require.Equal(t, wire.SynNAKSeq, b.q.resp.nak)
	require.Equal(t, b.q.resp.epsn, b.q.resp.nakPSN)
	require.Zero(t, b.q.nakMSN(), "it names no gap")
}
