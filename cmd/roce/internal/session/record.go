package session

// What a device sends, gets and does, in a file. Packets go into it as they come; the records of
// what the device does are fetched every few milliseconds, and once more at the end.

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
)

const (
	recordsKept = 1 << 17               // of each lane, between two fetches
	fetchEvery  = 10 * time.Millisecond // a busy lane makes some records a microsecond
)

// errFile is what is wrong with the capture file.
var errFile = errors.New("--pcap")

// capture opens the capture file and returns next with the sink in front.
func (s *Session) capture(file string, next PortMiddleware) (*capture.Pcapng, PortMiddleware, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errFile, err)
	}
	sink, err := capture.NewPcapng(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%w %s: %w", errFile, file, err)
	}
	s.closers = append(s.closers, sink.Close, f.Close)
	return sink, func(p transport.Port) transport.Port {
		if next != nil {
			p = next(p)
		}
		return capture.Wrap(p, sink)
	}, nil
}

// recording fetches records until it ends.
type recording struct {
	stop chan struct{}
	done chan error
}

// Shift is what is to be added to the device's time to come to the time of day, in nanoseconds.
func (s *Session) Shift() (int64, error) {
	clock, err := s.QueryRTValues()
	if err != nil {
		return 0, fmt.Errorf("--records: %w", err)
	}
	return time.Now().UnixNano() - int64(clock.RawClock), nil
}

// record begins to fetch what the device does.
func (s *Session) record(sink *capture.Pcapng) error {
	shift, err := s.Shift()
	if err != nil {
		return err
	}
	r := &timeline.Recorder{Node: s.Name(), Shift: shift, Records: s.Device.Records, Block: sink.Block}
	s.records = &recording{make(chan struct{}), make(chan error, 1)}
	go s.records.run(r)
	return nil
}

func (x *recording) run(r *timeline.Recorder) {
	tick := time.NewTicker(fetchEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			err = r.Collect()
		case <-x.stop:
			x.done <- r.Collect()
			return
		}
		if err != nil {
			<-x.stop
			x.done <- err
			return
		}
	}
}

// end fetches for the last time.
func (x *recording) end() error {
	close(x.stop)
	return <-x.done
}
