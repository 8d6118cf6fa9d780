package world

// A play: all that happened in a world, as pictures of it need it. Its JSON is what the page and
// the terminal read; fields without a name there are for checks.

import (
	"encoding/hex"

	"github.com/goroce/goroce/qp"
)

// Play is what happened. Times are nanoseconds since the world began; hosts, packets, regions are
// numbers of their places, packets from 1 on.
type Play struct {
	Title       string       `json:"title"`
	Hosts       []HostInfo   `json:"hosts"`
	Packets     []Packet     `json:"packets"`
	Entries     []Entry      `json:"entries"`     // in the order of time
	Moments     []Moment     `json:"moments"`     // queues and memory, whenever they changed
	Completions []Completion `json:"completions"` // all that were in a completion queue
	Notes       []Note       `json:"notes"`
	Unfinished  bool         `json:"unfinished,omitempty"` // it did not come to rest, and was ended
}

// HostInfo is a host.
type HostInfo struct {
	Name    string       `json:"name"`
	Addr    string       `json:"addr"`
	QPs     []QPInfo     `json:"qps"`
	CQs     []CQInfo     `json:"cqs"`
	Regions []RegionInfo `json:"regions"`
}

// QPInfo is a queue pair: its number, "RC", "UC" or "UD", and the number of the peer's, if it has
// one.
type QPInfo struct {
	QPN  uint32 `json:"qpn"`
	Type string `json:"type"`
	Peer uint32 `json:"peer,omitempty"`
}

// CQInfo is a completion queue.
type CQInfo struct {
	Name string `json:"name"`
	Size int    `json:"size"` // completions that fit
}

// RegionInfo is registered memory. Its bytes are 0 until a moment says something else.
type RegionInfo struct {
	Name   string `json:"name"`
	Addr   string `json:"addr"` // "0x100000"
	Length int    `json:"length"`
	LKey   uint32 `json:"lkey"`
	RKey   uint32 `json:"rkey"`
	Access string `json:"access"`
}

// Fate is what became of a packet on its way.
type Fate string

// The fates.
const (
	Delivered  Fate = "delivered"
	Lost       Fate = "lost"
	Duplicated Fate = "duplicate"
	Corrupted  Fate = "corrupt"
	Marked     Fate = "marked"
	UnderWay   Fate = "under way" // when the play ended
)

// Packet is a packet that was sent. To one of a multicast group each member gets one.
type Packet struct {
	N       int    `json:"n"`
	From    int    `json:"from"`
	To      int    `json:"to"` // -1: nobody has the address
	Sent    int64  `json:"sent"`
	Arrived int64  `json:"arrived"`         // 0: it did not
	Again   int64  `json:"again,omitempty"` // of a duplicate: the second time
	Fate    Fate   `json:"fate"`
	Change  Action `json:"change,omitempty"` // what was asked for
	Line    string `json:"line"`             // as roce trace decode has it
	QPN     uint32 `json:"qpn"`              // the destination's
	PSN     uint32 `json:"psn"`
	// request, response (of a READ or an atomic), ack, nak, cnp, cm, other
	Kind   string  `json:"kind"`
	Op     string  `json:"op"`    // "RC SEND_ONLY"
	Label  string  `json:"label"` // for an arrow: "SEND_ONLY", "ACK"
	Length int     `json:"length"`
	Wrong  string  `json:"wrong,omitempty"` // why it is marked red
	Bytes  Bytes   `json:"bytes"`           // from the IP header on, as they arrive
	Fields []Field `json:"fields"`
}

// Field is a field of a packet (trace.Field).
type Field struct {
	Layer  string `json:"layer"`
	Name   string `json:"name"`
	Offset int    `json:"offset"` // in the packet, in bytes
	Bits   string `json:"bits"`   // which of these bytes' bits it has, "0-7"
	Length int    `json:"length"` // bytes that it touches
	Value  string `json:"value"`
	Means  string `json:"means,omitempty"`
}

