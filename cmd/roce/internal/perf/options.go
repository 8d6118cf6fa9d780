package perf

// What a run is asked to do: the options, their defaults, and the rules that perftest has for them.

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Options are those of one run; zero means the default of the test, which Run fills in.
type Options struct {
	session.Options
	Host string // "" makes this end the server
	Port int

	Type      roce.QPType
	Size      int
	Iters     int           // a queue pair's messages
	Duration  time.Duration // instead of Iters
	MTU       int           // bytes; 0: the port's
	QPs       int
	TxDepth   int
	RxDepth   int
	CQMod     int
	PostList  int
	Outs      int
	Inline    int
	AllSizes  bool
	Bidi      bool
	Events    bool
	Gbits     bool
	CmpSwap   bool
	SL        int
	TClass    int
	QPTimeout int
	CM        bool // -R: the connection manager connects, and carries the messages
	GoBackN   bool // no selective repeat, whatever the peer is ready for

	Gap time.Duration // latency, the client: sleep so long before each message
	// WRITE latency: look at memory without running the stack meanwhile, and wait for the
	// completion of each WRITE. A poll that finds it stays for so long (roce.CQ.Linger).
	Alone  bool
	Linger time.Duration

	NoPeak    bool
	WarmUp    bool
	Margin    time.Duration // with Duration: cut off at both ends; 0: a quarter
	Rate      Rate          // of all queue pairs of this end together; zero: as fast as it goes
	RateUnits string        // perftest's unit of a bare Rate
	Burst     int           // messages that a limited sender posts together
	LimitBW   float64       // a mean bandwidth below, in the unit of the report, is an error
	LimitRate float64       // a mean message rate below, in millions a second, is an error

	JSON      bool
	Verbose   bool // what the queue pairs know of their path, at the end
	CPUUtil   bool
	Histogram bool
	Plot      string    // SVG file
	Profile   string    // file for a CPU profile of the measured phase
	Live      io.Writer // a terminal for the live line; nil for none
	LiveEvery time.Duration
}

const (
	defaultTx, defaultRx = 128, 512
	maxOuts              = 128
	// default with another program: perftest announces all that the device has; hardware refuses
	// more than it has itself
	safeOuts     = 16
	maxAllSizes  = 8 << 20
	maxGap       = 10 * time.Second // nothing ends a gap before its time
	smallMessage = 8192             // larger ones are signaled one by one
)

// complete fills in the defaults and holds the options against the rules of the test.
func (o *Options) complete(t *Test) error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.Size, t.Size)
	set(&o.QPs, 1)
	set(&o.PostList, atOnce)
	set(&o.Burst, 1)
	if err := o.Rate.unit(o.RateUnits); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	if o.Duration == 0 {
		set(&o.Iters, t.Iters)
	}
	if t.Lat {
		o.TxDepth, o.CQMod = 1, 1
	}
	set(&o.TxDepth, defaultTx)
	set(&o.RxDepth, defaultRx)
	if o.CQMod == 0 {
		o.CQMod = 1
		if o.Size <= smallMessage && !o.Events {
			o.CQMod = max(o.TxDepth/4, 1)
		}
		if o.Rate.messages(o.Size) > 0 { // completions that come late would blur the rate
			o.CQMod = o.Burst
		}
	}
	if o.Iters > 0 {
		o.TxDepth = min(o.TxDepth, o.Iters)
		o.RxDepth = min(o.RxDepth, o.Iters)
	}
	o.CQMod = min(o.CQMod, o.TxDepth)
	o.PostList = min(o.PostList, o.TxDepth)
	return o.check(t)
}

