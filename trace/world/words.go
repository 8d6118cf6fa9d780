package world

// Entries in sentences.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// statusNames are the names of completion statuses in the verbs.
var statusNames = func() map[int]string {
	names := map[int]string{}
	for _, t := range trace.Topics() {
		if t.Kind == "completion status" {
			names[t.Number] = t.Name
		}
	}
	return names
}()

// StatusName is the name of a status in the verbs: "IBV_WC_SUCCESS".
func StatusName(s qp.WCStatus) string { return statusNames[int(s)] }

// RecordWords say what a device did.
func RecordWords(r *qp.Record) string {
	if say := words[r.Kind]; say != nil {
		return say(r)
	}
	return r.Kind.String()
}

var words = map[qp.RecordKind]func(r *qp.Record) string{
	qp.RecordRequest: func(r *qp.Record) string {
		return fmt.Sprintf("the device takes wr %d: %v, %d bytes, PSN %v", r.Value, qp.WROpcode(r.Op), r.Length, r.PSN)
	},
	qp.RecordDropped: func(r *qp.Record) string {
		if refused(r) {
			return fmt.Sprintf("the device refuses %v, PSN %v", wire.Opcode(r.Op), r.PSN)
		}
		return fmt.Sprintf("the device drops %v, PSN %v: %s",
			wire.Opcode(r.Op), r.PSN, wire.DropReason(r.Value).Explain())
	},
	qp.RecordExecuted: executedWords,
	qp.RecordRetry: func(r *qp.Record) string {
		return fmt.Sprintf("the device sends again, from PSN %v on", r.PSN)
	},
	qp.RecordWait: func(r *qp.Record) string {
		return fmt.Sprintf("the device waits, as the peer is not ready, and will send again from PSN %v on", r.PSN)
	},
	qp.RecordGiveUp: func(*qp.Record) string { return "no retry is left: the device gives up" },
	qp.RecordTimer:  timerWords,
	qp.RecordProbe: func(r *qp.Record) string {
		return fmt.Sprintf("the device sends PSN %v again, to hear what the peer has", r.PSN)
	},
	qp.RecordDuplicate: func(r *qp.Record) string {
		return fmt.Sprintf("PSN %v is here already: %s", r.PSN, again(r))
	},
	qp.RecordKept: func(r *qp.Record) string {
		return fmt.Sprintf("the device keeps PSN %v until the gap before it is filled", r.PSN)
	},
	qp.RecordCompletion: func(r *qp.Record) string {
		what := ""
		if qp.WCStatus(r.Length) == qp.WCSuccess {
			what = " of " + qp.WCOpcode(r.Op).String()
		}
		return fmt.Sprintf("completion%s, wr %d: %s (%d)", what, r.Value, StatusName(qp.WCStatus(r.Length)), r.Length)
	},
	qp.RecordState:  func(r *qp.Record) string { return fmt.Sprintf("QP 0x%06x is in %v", r.QPN, qp.QPState(r.Op)) },
	qp.RecordMarked: func(*qp.Record) string { return "a packet came that a switch had marked: a CNP is due" },
	qp.RecordGap: func(r *qp.Record) string {
		return fmt.Sprintf("the peer misses %d packets from PSN %v on: they alone are sent again", r.Length, r.PSN)
	},
	qp.RecordLost: func(r *qp.Record) string { return fmt.Sprintf("%d records are lost", r.Value) },
	qp.RecordSlowed: func(r *qp.Record) string {
		return fmt.Sprintf("a CNP came: the device sends at %.3g Gbit/s from now on", 8*float64(r.Value)/1e9)
	},
}

// timerWords say which time is up.
func timerWords(r *qp.Record) string {
	switch qp.TimerKind(r.Op) {
	case qp.TimerReady:
		return "the time is over that the peer has asked for"
	case qp.TimerAck:
		return fmt.Sprintf("the ack timeout is over: no acknowledgement for %.1f us", float64(r.Value)/1000)
	case qp.TimerProbe:
		return "nothing was heard for some round trips"
	case qp.TimerRate:
		return "the rate lets the next packet go"
	}
	return "a time is up"
}