// Entry is something that a program or its device did.
type Entry struct {
	Time int64 `json:"time"`
	Host int   `json:"host"`
	// call, poll, cpu, event: the program's; else the device's, as qp.RecordKind has it
	Kind   string `json:"kind"`
	QPN    uint32 `json:"qpn,omitempty"`
	Text   string `json:"text"`
	Packet int    `json:"packet,omitempty"` // that it was the consequence of
	Error  string `json:"error,omitempty"`  // of a call that was refused

	Err    error        `json:"-"`
	Record qp.Record    `json:"-"` // of the device
	Event  qp.EventType `json:"-"` // of "event" with Async
	Async  bool         `json:"-"`
}

// Moment is what queues and memory were like after something had changed.
type Moment struct {
	Time  int64       `json:"time"`
	Hosts []HostState `json:"hosts"`
}

// HostState is the state of a host.
type HostState struct {
	QPs    []QPState `json:"qps"`
	CQs    [][]WC    `json:"cqs"`    // what is in each completion queue
	Memory []Stored  `json:"memory"` // what has changed since the moment before
}

// QPState is the state of a queue pair. A send request that yields no completion stays until a
// later one completes: its program cannot know before.
type QPState struct {
	QPN   uint32        `json:"qpn"`
	State string        `json:"state"` // "RTS"
	SQ    []WorkRequest `json:"sq"`
	RQ    []WorkRequest `json:"rq"`
}

// WorkRequest is a request in a queue.
type WorkRequest struct {
	WRID     uint64 `json:"wrid"`
	Op       string `json:"op"`
	Length   int    `json:"length"`
	State    string `json:"state"` // "waiting", or "sent": the device has taken it
	Signaled bool   `json:"signaled"`
}

// WC is a completion as the JSON has it.
type WC struct {
	WRID   uint64 `json:"wrid"`
	Status string `json:"status"` // "IBV_WC_SUCCESS"
	Number int    `json:"number"` // 0
	Op     string `json:"op"`
	Length int    `json:"length"`
	QPN    uint32 `json:"qpn"`
}

// Completion is one that was put into a completion queue.
type Completion struct {
	Time int64 `json:"time"`
	Host int   `json:"host"`
	CQ   int   `json:"cq"`
	WC
	Full qp.WC `json:"-"`
}

// Stored are bytes of a region.
type Stored struct {
	Region int   `json:"region"`
	Offset int   `json:"offset"`
	Bytes  Bytes `json:"bytes"`
}

// Note is what a lesson says of a moment or a packet.
type Note struct {
	Time   int64  `json:"time"`
	Packet int    `json:"packet,omitempty"`
	Text   string `json:"text"`
}

// Bytes are hexadecimal digits in JSON.
type Bytes []byte

// MarshalText makes hexadecimal digits.
func (b Bytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

// UnmarshalText reads them.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.AppendDecode(nil, text)
	return err
}

// Host returns the number of a host by its name, -1 if there is none.
func (p *Play) Host(name string) int {
	for i := range p.Hosts {
		if p.Hosts[i].Name == name {
			return i
		}
	}
	return -1
}

// CompletionsOf are the completions of a host, in order.
func (p *Play) CompletionsOf(name string) (all []qp.WC) {
	for i := range p.Completions {
		if p.Completions[i].Host == p.Host(name) {
			all = append(all, p.Completions[i].Full)
		}
	}
	return all
}

// EntriesOf are the entries of a host of one kind.
func (p *Play) EntriesOf(name, kind string) (all []Entry) {
	for _, e := range p.Entries {
		if e.Host == p.Host(name) && e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// Refusals are the errors of a host's calls.
func (p *Play) Refusals(name string) (all []error) {
	for _, e := range p.EntriesOf(name, "call") {
		if e.Err != nil {
			all = append(all, e.Err)
		}
	}
	return all
}

// Memory is what a region holds at the end, nil if there is no such region.
func (p *Play) Memory(host, region string) []byte {
	h := p.Host(host)
	if h < 0 {
		return nil
	}
	for i, r := range p.Hosts[h].Regions {
		if r.Name != region {
			continue
		}
		bytes := make([]byte, r.Length)
		for _, m := range p.Moments {
			if h >= len(m.Hosts) {
				continue
			}
			for _, s := range m.Hosts[h].Memory {
				if s.Region == i {
					copy(bytes[s.Offset:], s.Bytes)
				}
			}
		}
		return bytes
	}
	return nil
}
