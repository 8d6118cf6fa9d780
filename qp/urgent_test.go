package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestUrgent: a NAK and a CNP may not wait, whatever the reason for them; an ACK may. It lasts
// until everything has been sent.
func TestUrgent(t *testing.T) {
	write := func(a, b *end, n int) []wire.Frame {
		a.post(t, SendWR{Opcode: WRWrite, SGL: []SGE{a.sge(0, n)}, RemoteAddr: b.reg.IOVA(), RKey: b.reg.RKey()})
		a.e.HandlePosted(0)
		a.e.PollTransmit(0, a.out)
		return a.out.Frames()
	}
	for name, c := range map[string]struct {
		urgent    bool
		selective bool
		arrives   func(a, b *end) []wire.Frame
	}{
		"ACK":     {false, false, func(a, b *end) []wire.Frame { return write(a, b, 8) }},
		"gap":     {true, false, func(a, b *end) []wire.Frame { return write(a, b, 600)[1:] }},
		"kept":    {true, true, func(a, b *end) []wire.Frame { return write(a, b, 600)[1:] }},
		"refused": {true, false, func(a, b *end) []wire.Frame { return write(a, &end{reg: a.reg}, 8) }},
		"RNR": {true, false, func(a, b *end) []wire.Frame {
			a.post(t, SendWR{Opcode: WRSend})
			return write(a, b, 8)
		}},
		"marked": {true, false, func(a, b *end) []wire.Frame {
			frames := write(a, b, 8)
			frames[0].IPv4().SetTOS(wire.ECNCongestion)
			wire.Seal(&frames[0])
			return frames
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newEnd(t, "10.0.0.1", 1, 1<<10), newEnd(t, "10.0.0.2", 2, 1<<10)
			a.selective, b.selective = c.selective, c.selective
			a.connect(t, b, wire.MTU256)
			b.connect(t, a, wire.MTU256)
			a.out.Reset()
			b.receive(c.arrives(a, b)...)
			require.Equal(t, c.urgent, b.e.Urgent())
			require.NotZero(t, b.e.PollTransmit(0, b.out))
			require.False(t, b.e.Urgent())
		})
	}
}
