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
			a.q.rec.sequence = sequence{una: first, psn: first, top: first, reached: first}
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

// TestReplayParts: parts of a READ that are asked for again while others are queued are all sent,
// once if possible, and nothing is forgotten that was queued.
func TestReplayParts(t *testing.T) {
	type part struct{ next, packets uint32 }
	for name, c := range map[string]struct {
		queued, asked part
		want          []part
	}{
		"not come to it":        {part{10, 10}, part{12, 3}, []part{{10, 10}}},
		"the same":              {part{10, 10}, part{10, 10}, []part{{10, 10}}},
		"past it":               {part{10, 10}, part{2, 3}, []part{{10, 10}, {2, 3}}},
		"just past it":          {part{10, 10}, part{7, 3}, []part{{10, 10}, {7, 3}}},
		"in the middle":         {part{10, 10}, part{8, 4}, []part{{10, 10}, {8, 2}}},
		"in the middle, to end": {part{10, 10}, part{8, 12}, []part{{8, 12}}},
		"ends before":           {part{10, 2}, part{11, 3}, []part{{11, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, b := pair(t, 4096, wire.MTU256)
			r := &b.q.resp
			r.resize(4)
			r.length = 20 * 256
			b.e.acceptRead(b.q)
			r.jobAt(0).next, r.jobAt(0).left = wire.PSN(c.queued.next), c.queued.packets*256
			b.e.oweAgain(b.q, job{answer: answerData, again: true, start: wire.PSN(c.asked.next), next: wire.PSN(c.asked.next),
				left: c.asked.packets * 256})
			var got []part
			for n := range r.jobLen {
				got = append(got, part{uint32(r.jobAt(n).next), r.jobAt(n).left / 256})
			}
			require.Equal(t, c.want, got)
			require.Equal(t, len(c.want), int(r.res[0].owed))
		})
	}
}