// again says what a device does instead of executing a request once more.
func again(r *qp.Record) string {
	info := wire.Opcode(r.Op).Info()
	switch {
	case info == nil:
	case info.Flags&wire.OpRead != 0:
		return "the device reads the bytes again"
	case info.Flags&wire.OpAtomic != 0:
		return "the device executes nothing, and answers from what it has kept"
	case info.Flags&wire.OpWrite != 0:
		return "the device writes nothing, and repeats its ACK"
	case info.Flags&wire.OpSend != 0:
		return "the device takes no receive, and repeats its ACK"
	}
	return "the device does not execute it again"
}

// refused says of a dropped packet whether it was a request that is answered by a NAK.
func refused(r *qp.Record) bool {
	info := wire.Opcode(r.Op).Info()
	return wire.DropReason(r.Value) == wire.DropMalformed && info != nil && info.Flags&wire.OpResponse == 0
}

// executedWords say what a request has done to memory.
func executedWords(r *qp.Record) string {
	op := wire.Opcode(r.Op)
	info := op.Info()
	switch {
	case info == nil:
		return "the device executes " + op.String()
	case info.Flags&wire.OpAtomic != 0:
		return fmt.Sprintf("the device reads and changes the 8 bytes at 0x%x", r.Value)
	case info.Flags&wire.OpRead != 0:
		return fmt.Sprintf("the device will send %d bytes from 0x%x on", r.Length, r.Value)
	case info.Flags&wire.OpWrite != 0:
		return fmt.Sprintf("the device writes %d bytes at 0x%x", r.Length, r.Value)
	case info.Flags&wire.OpSend != 0:
		return fmt.Sprintf("the device writes %d bytes where the oldest receive says", r.Length)
	}
	return "the device executes " + op.String()
}

// sendWords say what was posted.
func sendWords(wr *qp.SendWR) string {
	text := fmt.Sprintf("%v, wr %d, %d bytes", wr.Opcode, wr.WRID, lengthOf(wr.SGL)+len(wr.Inline))
	for _, f := range []struct {
		flag qp.SendFlags
		name string
	}{{qp.SendSignaled, "signaled"}, {qp.SendFence, "fenced"}, {qp.SendSolicited, "solicited"},
		{qp.SendInline, "inline"}} {
		if wr.Flags&f.flag != 0 {
			text += ", " + f.name
		}
	}
	return text
}

// accessNames are the rights of a region, as IBV_ACCESS_... has them, by their bits.
var accessNames = [...]string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED"}

// accessWords are the rights of a region.
func accessWords(a mr.Access) string {
	if a == 0 {
		return "no rights"
	}
	var names []string
	for i := range 32 {
		switch {
		case a&(1<<i) == 0:
		case i < len(accessNames):
			names = append(names, accessNames[i])
		default:
			names = append(names, fmt.Sprintf("bit %d", i))
		}
	}
	return strings.Join(names, " ")
}

// pollWords say what a poll has found.
func pollWords(wcs []qp.WC) string {
	if len(wcs) == 0 {
		return "ibv_poll_cq: nothing"
	}
	var all []string
	for i := range wcs {
		all = append(all, fmt.Sprintf("wr %d %s (%d)", wcs[i].WRID, StatusName(wcs[i].Status), wcs[i].Status))
	}
	return "ibv_poll_cq: " + strings.Join(all, ", ")
}

// eventWords say what an asynchronous event is.
func eventWords(ev *qp.Event) string {
	for _, t := range trace.Topics() {
		if t.Kind == "event" && t.Number == int(ev.Type) {
			return t.Name + ": " + t.Means
		}
	}
	return ev.Type.String()
}
