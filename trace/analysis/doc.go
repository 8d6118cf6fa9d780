// Package analysis finds out from the packets of a capture what became of each message: how long it
// took, what was sent again and why, what was refused, and by which rule.
//
//	a := analysis.New()
//	for each packet { a.Add(p) }
//	a.Write(os.Stdout)
//
// The files, in reading order:
//
//	analysis.go   packets → flows: what goes from one address to one queue pair of another
//	pair.go       which two flows are the two ways of one connection: by messages of the
//	              connection manager, or by sequence numbers
//	request.go    a flow's requests: new, missing, sent again, and why
//	response.go   what is said about them: acknowledged, refused, put off, answered
//	message.go    messages in flight, and what is known of those that are done
//	finding.go    what went wrong, with the rule that says so
//	records.go    what the device that captured has recorded beside the packets, if it has
//	graph.go      a flow over time, for pictures
//	report.go     all of it as text
//	json.go       the same as JSON, and the verdict in a line
//
// It sees what the capture has seen, which is not what either end has: a packet that is in the
// capture may have been lost behind it, and one that is missing may only have been missed. Why a
// sender went back is told by what was said to it before; of simulated worlds that is right 98
// times of 100 where it is not called a guess and what was said has arrived (TestWorlds). Memory is
// bounded: by the number of flows (maxFlows), and for each by constants.
package analysis
