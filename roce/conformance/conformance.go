// Package conformance tests that devices do what the verbs of package roce promise, of whatever
// kind they are: the same cases for the software RNIC on each kind of port, for an RDMA device of
// the kernel, and for one against the other.
//
// A case has two ends, which may be in one process or on two machines. The end that acts posts and
// looks at what becomes of it; the other one serves and looks at what arrives. Between two devices
// that differ each case is played twice, so that each of them acts once.
//
//	conformance.go   the cases, and playing them
//	line.go          what the two ends say to each other beside the test
//	end.go           an end: what a case works with
//	messages.go      SEND, WRITE, READ, atomics, of RC and UC
//	datagrams.go     UD, and multicast
//	rows.go          the rows of the GID table
//	rights.go        what memory may be touched by whom; windows
//	placement.go     FLUSH and ATOMIC WRITE
//	failures.go      requests that fail, queues that are full
//	errors.go        the errors of the verbs, a table; prepared.go and outcome.go play a row of it
//	mistakes.go      what is refused at once, a table
//	shared.go        shared receive queues
//	lives.go         states, attributes, closing
//	queues.go        completion queues: size, overrun, times, moderation
//	waits.go         notification, waiting, events
//
// On two machines, as on a vendor's NIC:
//
//	go test -tags verbs ./roce/conformance -run Device -v -device verbs:mlx5_0 -listen :18600
//	go test -tags verbs ./roce/conformance -run Device -v -device verbs:mlx5_0 -dial OTHER:18600
package conformance

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/goroce/goroce/roce"
)

// A Case is something that devices promise. The two functions run at the same time.
type Case struct {
	Name string
	Act  func(e *End)
	// Serve is what the other end does; nil: it only waits.
	Serve func(e *End)
}

// Cases returns all cases.
func Cases() (all []Case) {
	for _, list := range [][]Case{messages(), datagrams(), rows(), rights(), placement(), failures(), errorCases(),
		mistakeCases(), shared(), lives(), completionQueues(), waits()} {
		all = append(all, list...)
	}
	return all
}

// Result is what became of a case.
type Result struct {
	Case   string // "SEND of RC", with "/second acts" behind it where the ends have changed roles
	Failed string // "" or why
	Skip   string // "" or what a device lacks
}

// String says it in a line.
func (r Result) String() string {
	switch {
	case r.Failed != "":
		return "FAIL " + r.Case + ": " + r.Failed
	case r.Skip != "":
		return "skip " + r.Case + ": " + r.Skip
	}
	return "ok   " + r.Case
}

// Options say how cases are played. Both ends must have the same, but for Second.
type Options struct {
	Second bool                // this end serves in the first round
	Once   bool                // one round only: both devices are of a kind
	Match  func(c string) bool // the cases to play; nil: all
	// Limit ends a case that hangs; 0 is a minute.
	Limit time.Duration
	// Patience is how long an outcome is waited for that a device which differs may never have; 0
	// is two seconds.
	Patience time.Duration
}

// Play plays one end of all cases on device d. conn leads to the other end, where Play runs too,
// with Second at one of them. report is told of each result, the same at both ends. The error is
// about conn.
func Play(ctx context.Context, d *roce.Device, conn net.Conn, o Options, report func(Result)) error {
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	l := newLine(conn)
	defer l.close()
	rounds := []bool{!o.Second, o.Second} // whether this end acts
	if o.Once {
		rounds = rounds[:1]
	}
	number := 0
	for i, acts := range rounds {
		for _, c := range Cases() {
			if o.Match != nil && !o.Match(c.Name) {
				continue
			}
			name := c.Name
			if i > 0 {
				name += "/second acts"
			}
			number++
			r, err := play(ctx, d, l, number, c, acts, &o)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.Case = name
			report(r)
		}
	}
	return nil
}

// play plays one end of a case, and agrees with the other end on the result.
func play(ctx context.Context, d *roce.Device, l *line, number int, c Case, acts bool, o *Options) (Result, error) {
	during, stop := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the case hangs: %v are over", o.Limit))
	defer stop()
	during, end := context.WithCancelCause(during)
	defer end(nil)
	l.begin(number, end)
	e := &End{Device: d, Acts: acts, ctx: during, line: l, patience: o.Patience}
	f := c.Serve
	if acts {
		f = c.Act
	}
	mine := e.run(f)
	if err := l.send(message{Case: number, End: true, Result: mine}); err != nil {
		return Result{}, err
	}
	theirs, err := l.result(ctx, o.Limit)
	if err != nil {
		return Result{}, err
	}
	return together(mine, theirs, acts), nil
}

// together is what both ends say. The end that failed first has the cause.
func together(mine, theirs Result, acts bool) Result {
	role := map[bool]string{true: "acting end: ", false: "serving end: "}
	r := Result{Skip: mine.Skip}
	if r.Skip == "" {
		r.Skip = theirs.Skip
	}
	for _, x := range []struct {
		said string
		acts bool
	}{{mine.Failed, acts}, {theirs.Failed, !acts}} {
		if x.said != "" {
			if r.Failed != "" {
				r.Failed += "; "
			}
			r.Failed += role[x.acts] + x.said
		}
	}
	return r
}

// run runs a function of a case to its end or to where it stopped, and closes what it has made.
func (e *End) run(f func(*End)) (r Result) {
	outcome := func(step func()) {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case stopped:
				if r.Failed == "" && r.Skip == "" {
					r = Result(p)
				}
			default:
				r = Result{Failed: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		step()
	}
	outcome(func() {
		if f != nil {
			f(e)
		}
		e.Sync() // the other end may need this one to the end
	})
	for len(e.closers) > 0 {
		last := e.closers[len(e.closers)-1]
		e.closers = e.closers[:len(e.closers)-1]
		outcome(func() { e.Must(last()) })
	}
	return r
}

// stopped ends a case by a panic.
type stopped Result
