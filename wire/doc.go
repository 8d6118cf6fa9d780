// Package wire is RoCEv2 as bytes: packet formats and nothing else. It keeps no state, does no I/O,
// starts nothing, and on the data path allocates nothing and calls no interface.
//
// A packet as the rest of the stack sees it:
//
//	 IPv4 20 | IPv6 40   UDP 8      BTH 12   extension headers   payload   pad 0..3   ICRC 4
//	└────────── Frame.Head ──────┘└───────────────────────── Frame.Body ────────────────────┘
//
// How to read the package, in the order a packet meets it:
//
//	gid.go psn.go mtu.go syndrome.go   addresses, sequence numbers, sizes, acknowledge codes
//	opcode.go opcodes.go               one row per opcode: name, headers in order, what it does
//	header.go ext.go ip.go             headers as views: a *[N]byte, a method for each field
//	frame.go drop.go packet.go         bytes → Frame → Packet, and the reasons why not
//	path.go batch.go                   an address vector → Head; a batch of packets to send
//	crc.go crc_shifts.go               CRC-32 of headers, and of payloads without instructions
//	icrc.go icrc_amd64.*               the invariant CRC: Seal and Verify
//	solve.go                           what to do when a socket hides what the ICRC covers
//	mad.go cm.go cmreq.go cmwalk.go    management datagrams and messages of the CM
//	print.go                           one line of text per packet
//
// Field names are those of the InfiniBand Architecture Specification. "Section n" in a comment
// means docs/rocev2.md; "IBTA C9-n" is a numbered rule of the specification.
package wire
