package figures

// What a case is: one figure, from two programs that play together, or from one alone.

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"
)

// JumboMTU is the MTU of the link that a path MTU of 4096 fits.
const JumboMTU = 9000

// MTUs of links: first the one that most users have.
var MTUs = []int{1500, JumboMTU}

// Unit is what a figure counts, and which way is better.
type Unit struct {
	Name  string `json:"name"`
	Lower bool   `json:"lower_is_better"`
	Zero  bool   `json:"-"` // nothing at all is a figure, and not a failure
}

// Units of figures.
var (
	Gbps   = Unit{Name: "Gbit/s"}
	Mpps   = Unit{Name: "M messages/s"}
	Usec   = Unit{Name: "us one way", Lower: true}
	NsEach = Unit{Name: "ns a message", Lower: true}
	Bytes1 = Unit{Name: "bytes a QP", Lower: true}
	UsOnce = Unit{Name: "us", Lower: true}
	OfCore = Unit{Name: "% of a core", Lower: true, Zero: true}
	Allocs = Unit{Name: "allocations a message", Lower: true, Zero: true}

	// UsTrip is for round trips whose two ways are not alike.
	UsTrip = Unit{Name: "us round trip", Lower: true}
	PerSec = Unit{Name: "a second"}
)

// Side is where a program of a case runs.
type Side struct {
	Interface string
	Addr      netip.Addr
	MAC       net.HardwareAddr
}

// Setting is what the command lines of a case are made of.
type Setting struct {
	Bench, Roce string // this program and the roce command
	RoceNoPGO   string // the roce command built without its profile; "": there is none
	MPI         string // the folder of the job of MPI and the libraries of dropin; "": there is none
	A, B        Side   // the client's and the server's
	Duration    time.Duration
}

// Command is a command line with its environment.
type Command struct {
	Args []string
	Env  []string
}

// Play is a server and the client that meets it.
type Play struct {
	Before         []Command // run to their ends first
	Server, Client Command   // no server: the client plays alone
	Proto          string    // "tcp" or "udp": what the server opens when it is ready
	Port           int
	Together       bool // both at A's end, with no network between them
	Stays          bool // the server never ends by itself
	Link           Link
	// Margin is the part of the client's life, at its beginning and at its end, in which processor
	// time does not count; 0 means a quarter.
	Margin float64
}

// Link is what the network between the ends is to be like; package stage says what that means.
type Link struct {
	MTU        int    // 0: as it is
	InOrder    bool   // each end's own processor takes in what comes to it
	Big        bool   // TCP's packets go in runs of up to 196,000 bytes
	Congestion string // what TCP does where no program chooses; "": usualCongestion
}

// UsualCongestion is what TCP does for most users, whatever this machine's default is.
const UsualCongestion = "cubic"

// Case is one figure.
type Case struct {
	Name   string // "iperf3/tcp/128K": who, over what, what
	Brief  string
	Unit   Unit
	Play   func(Setting) Play
	Figure func(server, client []byte) (float64, error)
	// Shared: other cases have the same play and take other figures from it, so that it is
	// performed once a round.
	Shared bool
	// MTU is that of the link: 1500, which most users have, or 9000; 0 if it does not matter.
	MTU  int
	Full bool // only a full run plays it (make bench FULL=1)

	// CostUnit is what the processor time of the whole machine is told per; the zero value: what
	// goes with the Unit in costUnits, or no cost if nothing does.
	CostUnit Unit
	// Work is how many of those the play did in a second, taken from what both ends printed; nil:
	// it is the figure, turned as costUnits says.
	Work func(server, client []byte) (perSecond float64, err error)
	// Note is what must stand beside the figure, such as how much was lost; nil or "": nothing.
	Note func(server, client []byte) string
	// P99 is what 99 of 100 exchanges do not exceed, in the figure's unit, or 0. It is nil where
	// that is not told.
	P99 func(server, client []byte) float64
	// Takes is how long a play lasts, about, for -list; nil: the duration and what starting takes.
	Takes func(time.Duration) time.Duration
}

// Units of processor time. It is that of both ends and of the kernel's work for them.
var (
	// Their work is 10^9 bytes, a million messages and a million exchanges a second.
	PerGB       = Unit{Name: "CPU s/GB", Lower: true}
	PerMillion  = Unit{Name: "CPU s per million messages", Lower: true}
	PerExchange = Unit{Name: "CPU us an exchange", Lower: true}
)

// CostUnits are what processor time is told per where a case does not say it, and how much of that
// a figure of 1 stands for.
var CostUnits = map[Unit]struct {
	Cost Unit
	Work float64
}{
	Gbps: {PerGB, 1.0 / 8},
	Mpps: {PerMillion, 1},
}

// HasCost says whether processor time is told per anything.
func (c *Case) HasCost() bool {
	return c.CostUnit.Name != "" || CostUnits[c.Unit].Cost.Name != ""
}

// Limit is the time after which a case has failed. Some programs count repetitions and not time, so
// it is ample.
func Limit(d time.Duration) time.Duration { return 20*time.Second + 5*d }

// Seconds of a duration, at least one: for programs that take whole ones.
func Seconds(d time.Duration) string { return fmt.Sprint(max(1, int(math.Round(d.Seconds())))) }

// Repeats scales a number of repetitions that take about a second to a duration.
func Repeats(perSecond int, d time.Duration) string {
	return fmt.Sprint(max(100, int(float64(perSecond)*d.Seconds())))
}
