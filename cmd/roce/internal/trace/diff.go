package trace

// "roce trace diff": two captures of one connection.

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/diff"
)

// Diff says what two captures of one connection differ in, as text or as JSON. A file that is
// damaged is compared up to there.
func Diff(ctx context.Context, out io.Writer, a, b string, c Choice, asJSON bool) error {
	if a == "-" && b == "-" {
		return errors.New("only one of the two captures can be standard input")
	}
	d := diff.New()
	var damaged error
	for i, name := range []string{a, b} {
		err := each(ctx, name, &c, func(p *trace.Packet) error { return d.Add(i, p) })
		var damage *trace.DamageError
		if err != nil && !errors.As(err, &damage) {
			return err
		}
		damaged = errors.Join(damaged, err)
	}
	r := d.Compare()
	if len(r.Pairs) == 0 && damaged == nil {
		return fmt.Errorf("no two addresses talk to each other in both %s and %s: are they of the same connection?", a,
			b)
	}
	if asJSON {
		return errors.Join(r.WriteJSON(out), damaged)
	}
	return errors.Join(r.Write(out), damaged)
}
