package perf

// What a run is asked to do: the eight tests with their defaults, the options, and the rules that perftest has for them.

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
)

// Test is one of perftest's programs.
type Test struct {
	Name  string // "write-bw"
	Tool  string // perftest's name of it
	Title string // as the banner has it
	Op    roce.WROpcode
	Lat   bool

	Size   int // defaults, as perftest has them
	Iters  int
	Inline int
	Types  []roce.QPType

	access    roce.Access // of the region, beside local writes
	qpAccess  roce.Access // of the queue pair
	respOp    bool        // READ or atomic: Outs matter, and only the client acts
	extraKeys bool        // the queue pairs' keys go round once more at the start
	untimely  bool        // ends without a word on TCP
}

// sends says whether the test's messages need receives.
func (t *Test) sends() bool { return t.Op == roce.WRSend }

var (
	anyType   = []roce.QPType{roce.RC, roce.UC, roce.UD}
	connected = []roce.QPType{roce.RC, roce.UC}
	reliable  = []roce.QPType{roce.RC}
)

// Tests are all tests in the order of the documentation.
var Tests = []Test{
	{Name: "write-bw", Tool: "ib_write_bw", Title: "RDMA_Write", Op: roce.WRWrite, Size: 65536, Iters: 5000, Types: connected,
		access: roce.RemoteWrite, qpAccess: roce.RemoteWrite},
	{Name: "write-lat", Tool: "ib_write_lat", Title: "RDMA_Write", Op: roce.WRWrite, Lat: true, Size: 2, Iters: 1000, Inline: 220, Types: connected,
		access: roce.RemoteWrite, qpAccess: roce.RemoteWrite, extraKeys: true, untimely: true},
	{Name: "read-bw", Tool: "ib_read_bw", Title: "RDMA_Read", Op: roce.WRRead, Size: 65536, Iters: 1000, Types: reliable,
		access: roce.RemoteRead, qpAccess: roce.RemoteRead, respOp: true},
	{Name: "read-lat", Tool: "ib_read_lat", Title: "RDMA_Read", Op: roce.WRRead, Lat: true, Size: 2, Iters: 1000, Types: reliable,
		access: roce.RemoteRead, qpAccess: roce.RemoteRead, respOp: true, extraKeys: true},
	{Name: "send-bw", Tool: "ib_send_bw", Title: "Send", Op: roce.WRSend, Size: 65536, Iters: 1000, Types: anyType},
	{Name: "send-lat", Tool: "ib_send_lat", Title: "Send", Op: roce.WRSend, Lat: true, Size: 2, Iters: 1000, Inline: 236, Types: anyType},
	{Name: "atomic-bw", Tool: "ib_atomic_bw", Title: "Atomic", Op: roce.WRAtomicFetchAndAdd, Size: 8, Iters: 1000, Types: reliable,
		access: roce.RemoteAtomic, qpAccess: roce.RemoteAtomic, respOp: true},
	{Name: "atomic-lat", Tool: "ib_atomic_lat", Title: "Atomic", Op: roce.WRAtomicFetchAndAdd, Lat: true, Size: 8, Iters: 1000, Types: reliable,
		access: roce.RemoteAtomic, qpAccess: roce.RemoteAtomic, respOp: true, extraKeys: true},
}

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
	JSON      bool
}

const (
	defaultTx, defaultRx = 128, 512
	maxOuts              = 128
	defaultOuts          = 16 // perftest announces all that the device has; hardware refuses more than it has itself
	maxAllSizes          = 8 << 20
	smallMessage         = 8192 // larger ones are signaled one by one
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
	set(&o.Outs, defaultOuts)
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
	typeOK := false
	for _, q := range t.Types {
		typeOK = typeOK || q == o.Type
	}
	for _, rule := range []struct {
		broken bool
		why    error
	}{
		{!typeOK, bad("--connection %v: want %s", o.Type, join(t.Types))},
		{o.Size < 1 || o.Size > 1<<30, bad("--size %d: want 1 to 1G", o.Size)},
		{atomic && o.Size != 8, bad("--size %d: atomics have 8 bytes", o.Size)},
		{atomic && o.AllSizes, bad("--all: atomics have 8 bytes")},
		{o.Duration == 0 && o.Iters < 5, bad("--iters %d: want 5 or more", o.Iters)},
		{o.Duration < 0, bad("--duration %v: want a positive time", o.Duration)},
		{o.Duration > 0 && o.AllSizes, bad("--duration and --all exclude each other")},
		{o.Duration > 0 && o.Events, bad("--duration and --events exclude each other")},
		{t.Lat && o.QPs != 1, bad("--qps %d: a latency test has one", o.QPs)},
		{t.Lat && o.Bidi, bad("--bidirectional: a latency test goes both ways by nature")},
		{t.untimely && o.Events, bad("--events: the test watches memory, not completions")},
		{o.QPs < 1 || o.QPs > 16384, bad("--qps %d: want 1 to 16384", o.QPs)},
		{o.TxDepth < 1 || o.TxDepth > 15000, bad("--tx-depth %d: want 1 to 15000", o.TxDepth)},
		{o.RxDepth < 1 || o.RxDepth > 16384, bad("--rx-depth %d: want 1 to 16384", o.RxDepth)},
		{o.Outs < 1 || o.Outs > maxOuts, bad("--outs %d: want 1 to 128", o.Outs)},
		{o.PostList < 1, bad("--post-list %d: want 1 or more", o.PostList)},
		{o.Inline < 0, bad("--inline %d: want 0 or more", o.Inline)},
		{o.QPTimeout < 0 || o.QPTimeout > 31, bad("--qp-timeout %d: want 0 to 31", o.QPTimeout)},
		{o.CmpSwap && !atomic, bad("--atomic-type: only for atomics")},
	} {
		if rule.broken {
			return rule.why
		}
	}
	return nil
}

func join(types []roce.QPType) string {
	s := make([]string, len(types))
	for i, t := range types {
		s[i] = t.String()
	}
	return strings.Join(s, " or ")
}

// sizes are the message sizes of the run: one, or with --all the powers of two from 2 to 8 MiB (UD: to the MTU).
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

// Size is a flag value: a number of bytes, "64K" or "1M".
type Size int

// String prints the number.
func (s *Size) String() string { return strconv.Itoa(int(*s)) }

// Type names the value in the help text.
func (s *Size) Type() string { return "bytes" }

// Set reads the number.
func (s *Size) Set(text string) error {
	digits, shift := text, 0
	switch {
	case strings.HasSuffix(strings.ToUpper(text), "K"):
		digits, shift = text[:len(text)-1], 10
	case strings.HasSuffix(strings.ToUpper(text), "M"):
		digits, shift = text[:len(text)-1], 20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<30>>shift {
		return fmt.Errorf("%q: want a number of bytes up to 1 GiB, such as 8, 64K or 1M", text)
	}
	*s = Size(n << shift)
	return nil
}

// Seconds is a flag value: perftest's number of seconds, or a duration with its unit.
type Seconds time.Duration

// String prints the duration; no duration is nothing.
func (s *Seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type names the value in the help text.
func (s *Seconds) Type() string { return "seconds" }

// Set reads "5" or "1m30s".
func (s *Seconds) Set(text string) error {
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a number of seconds such as 5, or 1m30s", text)
	}
	*s = Seconds(d)
	return nil
}
