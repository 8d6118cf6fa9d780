//go:build linux

package networks

// What is wanted of ours, as a table: a figure of a case, and what it is to be at least or at most,
// or against that of another case.

// bar is a demand on one figure.
type bar struct {
	table, row string // as in the name of a case; row "": all
	who        string // "write", "udp-read", ...; "": all of ours
	figure     string // a name of figureOf
	atLeast    float64
	atMost     float64 // 0: no limit
	against    string  // who, in the same row: the figure is a ratio to its
}

// bars are the demands: what nobody who has no lossless network should have to do without, beside
// CUBIC in the same run. Payload is a share of what headers leave of the link.
var bars = []bar{
	{table: "alone", figure: "payload", atLeast: 0.98},
	{table: "alone", figure: "resent", atMost: 1},
	{table: "two", figure: "lost", atMost: 0.5},
	{table: "two", figure: "evenness", atLeast: 0.85},
	{table: "beside-1-cubic", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "beside-4-cubic", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "beside-1-bbr", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "beside-4-bbr", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "crowd", who: "write", figure: "lost", atMost: 2},
	{table: "crowd", who: "write", figure: "jain", atLeast: 0.98},
	{table: "crowd", who: "trip", figure: "p99", atMost: 0.8, against: "tcp-trip"},
	{table: "loss", row: "0.1%", who: "write", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "loss", row: "1%", who: "write", figure: "payload", atLeast: 1.2, against: "cubic"},
	{table: "loss", row: "0.1%-10ms", who: "write", figure: "payload", atLeast: 11, against: "cubic"},
	{table: "loss", row: "1%-10ms", who: "write", figure: "payload", atLeast: 19, against: "cubic"},
	{table: "loss", row: "0.1%-10ms", who: "udp-read", figure: "payload", atLeast: 0.8, against: "udp-write"},
	{table: "loss", row: "1%-10ms", who: "udp-read", figure: "payload", atLeast: 0.8, against: "udp-write"},
	{table: "loss", row: "0.1%-10ms", who: "packet-read", figure: "payload", atLeast: 0.8, against: "packet-write"},
	{table: "loss", row: "1%-10ms", who: "packet-read", figure: "payload", atLeast: 0.8, against: "packet-write"},
	{table: "late", row: "200µs", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "late", row: "2ms", who: "write", figure: "payload", atLeast: 1, against: "cubic"},
	{table: "late", row: "2ms", who: "read", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "long", who: "write", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "long", who: "send", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "long", who: "read", figure: "payload", atLeast: 0.9, against: "cubic"},
}
