// Package layers makes RoCEv2 known to gopacket: importing it is enough for any gopacket program to
// decode UDP port 4791.
//
//	import _ "github.com/goroce/goroce/wire/layers"
//
//	packet := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
//	bth, _ := packet.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
//
// A packet's layers are, after UDP: BTH, the extension headers that its opcode has, in wire order,
// then gopacket.Payload (or MAD for the connection manager's datagrams), then ICRC. The table of
// opcodes is wire.Opcodes.
//
// To build a packet, serialize the layers in that order and Seal the bytes from the IP header on:
//
//	gopacket.SerializeLayers(buf, opts, ip, udp,
//		&BTH{…}, &RETH{…}, gopacket.Payload(data), &ICRC{})
//	err := Seal(buf.Bytes())
//
// With opts.FixLengths BTH inserts the pad and sets PadCount. This package is for tools: the data
// path uses package wire.
package layers
