package trace

// RoCEv1 and InfiniBand. Stages: headers before a body of RoCEv2 → the
// ICRC by section 3.1, computed bit by bit and without the code that is tested → what may change on
// the way, and what may not → the packets of testdata/captures/infiniband.pcapng.

import (
	"bytes"
	goflag "flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

var generate = goflag.Bool("generate", false, "make testdata/captures/infiniband.pcapng anew")

// bitwise is the CRC of section 3.1, shifted out bit by bit.
func bitwise(parts ...[]byte) uint32 {
	register := ^uint32(0)
	for _, b := range bytes.Join(parts, nil) {
		register ^= uint32(b)
		for range 8 {
			low := register & 1
			register >>= 1
			if low == 1 {
				register ^= 0xedb88320
			}
		}
	}
	return ^register
}

// masked is a header with bits put to one.
func masked(header []byte, bits map[int]byte) []byte {
	b := bytes.Clone(header)
	for at, ones := range bits {
		b[at] |= ones
	}
	return b
}

// native is a kind of packet.
type native struct {
	name     string
	lrh, grh bool
	// Bits that may change on the way: what the ICRC does not cover, and what it masks of the GRH.
	link, global map[int]byte
}

var natives = []native{
	{"RoCEv1", false, true, map[int]byte{0: 0xff, 5: 0xff, 6: 0xff, 11: 0xff}, routed},
	{"InfiniBand, without a GRH", true, false, map[int]byte{0: 0xf0}, nil}, // the virtual lane
	{"InfiniBand, with a GRH", true, true, map[int]byte{0: 0xff, 1: 0xfc, 2: 0xff, 3: 0xff, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff}, routed},
}

// routed are traffic class, flow label and hop limit of a GRH.
var routed = map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff}

// header is all before the BTH of a body, and where what follows the link's header begins in it.
func (k native) header(body int) (b []byte, link LinkType, grh int) {
	link = LinkInfiniBand
	if !k.lrh {
		b, link = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x89, 0x15), LinkEthernet
	} else {
		length := uint16(lrhLen + body) // without the VCRC, in words of four
		next := byte(2)
		if k.grh {
			length, next = length+grhLen, 3
		}
		b = be.AppendUint16(append(b, 0x50, 0x40|next, 0, 7), length/4)
		b = append(b, 0, 9)
	}
	grh = len(b)
	if k.grh {
		b = be.AppendUint16(append(b, 0x6e, 0x21, 0xfa, 0xce), uint16(body))
		b = append(append(b, grhNext, 63), bytes.Repeat([]byte{0xfe, 0x80, 1, 2}, 8)...)
	}
	return b, link, grh
}

// make puts the header and the ICRC around a body of RoCEv2, whose last four bytes are its ICRC.
func (k native) make(body []byte) Record {
	b, link, grh := k.header(len(body))
	covered := masked(body[:len(body)-4], map[int]byte{4: 0xff})
	var sum uint32
	if k.grh {
		ones := bytes.Repeat([]byte{0xff}, 8)
		sum = bitwise(ones, masked(b[grh:], routed), covered)
	} else {
		sum = bitwise(masked(b, map[int]byte{0: 0xf0}), covered)
	}
	b = le.AppendUint32(append(b, body[:len(body)-4]...), sum)
	if k.lrh {
		b = append(b, 0, 0) // a VCRC, which we do not look at
	}
	return Record{Link: link, Data: b, Length: len(b)}
}

// behindERF puts the record of an Endace card before a packet of InfiniBand.
func behindERF(r Record) Record {
	b := append(make([]byte, 16), r.Data...)
	b[8] = erfInfiniBand
	be.PutUint16(b[10:], uint16(len(b)))
	be.PutUint16(b[14:], uint16(len(r.Data)))
	return Record{Link: LinkERF, Data: b, Length: len(b)}
}

// nativeBody is the body of a vector.
func nativeBody(t testing.TB) []byte {
	_, frames := vectors(t)
	f, drop := wire.SplitFrame(frames[0][14:])
	require.Equal(t, wire.DropNone, drop)
	return f.Body
}

// TestBitwise: the CRC of the tests is that of section 3.1.
func TestBitwise(t *testing.T) {
	require.Equal(t, uint32(0xcbf43926), bitwise([]byte("12345"), []byte("6789")), "the check value of CRC-32/ISO-HDLC")
	require.Equal(t, uint32(0x2144df1c), bitwise(bytes.Repeat([]byte{0xff}, 8)))
}

// TestNative: what routers and switches change may change without the ICRC. Nothing else may that
// leaves a packet.
func TestNative(t *testing.T) {
	body := nativeBody(t)
	for _, k := range natives {
		r := k.make(body)
		head, _, grh := k.header(len(body))
		free := map[int]byte{len(head) + 4: 0xff} // FECN, BECN and reserved bits of the BTH
		for at, bits := range k.link {
			free[at] = bits
		}
		for at, bits := range k.global {
			free[grh+at] = bits
		}
		ether := map[bool]int{false: 14}[k.lrh] // no ICRC covers Ethernet's header
		for i := range 8 * len(r.Data) {
			at, bit := i/8, byte(1)<<(i%8)
			p := &Packet{Record: Record{Link: r.Link, Data: bytes.Clone(r.Data), Length: r.Length}}
			p.Data[at] ^= bit
			p.Decode()
			switch {
			case free[at]&bit != 0:
				require.True(t, p.Parsed, "%s: byte %d, bits %#x: %s%s", k.name, at, bit, p.Why, p.Problem)
				require.Equal(t, ICRCRight, p.ICRC, "%s: byte %d, bits %#x", k.name, at, bit)
			case p.Parsed && at >= ether && at < len(head)+len(body):
				require.Equal(t, ICRCWrong, p.ICRC, "%s: byte %d, bits %#x", k.name, at, bit)
			}
		}
		p := &Packet{Record: r}
		p.Decode()
		require.Equal(t, ICRCRight, p.ICRC, k.name)
		if k.grh {
			require.Contains(t, string(p.AppendLine(nil)), p.Kind.String()+" fe80:102:")
		}
	}
}

// nativeRecords are each kind as tshark can read it too, which takes a bare LRH for something else.
func nativeRecords(t testing.TB) (all []Record) {
	for i, k := range natives {
		r := k.make(nativeBody(t))
		if k.lrh {
			r = behindERF(r)
		}
		r.Time = 1_700_000_000_000_000_000 + int64(i)*1000
		all = append(all, r)
	}
	return all
}

// TestNativeCapture: testdata has these records, which -generate writes.
func TestNativeCapture(t *testing.T) {
	const name = "../testdata/captures/infiniband.pcapng"
	made := capture(t, nativeRecords(t)...)
	if *generate {
		require.NoError(t, os.WriteFile(name, made, 0o644))
	}
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, made, file, "go test ./trace -run TestNativeCapture -generate")
	all(t, file, func(p *Packet) {
		require.Equal(t, ICRCRight, p.ICRC, "packet %d: %s", p.Number, p.Problem)
	})
}
