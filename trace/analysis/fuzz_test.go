package analysis

import (
	"io"
	"testing"

	"github.com/goroce/goroce/wire"
)

// FuzzTalk analyses any packets in any order: eight bytes a packet, which say who sends it, its
// opcode, PSN, length and what its headers have.
func FuzzTalk(f *testing.F) {
	f.Add([]byte("\x00\x06\x00\x00\x10\x00\x00\x00\x00\x08\x00\x01\x10\x00\x00\x00\x01\x11\x00\x01\x00\x60\x00\x00"))
	f.Add([]byte("\x00\x0c\x00\x00\x00\x00\x40\x00\x01\x0d\x00\x00\xff\x00\x00\x00\x01\x0f\x00\x03\xff\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, script []byte) {
		k := newTalk(t)
		for ; len(script) >= 8 && k.n < 2000; script = script[8:] {
			b := script[:8]
			op := wire.Opcode(b[1])
			if op.Info().Flags == 0 || op.Service() == wire.ServiceRD {
				continue
			}
			n := 0
			if op.Info().Payload == wire.PayloadEight {
				n = 8
			} else if op.Info().Has(wire.OpPayload) {
				n = 4 * int(b[4])
			}
			psn := wire.PSN(0).Add(uint32(b[2]&3)<<22 | uint32(b[2]>>2)<<8 | uint32(b[3]))
			p := k.packet(int(b[0])%2, op, psn, n, func(p *wire.Packet) {
				if h := p.AETH(); h != nil {
					h.Put(wire.Syndrome(b[5]), psn)
				}
				if h := p.RETH(); h != nil {
					h.Put(0x1000, 7, uint32(b[6])<<(b[7]%25))
				}
			})
			p.Comment = string(b[:2])
			k.a.Add(p)
		}
		if err := k.a.Write(io.Discard); err != nil {
			t.Error(err)
		}
		for _, x := range k.a.Flows {
			if x.req.flight.len() > maxFlight || len(x.Findings) > maxFailures {
				t.Errorf("%d messages, %d findings", x.req.flight.len(), len(x.Findings))
			}
		}
	})
}
