package timeline

// What a device does, into the file that its packets are captured in.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
)

// Recorder writes the records of a device as notes between the packets of a capture file. For those
// that the device has overwritten before Collect there is a qp.RecordLost. It is for one goroutine.
type Recorder struct {
	Node    string                               // the device's name
	Shift   int64                                // from the device's clock to the time of day
	Records func(dst []qp.Record) []qp.Record    // Device.Records
	Block   func(kind uint32, body []byte) error // of the file: capture.Pcapng's

	records []qp.Record
	entries []Entry
	text    []byte
}

// blockSize is how long a block of notes becomes, about.
const blockSize = 1 << 16

// Collect writes what the device has done since the last call.
func (r *Recorder) Collect() error {
	r.records = r.Records(r.records[:0])
	r.entries = Entries(r.entries[:0], r.Node, r.records, r.Shift)
	r.text = r.text[:0]
	for i := range r.entries {
		r.text = append(r.entries[i].AppendJSON(r.text), '\n')
		if len(r.text) >= blockSize || i == len(r.entries)-1 {
			for len(r.text)%4 != 0 {
				r.text = append(r.text, '\n')
			}
			if err := r.Block(trace.NotesBlock, r.text); err != nil {
				return err
			}
			r.text = r.text[:0]
		}
	}
	return nil
}