func (o *Options) check(t *Test) error {
	bad := func(format string, a ...any) error { return fmt.Errorf("%s: "+format, append([]any{t.Name}, a...)...) }
	atomic := t.access == roce.RemoteAtomic
	typeOK := slices.Contains(t.Types, o.Type)
	for _, rule := range []struct {
		broken bool
		why    error
	}{
		{o.Port < 1 || o.Port > 65535, bad("--port %d: want 1 to 65535", o.Port)},
		{!typeOK, bad("--connection %v: want %s", o.Type, join(t.Types))},
		{o.Size < 1 || o.Size > 1<<30, bad("--size %d: want 1 to 1G", o.Size)},
		{atomic && o.Size != 8, bad("--size %d: atomics have 8 bytes", o.Size)},
		{atomic && o.AllSizes, bad("--all: atomics have 8 bytes")},
		{o.Duration == 0 && o.Iters < 5, bad("--iters %d: want 5 or more", o.Iters)},
		{o.Duration < 0, bad("--duration %v: want a positive time", o.Duration)},
		{o.Duration > 0 && o.AllSizes, bad("--duration and --all exclude each other")},
		{o.Margin < 0 || o.Margin > 0 && o.Margin >= o.Duration/2,
			bad("--margin %v: want less than half of --duration %v", o.Margin, o.Duration)},
		{o.Burst < 1 || o.Burst > o.TxDepth, bad("--burst-size %d: want 1 to the tx depth, %d", o.Burst, o.TxDepth)},
		{t.Lat && o.Rate.messages(1) > 0, bad("--rate-limit: a latency test has one message under way")},
		{o.WarmUp && (t.Lat || t.sends()), bad("--perform-warm-up: only for one-sided bandwidth tests")},
		{o.AllSizes && (o.LimitBW > 0 || o.LimitRate > 0),
			bad("--limit-bw and --limit-msgrate are for one size, not for --all")},
		{o.LimitBW < 0 || o.LimitRate < 0, bad("--limit-bw %v, --limit-msgrate %v: want 0 or more",
			o.LimitBW, o.LimitRate)},
		{t.Lat && o.QPs != 1, bad("--qps %d: a latency test has one", o.QPs)},
		{t.Lat && o.Bidi, bad("--bidirectional: a latency test goes both ways by nature")},
		{o.Gap < 0 || o.Gap > maxGap, bad("--gap %v: want 0 to %v", o.Gap, maxGap)},
		{o.Gap > 0 && o.Host == "", bad("--gap is the client's: the server answers at once")},
		{o.Linger < 0 || o.Linger > roce.MaxLinger, bad("--linger %v: want 0 to %v", o.Linger, roce.MaxLinger)},
		{t.untimely && o.Events, bad("--events: the test watches memory, not completions")},
		{o.QPs < 1 || o.QPs > 16384, bad("--qps %d: want 1 to 16384", o.QPs)},
		{o.TxDepth < 1 || o.TxDepth > 15000, bad("--tx-depth %d: want 1 to 15000", o.TxDepth)},
		{o.RxDepth < 1 || o.RxDepth > 16384, bad("--rx-depth %d: want 1 to 16384", o.RxDepth)},
		{o.Outs < 0 || o.Outs > maxOuts, bad("--outs %d: want 1 to 128, or 0 for the most that suits the peer",
			o.Outs)},
		{o.PostList < 1, bad("--post-list %d: want 1 or more", o.PostList)},
		{o.Inline < 0, bad("--inline %d: want 0 or more", o.Inline)},
		{o.Lanes < 0 || o.Lanes > transport.MaxLanes || o.Lanes&(o.Lanes-1) != 0,
			bad("--lanes %d: want a power of two, 1 to %d", o.Lanes, transport.MaxLanes)},
		{o.GIDIndex < 0 || o.GIDIndex > 255, bad("--gid-index %d: want 0 to 255", o.GIDIndex)},
		{o.SL < 0 || o.SL > 7, bad("--sl %d: want 0 to 7", o.SL)},
		{o.TClass < 0 || o.TClass > 255, bad("--tclass %d: want 0 to 255", o.TClass)},
		{o.QPTimeout < 0 || o.QPTimeout > 31, bad("--qp-timeout %d: want 0 to 31", o.QPTimeout)},
		{o.CM && o.Type == roce.UC, bad("--connection UC: with --rdma-cm want RC or UD")},
		{o.CM && o.MTU != 0 && o.Type == roce.RC, bad("--mtu: with --rdma-cm the connection manager chooses it")},
		{o.CM && o.Host == "" && o.Dev == "" && (o.Pcap != "" || o.Faults != "" || o.Lanes > 1),
			bad("--pcap, --fault and --lanes are of one device: with --rdma-cm a server names it with --dev")},
		{o.CmpSwap && !atomic, bad("--atomic-type: only for atomics")},
	} {
		if rule.broken {
			return rule.why
		}
	}
	if _, err := wire.MTUFromBytes(o.MTU); o.MTU != 0 && err != nil {
		return fmt.Errorf("--mtu: %w", err)
	}
	return o.CheckFaults()
}

// game is the test with those of its options that must be the same at both ends.
func (o *Options) game(t *Test) string {
	g := fmt.Sprintf("%s -c %v -q %d", t.Name, o.Type, o.QPs)
	for _, also := range []struct {
		matters bool
		option  string
	}{
		{o.Bidi, " -b"},
		{o.AllSizes, " -a"},
		{o.Duration > 0 && (t.Lat || t.sends()), " -D"}, // both count messages, or the time
		{o.Duration == 0 && (t.untimely || t.sends()), fmt.Sprint(" -n ", o.Iters)},
		// the last byte tells that one is there
		{t.untimely && !o.AllSizes, fmt.Sprint(" -s ", o.Size)},
	} {
		if also.matters {
			g += also.option
		}
	}
	return g
}

// sizes are the message sizes of the run: one, or with --all the powers of two from 2 to 8 MiB (UD:
// to the MTU).
func (o *Options) sizes(mtu int) []int {
	if !o.AllSizes {
		return []int{o.Size}
	}
	last := maxAllSizes
	if o.Type == roce.UD {
		last = mtu
	}
	var all []int
	for s := 2; s <= last; s *= 2 {
		all = append(all, s)
	}
	return all
}
