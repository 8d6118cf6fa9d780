package main

// "bench loaded" is one end of what loaded.go has cases of.

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/bench/loaded"
)

func loadedMain(_ context.Context, args []string) error {
	var t loaded.Task
	f := flag.NewFlagSet("bench loaded", flag.ExitOnError)
	over := f.String("over", "roce", "roce or tcp")
	f.StringVar(&t.Device, "dev", "", "device of roce")
	f.TextVar(&t.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&t.Peer, "peer", netip.Addr{}, "the peer's address")
	f.DurationVar(&t.Duration, "d", time.Second, "duration")
	f.BoolVar(&t.Sends, "sends", false, "be the client")
	f.IntVar(&t.Depth, "depth", 4, "messages of roce's stream under way")
	f.Parse(args)
	if t.Depth < 1 {
		return errors.New("loaded: -depth must be 1 or more")
	}
	if !t.Local.IsValid() || !t.Peer.IsValid() {
		return errors.New("loaded: -local and -peer must be addresses")
	}
	return loaded.Run(os.Stdout, *over, t)
}
