package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/rping"
)

func rpingCommand() *cobra.Command {
	var o rping.Options
	var client bool
	c := &cobra.Command{
		Use:   "rping -s | -c -a HOST",
		Short: "Ping over RDMA, connected by the RDMA connection manager, as rping does",
		Long: `rping's client tells the server where a text is; the server reads it, and writes it back elsewhere. The two find each
other by IP address, over the RDMA connection manager. The other end may be rdma-core's rping.

Without --dev the device is the address that is named, or from which the server is reached; a server without -a
has one for each address of this machine.`,
		Example: `  roce rping -s                                 server, on all addresses
  roce rping -c -a 10.0.0.1 -C 10 -v -V         ten pings of it, or of "rping -s", shown and compared
  roce rping -s -P -a 127.0.0.1 --dev udp:lo    for one client after the other`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Server == client {
				return errors.New("rping: one of -s (server) and -c (client) is needed")
			}
			return rping.Run(c.Context(), c.OutOrStdout(), o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVarP(&o.Server, "server", "s", false, "be the server")
	f.BoolVarP(&client, "client", "c", false, "be the client")
	f.StringVarP(&o.Addr, "addr", "a", "", "the server's `address` (on the server: the one to listen on)")
	f.StringVarP(&o.Source, "source", "I", "", "the client's `address`")
	f.IntVarP(&o.Port, "port", "p", rping.DefaultPort, "RDMA `port`")
	f.IntVarP(&o.Count, "count", "C", 0, "pings; 0: until it is interrupted")
	f.IntVarP(&o.Size, "size", "S", rping.DefaultSize,
		"bytes of text, 23 to 65535; the server takes any, but rdma-core's needs as much")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "print each text")
	f.BoolVarP(&o.Validate, "validate", "V", false, "the client compares each text")
	f.BoolVarP(&o.Debug, "debug", "d", false, "say what happens")
	f.BoolVarP(&o.Persistent, "persistent", "P", false,
		"the server goes on after its first client, and serves several at a time")
	f.StringVar(&o.Dev, "dev", "", "device `name`, see \"roce devices\"")
	faultFlag(f, &o.Faults)
	f.DurationVar(&o.Stall, "stall", 10*time.Second, "give up when nothing comes for so long; 0: never")
	recordFlags(c, &o.Pcap, &o.Records)
	return c
}
