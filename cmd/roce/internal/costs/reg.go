package costs

// What registering memory costs, by size: RegMR and Close, with the pages pinned and not, beside a
// copy of the same bytes, which is what a program does that registers one buffer for ever and
// copies what it sends into it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/cmd/roce/internal/system"
	"github.com/goroce/goroce/internal/plot"
	"github.com/goroce/goroce/roce"
)

// RegReport is what --json prints of Reg.
type RegReport struct {
	Test    string    `json:"test"`
	Device  string    `json:"device"`
	Results []*RegRow `json:"results"`
	Notes   []string  `json:"notes"`
}

// RegRow is a size; times are medians in microseconds.
type RegRow struct {
	Bytes    int      `json:"bytes"`
	Copy     float64  `json:"memcpy_usec"`
	Unpinned *RegCost `json:"not_pinned"`
	Pinned   *RegCost `json:"pinned"`
	Missing  string   `json:"missing,omitempty"` // why there is nothing else
}

// RegCost is what a region costs.
type RegCost struct {
	Reg   float64 `json:"reg_usec"`
	Close float64 `json:"close_usec"`
	// Pays is after how many transfers of these bytes one registration for all of them is cheaper
	// than a copy for each.
	Pays    int    `json:"pays_after_transfers"`
	Missing string `json:"missing,omitempty"`
}

// Reg measures registration on a device that --dev names, or on one that is in memory only: what is
// registered does not depend on the port, but on a device of the kernel (verbs:) it is the NIC's
// driver that does it.
func Reg(ctx context.Context, out io.Writer, o Options) error {
	if err := o.check(false); err != nil {
		return err
	}
	name := o.Dev
	if name == "" {
		name = "pipe:reg"
	}
	free, err := openDomain(name, false)
	if err != nil {
		return err
	}
	defer free.close()
	pinned, pinErr := openDomain(name, true)
	if pinErr == nil {
		defer pinned.close()
	}
	r := &RegReport{Test: "reg", Device: free.dev.Name(), Results: []*RegRow{}, Notes: []string{
		"the memory was touched before; times are medians; a transfer pays for its copy or for its share of " +
			"RegMR and Close"}}
	o.say(out, "%s", regHeader)
	for n := o.Smallest; n <= o.Largest; n *= 4 {
		row := &RegRow{Bytes: n, Missing: tooMuch(2 * uint64(n))}
		if row.Missing == "" {
			row.Copy, row.Unpinned, row.Pinned, err = regSize(ctx, n, o.Duration, free, pinned, pinErr)
			if err != nil {
				return err
			}
		}
		r.Results = append(r.Results, row)
		o.say(out, "%s", row.line())
	}
	o.say(out, "\n %s\n", r.Notes[0])
	if o.JSON {
		if err := writeJSON(out, r); err != nil {
			return err
		}
	}
	return o.draw(r.picture)
}

// tooMuch says why so much memory is not to be had; "" if it is. The rest of the machine keeps half
// of what is available.
func tooMuch(n uint64) string {
	if have, known := system.AvailableMemory(); known && n > have/2 {
		return fmt.Sprintf("it takes %d MiB of memory, half of which is the copy; %d MiB are available and half of "+
			"those are left alone", n>>20, have>>20)
	}
	return ""
}

// domain is where regions are registered: a device that pins their pages or one that does not.
type domain struct {
	dev *roce.Device
	pd  *roce.PD
}

func openDomain(name string, pin bool) (d domain, err error) {
	if d.dev, err = roce.Open(name, &roce.Config{PinMemory: pin}); err != nil {
		return d, err
	}
	if d.pd, err = d.dev.AllocPD(); err != nil {
		d.dev.Close()
	}
	return d, err
}

func (d domain) close() { d.pd.Close(); d.dev.Close() }

