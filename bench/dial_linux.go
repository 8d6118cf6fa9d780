package main

// "bench dial" is one end of what dial.go has cases of.

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/bench/dial"
)

func dialMain(ctx context.Context, args []string) error {
	var t dial.Task
	f := flag.NewFlagSet("bench dial", flag.ExitOnError)
	f.StringVar(&t.Over, "over", "udp", "tcp, or the kind of device that rsocket is on")
	f.StringVar(&t.Work, "work", "stream", "stream, trip, http or setup")
	f.BoolVar(&t.Polling, "polling", false, "calls that wait poll")
	f.TextVar(&t.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&t.Peer, "peer", netip.Addr{}, "the peer's address")
	f.BoolVar(&t.Sends, "sends", false, "be the client")
	f.IntVar(&t.Connections, "n", 1, "connections at a time")
	f.IntVar(&t.Size, "size", 64<<10, "bytes of a message")
	f.DurationVar(&t.Duration, "d", time.Second, "duration")
	f.Parse(args)
	if !t.Local.IsValid() || !t.Peer.IsValid() || t.Connections < 1 || t.Size < 1 {
		return errors.New("dial: -local and -peer must be addresses, -n and -size 1 or more")
	}
	return dial.Run(ctx, os.Stdout, t)
}
