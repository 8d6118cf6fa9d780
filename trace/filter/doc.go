// Package filter chooses packets by expressions as Wireshark's display filters are written, with
// the same names of fields where Wireshark has them:
//
//	infiniband.bth.opcode == RC_ACKNOWLEDGE && infiniband.aeth.syndrome >= 0x60
//	ip.src == 10.0.0.0/24 and not udp.srcport in {4791, 49152..65535}
//	infiniband.bth.psn > 100 || frame.comment contains "retry"
//
// A field that occurs several times in a packet, or stands for several (ip.addr), fulfils a
// comparison if one of its values does; != means that none is equal. A packet without the field
// fulfils no comparison. A name alone asks whether the field is there.
//
// The files, in reading order:
//
//	fields.go   which names there are, and where their values come from
//	lex.go      the text → words
//	parse.go    words → a tree of tests; errors name what is wrong, and where
//	match.go    the tests against a packet
package filter
