package stream

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoves walks the table of states: what is told to the other end, and that an end once told is
// never taken back.
func TestMoves(t *testing.T) {
	for s := range states {
		for ev := range events {
			m := moves[s][ev]
			require.False(t, m.to.MayRead() && !s.MayRead(), "%v, event %d: reads again", s, ev)
			require.False(t, m.to.MayWrite() && !s.MayWrite(), "%v, event %d: writes again", s, ev)
			require.False(t, s.Over() && m != (move{to: s}), "%v, event %d: goes on", s, ev)
			local := ev <= endBoth
			answers := ev == gotDisconnect && (s.MayRead() || s.MayWrite())
			ends := m.to == Closing && s != Closing // by gotShutdown too: both have ended writing
			require.Equal(t, ends || answers, m.owes == disconnect, "%v, event %d", s, ev)
			require.Equal(t, s == Open && m.to == ReadOnly, m.owes == shutdown, "%v, event %d", s, ev)
			require.True(t, local || answers || ends || m.owes == nothing, "%v, event %d: an answer is owed", s, ev)
		}
	}
	// the rows of section 6, in its order: open, read-only, write-only, closing
	for ev, row := range map[event][4]State{
		endWrite:       {ReadOnly, ReadOnly, Closing, Closing},
		endRead:        {WriteOnly, Closing, WriteOnly, Closing},
		endBoth:        {Closing, Closing, Closing, Closing},
		gotShutdown:    {WriteOnly, Closing, WriteOnly, Closing},
		gotDisconnect:  {Disconnected, Disconnected, Disconnected, Disconnected},
		toldDisconnect: {Open, ReadOnly, WriteOnly, Disconnected},
	} {
		for s, to := range row {
			require.Equal(t, to, moves[s][ev].to, "%v, event %d", State(s), ev)
		}
	}
}

// TestConnData: the bytes of section 2.1.
func TestConnData(t *testing.T) {
	d := ConnData{BigEndian: true, Credits: 384, Maps: 128, SGL: SGE{0x0102030405060708, 0x0a0b0c0d, 2},
		Buffer: SGE{0x1112131415161718, 0x1a1b1c1d, 65536}}
	const text = "0103018000000080" + "0102030405060708" + "0a0b0c0d" + "00000002" + "1112131415161718" + "1a1b1c1d" + "00010000"
	require.Equal(t, text, hex.EncodeToString(d.Marshal()))
	back, err := ParseConnData(append(d.Marshal(), make([]byte, 16)...))
	require.NoError(t, err)
	require.Equal(t, d, back)

	for name, change := range map[string]func(b []byte) []byte{
		"too short":     func(b []byte) []byte { return b[:39] },
		"version 2":     func(b []byte) []byte { b[0] = 2; return b },
		"one entry":     func(b []byte) []byte { b[23] = 1; return b },
		"no first room": func(b []byte) []byte { b[37] = 0; return b },
	} {
		_, err := ParseConnData(change(d.Marshal()))
		require.ErrorIs(t, err, ErrProtocol, name)
	}
}

// TestScale: numbers up to 128 are themselves, larger ones multiples of 256.
func TestScale(t *testing.T) {
	for n := range 129 {
		require.Equal(t, n, unscale(scale(n)))
	}
	for n := 256; n < 1<<15; n += 256 {
		require.Equal(t, n, unscale(scale(n)))
	}
}

// lone is an end whose other end is the test.
func lone() *End {
	e := NewEnd(Config{SendBuffer: 100, ReceiveBuffer: 64, SendDepth: 10, Credits: 8, Maps: 1, Tables: make([]byte, TablesSize(1))})
	e.Start(ConnData{Credits: 5, SGL: SGE{1000, 1, 2}, Buffer: SGE{2000, 2, 50}})
	return e
}

