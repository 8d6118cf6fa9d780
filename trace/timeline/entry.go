package timeline

// A record of an engine, and whose it is, in words.

import (
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Entry is a record, and whose it is.
type Entry struct {
	Time   int64  // nanoseconds, by the clock that the packets are stamped by
	Node   string // whose engine
	Record qp.Record
}

// Entries makes entries of the records of a node. shift is what is added to the engine's time to
// come to the packets': of a device, the time of day less its clock's (QueryRTValues); of a
// simulated world, 0.
func Entries(dst []Entry, node string, records []qp.Record, shift int64) []Entry {
	for _, r := range records {
		dst = append(dst, Entry{int64(r.At) + shift, node, r})
	}
	return dst
}

// AppendLine appends the entry in words: "A          qp 0x000012 request SEND wr 7, 64 B, psn 5".
func (x *Entry) AppendLine(dst []byte) []byte {
	r := &x.Record
	dst = fmt.Appendf(dst, "%-10s qp 0x%06x %v", trace.Printable(x.Node), r.QPN, r.Kind)
	if say := words[r.Kind]; say != nil {
		dst = append(append(dst, ' '), say(r)...)
	}
	return dst
}

// words are what is said of each kind behind its name.
var words = map[qp.RecordKind]func(r *qp.Record) string{
	qp.RecordRequest: func(r *qp.Record) string {
		return fmt.Sprintf("%v wr %d, %d B, psn %v", qp.WROpcode(r.Op), r.Value, r.Length, r.PSN)
	},
	qp.RecordSent:     packetWords,
	qp.RecordReceived: packetWords,
	qp.RecordDropped: func(r *qp.Record) string {
		return packetWords(r) + ": " + wire.DropReason(r.Value).Explain()
	},
	qp.RecordExecuted: func(r *qp.Record) string {
		text := packetWords(r)
		if r.Value != 0 {
			text += fmt.Sprintf(" at 0x%x", r.Value)
		}
		return text
	},
	qp.RecordRetry:  fromPSN,
	qp.RecordWait:   fromPSN,
	qp.RecordGiveUp: fromPSN,
	qp.RecordCompletion: func(r *qp.Record) string {
		return fmt.Sprintf("%v wr %d: %v", qp.WCOpcode(r.Op), r.Value, qp.WCStatus(r.Length))
	},
	qp.RecordState: func(r *qp.Record) string { return qp.QPState(r.Op).String() },
	qp.RecordGap: func(r *qp.Record) string {
		return fmt.Sprintf("of %d packets from psn %v on", r.Length, r.PSN)
	},
	qp.RecordLost: func(r *qp.Record) string {
		return fmt.Sprintf("%d records before this one: they came faster than they were fetched", r.Value)
	},
	qp.RecordTimer:     timerWords,
	qp.RecordProbe:     func(r *qp.Record) string { return "of psn " + r.PSN.String() },
	qp.RecordDuplicate: packetWords,
	qp.RecordKept:      packetWords,
	qp.RecordSlowed: func(r *qp.Record) string {
		return fmt.Sprintf("to %.3g Gbit/s", 8*float64(r.Value)/1e9)
	},
}

func packetWords(r *qp.Record) string {
	return fmt.Sprintf("%v psn %v, %d B", wire.Opcode(r.Op), r.PSN, r.Length)
}

// timers are what the deadlines of a queue pair are called.
var timers = [...]string{qp.TimerNone: "put off", qp.TimerReady: "after an RNR NAK", qp.TimerAck: "ack timeout",
	qp.TimerProbe: "silence", qp.TimerRate: "rate"}

func timerWords(r *qp.Record) string {
	if int(r.Op) >= len(timers) {
		return ""
	}
	text := timers[r.Op]
	if r.Value > 0 {
		text += fmt.Sprintf(", %d ns", r.Value)
	}
	return text
}

func fromPSN(r *qp.Record) string { return "from psn " + r.PSN.String() }
