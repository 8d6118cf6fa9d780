package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/launch"
)

func init() {
	more = append(more, runCommand)
}

func runCommand() *cobra.Command {
	var o launch.Options
	c := &cobra.Command{
		Use:   "run [--dev NAME]... [--profile FILE] -- PROGRAM [ARGS]...",
		Short: "Run a program that was built for RDMA NICs without one",
		Long: `run starts a program, as it is, with goroce's libibverbs in the place of rdma-core's: its devices are this machine's
network interfaces and the loopback. The program takes the place of roce: signals and the exit status are its own.

Programs of one user share the addresses, by way of a hub that is started if there is none (roce hub, roce ps). Where there can
be none an address is one program's: who begins second gets a free address of the loopback, which is printed.

With --profile the program meets the devices that a file describes (docs/dropin.md), such as eighteen of them, rows of RoCE v1,
ports that are down, objects that cannot be made. GOROCE_FAULTS makes packets go wrong on purpose (docs/faults.md).
Built in are:

` + launch.BuiltIn() + `
The libraries lie beside roce, in ../lib/goroce from there, in dropin/build, in roce itself, or where GOROCE_LIBRARIES says.`,
		Example: `  roce run -- ibv_rc_pingpong -g 0
  roce run -- ibv_rc_pingpong -g 0 127.0.0.1
  roce run --dev udp:eth0 -- ib_write_bw 10.0.0.1
  roce run --profile connectx -- ibv_devinfo -v`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("roce run: what is to be run is missing: roce run -- PROGRAM [ARGS]...")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return launch.Run(c.ErrOrStderr(), o, args) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.SetInterspersed(false)
	f.StringSliceVarP(&o.Dev, "dev", "d", nil,
		"device `name`, see \"roce devices\"; again for more (default each interface)")
	f.StringVar(&o.Profile, "profile", "", "the devices that the program meets, a `file` or a name")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "say nothing of the devices")
	return c
}