// regSize measures one size.
func regSize(ctx context.Context, n int, limit time.Duration, free, pinned domain, pinErr error) (copied float64,
	un, pin *RegCost, err error) {
	buffer, err := roce.AllocBuffer(n, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	defer buffer.Close()
	bounce, err := roce.AllocBuffer(n, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	defer bounce.Close()
	from, to := buffer.Bytes(), bounce.Bytes()
	for i := 0; i < n; i += 4096 {
		from[i], to[i] = 1, 1
	}
	times, err := repeat(ctx, limit, func(lap func(int)) error { copy(to, from); lap(0); return nil })
	if err != nil {
		return 0, nil, nil, err
	}
	copied = times[0]
	if un, err = free.cost(ctx, limit, from, copied); err != nil {
		return 0, nil, nil, err
	}
	pin = &RegCost{}
	if pinErr == nil {
		pin, pinErr = pinned.cost(ctx, limit, from, copied)
	}
	switch {
	case ctx.Err() != nil:
		return 0, nil, nil, context.Cause(ctx)
	case errors.Is(pinErr, roce.ErrLimit), errors.Is(pinErr, roce.ErrNotSupported):
		pin = &RegCost{Missing: pinErr.Error()}
	case pinErr != nil:
		return 0, nil, nil, pinErr
	}
	return copied, un, pin, nil
}

// cost is what regions of these bytes cost.
func (d domain) cost(ctx context.Context, limit time.Duration, bytes []byte, copied float64) (*RegCost, error) {
	t, err := repeat(ctx, limit, func(lap func(int)) error {
		m, err := d.pd.RegMR(bytes, roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
		if err != nil {
			return err
		}
		lap(0)
		err = m.Close()
		lap(1)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &RegCost{Reg: t[0], Close: t[1], Pays: paysAfter(t[0]+t[1], copied)}, nil
}

// paysAfter is the least number of copies that together take longer than one registration.
func paysAfter(once, copied float64) int {
	if copied <= 0 {
		return math.MaxInt32
	}
	return int(math.Floor(once/copied)) + 1
}

// least is how often everything is done at least; the first time counts for nothing.
const least = 4

// repeat does something until the time is up, and returns the medians of its laps in microseconds.
func repeat(ctx context.Context, limit time.Duration, f func(lap func(int)) error) (us [2]float64, err error) {
	all := [2]*hdrhistogram.Histogram{hdrhistogram.New(1, longest, 3), hdrhistogram.New(1, longest, 3)}
	start := time.Now()
	for i := 0; i < least || time.Since(start) < limit; i++ {
		if ctx.Err() != nil {
			return us, context.Cause(ctx)
		}
		from := time.Now()
		err := f(func(which int) {
			now := time.Now()
			if i > 0 {
				all[which].RecordValue(min(int64(now.Sub(from)), longest))
			}
			from = now
		})
		if err != nil {
			return us, err
		}
	}
	for i, h := range all {
		us[i] = float64(h.ValueAtPercentile(50)) / 1e3
	}
	return us, nil
}

const regHeader = " roce perf reg: what registering memory costs, in microseconds\n\n" +
	"                        ------- not pinned --------   --------- pinned ----------\n" +
	"   size      memcpy       RegMR   Close  pays after       RegMR   Close  pays after\n"

func (row *RegRow) line() string {
	if row.Missing != "" {
		return fmt.Sprintf(" %6s   not measured: %s\n", plot.SizeText(float64(row.Bytes)), row.Missing)
	}
	return fmt.Sprintf(" %6s %11.2f %s %s\n", plot.SizeText(float64(row.Bytes)), row.Copy, row.Unpinned.columns(),
		row.Pinned.columns())
}

func (c *RegCost) columns() string {
	if c.Missing != "" {
		return "  not measured: " + c.Missing
	}
	return fmt.Sprintf("%11.2f %7.2f %11d", c.Reg, c.Close, c.Pays)
}

// picture draws the three costs over the size.
func (r *RegReport) picture() *plot.Picture {
	lines := []plot.Series{{Name: "memcpy"}, {Name: "RegMR and Close"}, {Name: "the same, pinned"}}
	for _, row := range r.Results {
		if row.Missing != "" {
			continue
		}
		add := func(i int, us float64) {
			lines[i].X, lines[i].Y = append(lines[i].X, float64(row.Bytes)), append(lines[i].Y, us)
		}
		add(0, row.Copy)
		for i, c := range []*RegCost{row.Unpinned, row.Pinned} {
			if c.Missing == "" {
				add(i+1, c.Reg+c.Close)
			}
		}
	}
	return plot.Lines("What registering memory costs", plot.Axes{
		X:     "bytes",
		Y:     "us",
		LogX:  true,
		BaseX: 4,
		TickX: plot.SizeText,
		LogY:  true,
	}, lines)
}
