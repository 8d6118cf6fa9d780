package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/doctor"
)

func doctorCommand() *cobra.Command {
	var o doctor.Options
	c := &cobra.Command{
		Use:   "doctor HOST | --program FILE",
		Short: "Say why two machines cannot connect, or a program cannot use goroce, and what to do",
		Long: `doctor looks at what lies between this machine and a peer: the route, the neighbour, the MTU, UDP port 4791 and who has
it, the GID, a NIC's segmentation, and whether the peer's connection manager answers; and says of each what to do.

It sends a connection request for a port that nobody has, which the peer refuses, and a few small datagrams; none of them
changes anything there. Who is silent is called silent: from here, a firewall and nobody look the same.

With --program it looks at a program or library that uses libibverbs or librdmacm: whether the loader, with the environment
as it is, finds goroce's in their place, and whether these have every function that the program wants.

The exit status is 0 if nothing is wrong, else 1.`,
		Example: `  roce doctor 10.0.0.2
  roce doctor 10.0.0.2 --dev packet:eth0 --json
  roce doctor --program /usr/bin/ib_write_bw`,
		Args: func(c *cobra.Command, args []string) error {
			if o.Program != "" {
				return operands(0, 0)(c, args)
			}
			return operands(1, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Host = strings.Join(args, "")
			return doctor.Run(c.Context(), c.OutOrStdout(), o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Dev, "dev", "d", "",
		"device `name`, see \"roce devices\" (default that of the address from which the peer is reached)")
	f.DurationVar(&o.Wait, "wait", 5*time.Second, "wait so long for answers")
	f.StringVar(&o.Program, "program", "", "look at a program's `file` instead")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	return c
}
