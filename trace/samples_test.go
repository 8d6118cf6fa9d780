package trace

// Packets that no capture has, for other tests: each encapsulation, each opcode.

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// For tests outside of the package, which may import what imports it.
var (
	VectorCapture  = vectorCapture
	Encapsulations = encapsulations
	OpcodeCapture  = opcodes
	WorldCapture   = world
	Vectors        = vectors
	WriteCapture   = capture
)

// encapsulations is a packet behind each header that testdata/ does not have.
func encapsulations(t testing.TB) []byte {
	_, frames := vectors(t)
	recs := nativeRecords(t)
	for _, c := range wrapped(t, frames[0]) {
		if c.link != linkRawBSD { // 12 is another link type to tshark
			recs = append(recs, Record{Link: c.link, Data: c.data})
		}
	}
	return capture(t, recs...)
}

// opcodes is a packet of each opcode that tshark may know another way, with a pad.
func opcodes(t testing.TB) []byte {
	path, err := wire.NewPath(gid(t, "10.0.0.1"), gid(t, "10.0.0.2"), 0xc123, 2, 64, 0)
	require.NoError(t, err)
	var recs []Record
	for op := range wire.Opcodes {
		info := wire.Opcode(op).Info()
		if info.Flags == 0 || wire.Opcode(op).Service() == wire.ServiceRD {
			continue
		}
		n := 0
		if info.Payload == wire.PayloadEight {
			n = 8
		} else if info.Has(wire.OpPayload) {
			n = 5
		}
		f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.BodyLen(wire.Opcode(op), n))}
		path.PutHead(f.Head, len(f.Body), 0)
		for i := range f.Body {
			f.Body[i] = byte(i*7 + op) // no field is zero
		}
		var p wire.Packet
		require.True(t, p.Lay(&f, wire.Opcode(op), n))
		p.BTH.Put(wire.Opcode(op), wire.BTHSolicited|wire.BTHAckReq, uint8(wire.Pad(n)), 0xffff, 0x4711, 0x123456)
		wire.Seal(&f)
		recs = append(recs, Record{Link: LinkRaw, Data: wire.AppendFrame(nil, &f)})
	}
	return capture(t, recs...)
}
