package main

import (
	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/rstream"
)

func rstreamCommand() *cobra.Command {
	var o rstream.Options
	c := &cobra.Command{
		Use:   "rstream [-s HOST]",
		Short: "Measure a stream of bytes over RDMA, as rstream does",
		Long: `rstream sends bytes to and fro over a stream that is made of RDMA WRITEs, and says how long they take: half a round
trip, and throughput. The two ends find each other by IP address, over the RDMA connection manager. The other end may be
rdma-core's rstream, which uses rsockets. Size, count and iterations are not exchanged: give both ends the same.

Without --dev the device is the address that is named with -b, or from which the server is reached; a server without -b
has one for each address of this machine.`,
		Example: `  roce rstream                            server, on all addresses
  roce rstream -s 10.0.0.1                client of it, or of "rstream" on 10.0.0.1
  roce rstream -s 10.0.0.1 -S 64 -I 1000 -C 1 -T verify   a test of one's own, every byte compared
  roce rstream -T socket                  the same over TCP, to compare`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return rstream.Run(c.Context(), c.OutOrStdout(), o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Server, "server", "s", "", "the server's `address`: be the client")
	f.StringVarP(&o.Bind, "bind", "b", "", "this end's `address`")
	f.IntVarP(&o.Buffer, "buffer", "B", 0, "`bytes` of the send and of the receive buffer (default 512 KiB)")
	f.IntVarP(&o.Iters, "iterations", "I", 0, "how often; this, -C or -S makes a test of its own")
	f.IntVarP(&o.Count, "count", "C", 0, "transfers each way, each time (default 1000)")
	f.StringVarP(&o.Size, "size", "S", "", "`bytes` of a transfer (default 1000), or all: the series with more sizes")
	f.IntVarP(&o.Port, "port", "p", rstream.DefaultPort, "RDMA `port`")
	f.IntVarP(&o.KeepAlive, "keepalive", "k", 0, "`seconds` of silence before a sign of life is asked for")
	f.StringSliceVarP(&o.Tests, "test", "T", nil,
		"`how`: socket (TCP), async or blocking (sleep), nonblocking (poll), verify (compare)")
	f.StringVar(&o.Dev, "dev", "", "device `name`, see \"roce devices\"")
	faultFlag(f, &o.Faults)
	recordFlags(c, &o.Pcap, &o.Records)
	return c
}
