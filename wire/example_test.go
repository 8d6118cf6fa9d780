package wire_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/wire"
)

// A packet is reserved in a batch, laid out, filled, sealed; on the other side it is split,
// verified and parsed.
func Example() {
	src, dst := wire.GIDFrom(netip.MustParseAddr("192.0.2.1")), wire.GIDFrom(netip.MustParseAddr("192.0.2.2"))
	path, err := wire.NewPath(src, dst, wire.SrcPortFor(0x11, 0x12, 0), 0, 64, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	text := "Hello, RoCEv2"

	batch := wire.NewBatch(16, 1100)
	var p wire.Packet
	f := batch.Reserve(&path, wire.BodyLen(wire.RCWriteOnly, len(text)))
	p.Lay(f, wire.RCWriteOnly, len(text))
	p.BTH.Put(wire.RCWriteOnly, wire.BTHAckReq, uint8(wire.Pad(len(text))), wire.DefaultPKey, 0x12, 5)
	p.RETH().Put(0x7f0000001000, 0x1234, uint32(len(text)))
	copy(p.Payload, text)
	wire.Seal(f)
	onTheWire := wire.AppendFrame(nil, f)

	got, drop := wire.SplitFrame(onTheWire)
	fmt.Println(drop, wire.Verify(&got), wire.Parse(&got, &p))
	line := string(wire.AppendPacket(nil, &got))
	fmt.Println(strings.Replace(line, " va ", "\nva ", 1))
	fmt.Printf("%s\n", p.Payload)
	// Output:
	// none true none
	// 192.0.2.1 > 192.0.2.2 RC RDMA_WRITE_ONLY qp 0x000012 psn 5 ackreq
	// va 0x7f0000001000 rkey 0x00001234 dmalen 13 | 13 B pad 3 | sport 49458
	// Hello, RoCEv2
}
