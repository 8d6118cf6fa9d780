// Package diff says what two captures of one connection, taken at its two ends, differ in: what was
// lost between them, what came twice or in another order, what a switch marked, what was damaged,
// and how long packets took.
//
//	d := diff.New()
//	for each packet of the one { d.Add(0, p) }
//	for each packet of the other { d.Add(1, p) }
//	d.Compare().Write(os.Stdout)
//
// The files, in reading order:
//
//	diff.go     packets → what must be kept of them, and what is found out
//	match.go    which packet of the one capture is which of the other
//	clocks.go   who is at which end, and how far the clocks are apart
//	report.go   all of it as text
//
// A packet is known by its addresses, queue pair, opcode, PSN and ICRC, which are the same at both
// ends, so that one that is sent again looks like the first: which of the two has arrived is told
// by time. Clocks of two machines differ by an unknown amount. Packets of both ways tell the round
// trip exactly, and how it divides into there and back not at all: the clocks are set so that the
// fastest packet of each way takes as long as the fastest of the other. Memory grows with the
// captures, about 50 bytes a packet, up to MaxPackets.
package diff
