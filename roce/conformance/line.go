package conformance

// What the two ends say to each other beside the test: values that a case exchanges, and how it
// ended. A goroutine reads; what belongs to an earlier case is thrown away, and when the other end
// fails in the middle of a case, this one's waits end.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// message is what goes over the line.
type message struct {
	Case   int
	End    bool            `json:",omitempty"`
	Result Result          `json:",omitzero"`
	Value  json.RawMessage `json:",omitempty"`
}

type line struct {
	conn net.Conn
	out  *json.Encoder

	mu      sync.Mutex
	number  int // of the case
	cancel  context.CancelCauseFunc
	values  []json.RawMessage
	early   []message // of a case that has not begun here
	ended   *Result
	err     error
	changed chan struct{} // closed, and made anew, when any of the above has changed
	reader  sync.WaitGroup
}

func newLine(conn net.Conn) *line {
	l := &line{conn: conn, out: json.NewEncoder(conn), changed: make(chan struct{})}
	l.reader.Go(l.read)
	return l
}

func (l *line) close() {
	l.conn.Close()
	l.reader.Wait()
}

// begin begins a case, whose context cancel ends.
func (l *line) begin(number int, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number, l.cancel, l.values, l.ended = number, cancel, nil, nil
	early := l.early
	l.early = nil
	for _, m := range early {
		l.take(m)
	}
}

func (l *line) read() {
	in := json.NewDecoder(l.conn)
	for {
		var m message
		err := in.Decode(&m)
		l.mu.Lock()
		if err != nil {
			l.err = fmt.Errorf("the other end is gone: %w", err)
			if l.cancel != nil {
				l.cancel(l.err)
			}
		} else {
			l.take(m)
		}
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take puts a message where it belongs. The caller has the lock.
func (l *line) take(m message) {
	switch {
	case m.Case > l.number:
		l.early = append(l.early, m)
	case m.Case < l.number:
	case m.End:
		l.ended = &m.Result
		if m.Result.Failed != "" || m.Result.Skip != "" {
			l.cancel(errPeerStopped)
		}
	default:
		l.values = append(l.values, m.Value)
	}
}

// errPeerStopped ends a case whose other end says what is wrong.
var errPeerStopped = errors.New("the other end has stopped")

func (l *line) send(m message) error {
	if err := l.out.Encode(m); err != nil {
		return fmt.Errorf("the other end is gone: %w", err)
	}
	return nil
}

// value returns the next value of the case.
func (l *line) value(ctx context.Context) (json.RawMessage, error) {
	for {
		l.mu.Lock()
		changed := l.changed
		if len(l.values) > 0 {
			v := l.values[0]
			l.values = l.values[1:]
			l.mu.Unlock()
			return v, nil
		}
		err := l.err
		if err == nil && l.ended != nil {
			err = errPeerStopped
		}
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// result returns how the case has ended at the other end, which has as long as it had for the case.
func (l *line) result(ctx context.Context, limit time.Duration) (Result, error) {
	ctx, stop := context.WithTimeout(ctx, 2*limit)
	defer stop()
	for {
		l.mu.Lock()
		ended, err, changed := l.ended, l.err, l.changed
		l.mu.Unlock()
		switch {
		case ended != nil:
			return *ended, nil
		case err != nil:
			return Result{}, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Result{}, fmt.Errorf("the other end does not say how it ended: %w", ctx.Err())
		}
	}
}
