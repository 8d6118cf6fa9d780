package main

import (
	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show every RDMA operation between two devices on this machine, packet by packet",
		Long: `demo opens two devices on two loopback addresses and runs SEND, RDMA WRITE (also with immediate data), RDMA READ,
compare-and-swap and fetch-and-add over a reliable connection, SEND and WRITE over an unreliable one, and a datagram.
It explains each packet in a line and compares every byte of both memories with what it should be.

"roce learn" has the same operations one at a time, with what each step is for, and what goes wrong.

It needs no privileges, no network set-up and no other program. The exit status is 0 only if all was right.`,
		Example: `  roce demo
  roce demo --quiet
  roce demo --pcap demo.pcapng && wireshark demo.pcapng`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return demo.Run(c.Context(), c.OutOrStdout(), o)
		},
	}
	c.Flags().BoolVarP(&o.Quiet, "quiet", "q", false, "leave out the packets")
	recordFlags(c, &o.Pcap, &o.Records)
	return c
}
