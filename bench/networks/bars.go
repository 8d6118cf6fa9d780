package networks

// What is wanted of ours, as a table: a figure of a case, and what it is to be at least or at most,
// or against that of another case.

// bar is a demand on one figure.
type bar struct {
	table, row string // as in the name of a case; row "": all
	who        string // "write", "read", ...; "": all of ours
	figure     string // a name of figureOf
	atLeast    float64
	atMost     float64 // 0: no limit
	against    string  // who, in the same row: the figure is a ratio to its
}

// bars are the demands. Payload is a share of what headers leave of the link.
var bars = []bar{
	{table: "alone", figure: "payload", atLeast: 0.97},
	{table: "alone", row: "64k", figure: "resent", atMost: 2},
	{table: "alone", row: "256k", figure: "resent", atMost: 0.5},
	{table: "alone", row: "1m", figure: "resent", atMost: 0.5},
	{table: "two", figure: "lost", atMost: 1},
	{table: "two", figure: "evenness", atLeast: 0.8},
	{table: "beside-1-cubic", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "beside-4-cubic", figure: "share", atLeast: 0.5, atMost: 2},
	{table: "beside-1-bbr", figure: "share", atLeast: 0.25, atMost: 2},
	{table: "beside-4-bbr", figure: "share", atLeast: 0.25, atMost: 2},
	{table: "crowd", who: "write", figure: "lost", atMost: 5},
	{table: "crowd", who: "write", figure: "jain", atLeast: 0.95},
	{table: "crowd", who: "trip", figure: "p99", atMost: 1.5, against: "tcp-trip"},
	{table: "loss", figure: "payload", atLeast: 1, against: "cubic"},
	{table: "late", figure: "payload", atLeast: 0.9, against: "cubic"},
	{table: "long", row: "10ms", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "long", row: "20ms", figure: "payload", atLeast: 0.95, against: "cubic"},
	{table: "long", row: "50ms", figure: "payload", atLeast: 0.6, against: "cubic"},
	{table: "long", row: "100ms", figure: "payload", atLeast: 0.3, against: "cubic"},
}
