package qp

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// TestFlushOfGigabytes: a FLUSH of a whole region waits for storage also if the region's length is
// a multiple of 2^32, which 32 bits of it do not show.
func TestFlushOfGigabytes(t *testing.T) {
	length := uint64(1) << 32
	if uint64(uint(length)) != length {
		t.Skip("no memory is that long on a machine of 32 bits")
	}
	huge, err := syscall.Mmap(-1, 0, int(length), syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	require.NoError(t, err)
	defer syscall.Munmap(huge)
	a, b := pair(t, 64, wire.MTU256)
	region, err := b.mem.Register(b.pd, huge, 0, mr.FlushPersistent)
	require.NoError(t, err)
	require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{AccessFlags: mr.FlushPersistent}, AttrAccessFlags))
	a.post(t, SendWR{
		Opcode: WRFlush,
		Flags:  SendSignaled,
		RKey:   region.RKey(),
		Flush:  FlushInfo{Placement: PlacementPersistent, Selectivity: SelectivityMR},
	})
	pump(a, b)
	s, ok := b.e.PollSync()
	require.True(t, ok, "nothing is to be synced")
	require.Len(t, s.Mem, len(huge))
	require.Zero(t, a.cq.Len(), "it has completed before that")
	b.e.Synced(0, s, true)
	pump(a, b)
	require.Equal(t, WCSuccess, a.poll(t).Status)
}
