package main

// "bench many" is one end of what many.go has cases of.

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/bench/many"
)

func manyMain(_ context.Context, args []string) error {
	var t many.Task
	f := flag.NewFlagSet("bench many", flag.ExitOnError)
	f.TextVar(&t.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&t.Peer, "peer", netip.Addr{}, "the peer's address")
	f.IntVar(&t.Connections, "n", 1, "connections")
	f.IntVar(&t.Size, "size", 64<<10, "bytes of a message")
	f.DurationVar(&t.Duration, "d", time.Second, "duration")
	f.BoolVar(&t.Sends, "sends", false, "be the client")
	f.Parse(args)
	if !t.Local.Is4() || !t.Peer.Is4() || t.Connections < 1 || t.Size < 1 {
		return errors.New("many: -local and -peer must be IPv4 addresses, -n and -size 1 or more")
	}
	return many.Run(os.Stdout, t)
}
