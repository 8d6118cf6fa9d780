// Package trace reads packets of RoCE from capture files and says what is in them: a line for each,
// every field with its meaning, a picture of its bytes, and what became of each message.
//
//	src, err := trace.NewSource(file)   // pcap or pcapng
//	for {
//		p, err := src.Next()            // io.EOF at the end; p is valid until the next call
//		line = p.AppendLine(line[:0])
//	}
//
// The files, in reading order:
//
//	file.go, pcap.go, pcapng.go   capture files → records
//	link.go                       a record's bytes → where IP, a GRH or an LRH begins
//	packet.go                     a record → packets; what is wrong with them
//	rocev1.go                     RoCEv1 and InfiniBand: their addresses and their ICRC
//	fields.go, rows.go, words.go  every field: where it is, its value, what that means
//	print.go, json.go, explain.go a packet as a line, as all of its fields, as JSON, as a picture
//	status.go                     what a status, a syndrome or an event means, and where to look
//	counters.go                   the same of the counters that devices and drivers report
//
// Package trace/filter chooses packets by expressions, trace/analysis says what became of each
// message, trace/diff what two captures of one connection differ in, trace/ladder draws packets,
// trace/world is a simulated world for lessons, all of whose packets, queues and memory are seen.
//
// Everything reads as a stream: memory does not grow with the file. Nothing here is for concurrent
// use; values of different sources are independent. Malformed and truncated input is explained, by
// an error that says where the file is damaged, or by Packet.Problem.
package trace
