package qp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// TestReplayAfterRound: a READ or atomic that is repeated is answered from what was executed last
// under its PSN, although one of 16 million packets ago, with the same PSN, is remembered too.
func TestReplayAfterRound(t *testing.T) {
	a, b := pair(t, 4096, wire.MTU256)
	atomic := SendWR{
		Opcode:     WRAtomicFetchAndAdd,
		Flags:      SendSignaled,
		CompareAdd: 1,
		SGL:        []SGE{a.sge(0, 8)},
		RemoteAddr: mr.AddrOf(b.buf),
		RKey:       b.reg.RKey(),
	}
	read := SendWR{Opcode: WRRead, Flags: SendSignaled, SGL: []SGE{a.sge(8, 8)}, RemoteAddr: mr.AddrOf(b.buf) + 1024, RKey: b.reg.RKey()}
	first := a.q.rec.psn
	for round := range uint64(2) {
		if round > 0 { // as if messages had gone all the way round
			a.q.rec.sequence = sequence{una: first, psn: first, top: first}
			b.q.resp.epsn = first
			read.RemoteAddr += 1024
		}
		for _, wr := range []SendWR{atomic, read} {
			a.post(t, wr)
			a.e.HandlePosted(0)
			require.Equal(t, 1, a.e.PollTransmit(0, a.out))
			for range 2 { // the answer to the first gets lost
				b.e.HandleFrames(0, a.out.Frames())
				b.out.Reset()
				require.Equal(t, 1, b.e.PollTransmit(0, b.out), "%v: no answer", wr.Opcode)
			}
			a.out.Reset()
			a.e.HandleFrames(0, b.out.Frames())
			b.out.Reset()
			a.e.Publish()
			require.Equal(t, WCSuccess, a.poll(t).Status)
			require.Equal(t, round, binary.NativeEndian.Uint64(a.buf), "the value that the atomic found")
		}
	}
}
