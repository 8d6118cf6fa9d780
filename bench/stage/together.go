//go:build linux

package stage

import (
	"context"
	"strconv"
)

// RunTogether performs a play as Run does, but both programs are at A, as two of one machine are
// that know nothing of networks; each has the processor that it has in Run.
func (s *Stage) RunTogether(ctx context.Context, p Play) (Outcome, error) {
	p.Server.Args = append([]string{"taskset", "-c", strconv.Itoa(s.B.CPU)}, p.Server.Args...)
	return s.run(ctx, s.A, p)
}