// TestBrokenRules: what a peer must not do fails the connection, and nothing else.
func TestBrokenRules(t *testing.T) {
	for name, messages := range map[string][][2]uint32{
		"more than there is room":       {{30, 30}, {3, 3}},
		"bytes that do not count":       {{30, 31}},
		"reserved message 1":            {{1 << 29, 0}},
		"reserved message 2":            {{2 << 29, 0}},
		"reserved message 3":            {{3 << 29, 0}},
		"reserved message 5":            {{5 << 29, 0}},
		"an update of 8 bytes":          {{4 << 29, 8}},
		"three buffers at a time":       {{4 << 29, 16}, {4 << 29, 16}, {4 << 29, 16}},
		"an iomap entry that is not":    {{6<<29 | 1, 24}},
		"an iomap entry far beyond all": {{6<<29 | 1<<28, 24}},
	} {
		e := lone()
		for _, m := range messages {
			e.Received(m[0], m[1])
		}
		require.ErrorIs(t, e.Err(), ErrProtocol, name)
		require.Equal(t, Failed, e.State(), name)
		var r Request
		require.False(t, e.Control(&r), name)
		require.Zero(t, e.Send(1, &r), name)
	}
	e := lone()
	e.Received(7<<29|1, 0) // keepalive as a message, and others that are not known yet, say nothing
	e.Received(7<<29|9, 0)
	require.NoError(t, e.Err())
	require.Equal(t, Open, e.State())
}

// TestCut: what came before a failure is all if the stream to this end had ended by then.
func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*End)
		cut    bool
	}{
		"open":                        {func(*End) {}, true},
		"this end has ended writing":  {(*End).EndWrite, true},
		"this end has ended reading":  {(*End).EndRead, false},
		"the other has ended writing": {func(e *End) { e.Received(7<<29|2, 0) }, false},
		"both have ended writing":     {func(e *End) { e.EndWrite(); e.Received(7<<29|2, 0) }, false},
	} {
		e := lone()
		c.before(e)
		e.Fail(ErrProtocol)
		require.ErrorIs(t, e.Err(), ErrProtocol, name)
		require.Equal(t, c.cut, e.Cut() != nil, name)
	}
}

// TestLargeRoom: a message of the application's own memory is never longer than its immediate can
// say, however much room the other end tells of.
func TestLargeRoom(t *testing.T) {
	e := NewEnd(Config{SendBuffer: 100, ReceiveBuffer: 64, SendDepth: 10, Credits: 8, Tables: make([]byte, TablesSize(0))})
	e.Start(ConnData{Credits: 5, SGL: SGE{1000, 1, 2}, Buffer: SGE{2000, 2, 1<<32 - 1}})
	var r Request
	n := e.SendOwn(1<<29, &r)
	require.Equal(t, MaxOwn, n)
	require.EqualValues(t, n, r.Imm)
	require.Equal(t, 100, e.Send(1000, &r))
}

// FuzzReceived: whatever a peer sends, an end neither panics nor loses count of what is in its
// buffer.
func FuzzReceived(f *testing.F) {
	f.Add([]byte{0, 30, 0x80, 16, 1, 2, 3})
	f.Fuzz(func(t *testing.T, in []byte) {
		e := lone()
		copy(e.cfg.Tables, in)
		for len(in) >= 3 {
			imm := uint32(in[0])<<24 | uint32(in[1])
			e.Received(imm, uint32(in[1])*uint32(in[2]&1)+uint32(in[2]>>1))
			from, n := e.Pending()
			if from < 0 || n < 0 || from+n > 64 || e.there < n || e.there > 64 {
				t.Fatalf("%d bytes from %d on, %d in all", n, from, e.there)
			}
			if in[2]&2 != 0 {
				e.Consume(n)
			}
			var r Request
			for e.Control(&r) {
				e.Sent(r.ID)
			}
			e.Send(int(in[2]), &r)
			in = in[3:]
		}
	})
}

// FuzzConnData: what is taken can be marshaled, and says the same.
func FuzzConnData(f *testing.F) {
	f.Add(ConnData{Credits: 1, SGL: SGE{1, 2, 3}, Buffer: SGE{4, 5, 6}}.Marshal())
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := ParseConnData(in)
		if err != nil {
			return
		}
		back, err := ParseConnData(d.Marshal())
		require.NoError(t, err)
		require.Equal(t, d, back)
	})
}
