package ends

// An end of each kind, and the times that they take.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var kinds = map[string]func(*Task, context.Context) (*Result, error){
	"loaded": (*Task).loaded, "many": (*Task).many, "dial": (*Task).dialed,
}

// Run plays an end. One of the two prints the Result.
func Run(ctx context.Context, out io.Writer, kind string, t Task) error {
	play, ok := kinds[kind]
	if !ok {
		return fmt.Errorf("no end is called %q", kind)
	}
	r, err := play(&t, ctx)
	if err != nil || r == nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// longest is the longest time that is told apart; three digits are kept of each.
const longest = time.Minute

// tally is the times of many.
type tally struct{ times *hdrhistogram.Histogram }

func newTally() tally { return tally{hdrhistogram.New(1, int64(longest), 3)} }

func (t tally) add(took time.Duration) {
	_ = t.times.RecordValue(int64(min(max(took, 1), longest))) // it is within the bounds
}

// result has the percentiles.
func (t tally) result() *Result {
	us := func(percent float64) float64 { return float64(t.times.ValueAtPercentile(percent)) / 1e3 }
	return &Result{P50: us(50), P99: us(99), P999: us(99.9), Exchanges: t.times.TotalCount()}
}
