// Package ends is both ends of what is measured by programs of our own: small messages beside a
// stream ("loaded"), a stream over many TCP connections ("many"), and what programs get from
// connections that read and write bytes ("dial").
//
//	ends.go          what an end is told, and what it says
//	loaded_linux.go  loaded; roce_linux.go and tcp_linux.go are what it goes over
//	many_linux.go    many
//	dial_linux.go    dial; work_linux.go is what is done there
package ends

import (
	"errors"
	"flag"
	"net/netip"
	"time"
)

// Ports that tell that a server is ready, by the kind of an end.
const (
	LoadedPort = 18516
	ManyPort   = 18517
	DialPort   = 18518
)

// Task is what an end is to do. Kinds have what they need of it.
type Task struct {
	Local, Peer netip.Addr
	Sends       bool // be the client
	Duration    time.Duration
	// Over is "tcp"; or "roce" (loaded); or the kind of device that rsocket is on (dial).
	Over   string
	Device string // loaded: of our stack
	// Depth is how many messages of our stream are under way (loaded); of TCP there is what its
	// buffers take.
	Depth       int
	Work        string // dial: a name of works
	Polling     bool   // dial: calls of rsocket that wait poll
	Connections int    // many, dial: at a time
	Size        int    // many, dial: of a message, in bytes
}

// Parse reads the task from a command line.
func (t *Task) Parse(kind string, args []string) error {
	f := flag.NewFlagSet("bench "+kind, flag.ExitOnError)
	f.TextVar(&t.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&t.Peer, "peer", netip.Addr{}, "the peer's address")
	f.BoolVar(&t.Sends, "sends", false, "be the client")
	f.DurationVar(&t.Duration, "d", time.Second, "duration")
	f.StringVar(&t.Over, "over", "tcp", "tcp, or of loaded roce, or of dial the kind of device that rsocket is on")
	f.StringVar(&t.Device, "dev", "", "of loaded: device of roce")
	f.IntVar(&t.Depth, "depth", 4, "of loaded: messages of roce's stream under way")
	f.StringVar(&t.Work, "work", "stream", "of dial: stream, trip, http or setup")
	f.BoolVar(&t.Polling, "polling", false, "of dial: calls that wait poll")
	f.IntVar(&t.Connections, "n", 1, "connections at a time")
	f.IntVar(&t.Size, "size", 64<<10, "bytes of a message")
	f.Parse(args)
	if !t.Local.Is4() || !t.Peer.Is4() || t.Depth < 1 || t.Connections < 1 || t.Size < 1 {
		return errors.New("-local and -peer must be IPv4 addresses, -depth, -n and -size 1 or more")
	}
	return nil
}

// Result is what one of the ends prints: of many the server, otherwise the client. What its kind
// does not measure is 0.
type Result struct {
	P50       float64 `json:"p50_usec,omitempty"` // of a round trip, request or connection
	P99       float64 `json:"p99_usec,omitempty"`
	P999      float64 `json:"p99.9_usec,omitempty"`
	Exchanges int64   `json:"exchanges,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"` // round trips, requests or connections
	// Gbps is of the stream: as acknowledged (loaded), until its end has arrived (dial).
	Gbps    float64 `json:"gbps,omitempty"`
	Bytes   uint64  `json:"bytes,omitempty"`   // received
	Seconds float64 `json:"seconds,omitempty"` // from the first byte to the last

	// Of our stack: packets that were sent again, and how often nothing was heard for too long.
	Resent   uint64 `json:"resent,omitempty"`
	Timeouts uint64 `json:"timeouts,omitempty"`
}
