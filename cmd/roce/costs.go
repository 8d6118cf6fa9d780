package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/costs"
	"github.com/goroce/goroce/cmd/roce/internal/perf"
)

// costsCommands are the subcommands of perf that perftest has not: what things cost, side by side.
func costsCommands() []*cobra.Command {
	return []*cobra.Command{regCommand(), tableCommand(&costs.Sockets, &cobra.Command{
		Use:   "sockets [HOST]",
		Short: "A message and its answer by ping, UDP, TCP, SEND and RDMA WRITE, side by side",
		Long: `sockets measures how long a message and its answer take over what every machine has, ping, UDP and TCP sockets, and over
RDMA, each with ends that sleep until something comes and with ends that poll, one after the other. Both ends are this machine's,
or with a host the other is "roce perf sockets --server" there.`,
		Example: `  roce perf sockets                       both ends on this machine
  roce perf sockets --plot sockets.svg    and a picture
  roce perf sockets --server              an end for ...
  roce perf sockets 10.0.0.1 -s 1K        ... this one, on another machine`,
	}), tableCommand(&costs.Notify, &cobra.Command{
		Use:   "notify [HOST]",
		Short: "How the other side learns of a WRITE, and what each way costs",
		Long: `notify measures how long it takes from the post of an RDMA WRITE until a program at the other side knows of it: by looking
at the memory, by an atomic flag behind the WRITE, by an immediate that the WRITE carries, and by a SEND behind it; what it costs
both ends' processors, and how many packets leave for it, acknowledgements too. Both ends take the same way, so a time is half of a
round trip. Memory can only be polled; who sleeps needs a completion. Sleeping is CQ.Wait, which polls for some microseconds first: an
answer that comes so soon is as quick as by polling.`,
		Example: `  roce perf notify                        both ends on this machine
  roce perf notify --json -s 4K
  roce perf notify --server               an end for ...
  roce perf notify 10.0.0.1               ... this one, on another machine`,
	})}
}

// costsPort is where the ends of these tests meet: not where perftest's do, who speak otherwise.
const costsPort = 18516

func tableCommand(t *costs.Table, c *cobra.Command) *cobra.Command {
	var o costs.Options
	size := perf.Size(64)
	c.Args = operands(0, 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Host = args[0]
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Size, o.Program = int(size), []string{self, "perf", t.Name, "--answer"}
		return costs.Run(c.Context(), c.OutOrStdout(), t, o)
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.Server, "server", false, "answer one client, then end")
	f.StringVar(&o.Answer, "answer", "", "answer the client that waits at this TCP `address`, then end")
	f.MarkHidden("answer")
	f.IntVarP(&o.Port, "port", "p", costsPort, "TCP `port` on which the two ends meet")
	f.StringVarP(&o.Dev, "dev", "d", "",
		"device `name`, see \"roce devices\"; of the client, if both ends are this machine's")
	f.VarP(&size, "size", "s", "message size, 8 to 1M")
	faultFlag(f, &o.Faults)
	outputFlags(c, &o, time.Second, "each way")
	recordFlags(c, &o.Pcap, &o.Records)
	return c
}

func regCommand() *cobra.Command {
	var o costs.Options
	smallest, largest := perf.Size(4096), perf.Size(1<<30)
	c := &cobra.Command{
		Use:   "reg",
		Short: "What registering memory costs, by size, and after how many transfers it pays",
		Long: `reg measures RegMR and Close of regions of 4 KiB to 1 GiB, with their pages locked in memory, as a NIC's driver does it
(Config.PinMemory), and not, as this stack does it otherwise, beside a copy of the same bytes. A program that sends from memory of its own
registers it once, or copies each message into a buffer that is registered for ever: "pays after" is from how many messages on the
first is cheaper. Sizes that the memory of this machine does not allow are left out, and said.`,
		Example: `  roce perf reg
  roce perf reg --largest 16M --plot reg.png
  sudo roce perf reg --dev verbs:rxe0       what a driver of the kernel takes (built with -tags verbs)`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Smallest, o.Largest = int(smallest), int(largest)
			return costs.Reg(c.Context(), c.OutOrStdout(), o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Dev, "dev", "d", "", "device `name`; without it one in memory")
	f.Var(&smallest, "smallest", "begin with regions of this size")
	f.Var(&largest, "largest", "end with regions of this size")
	outputFlags(c, &o, 200*time.Millisecond, "each figure, at least")
	return c
}

// outputFlags say how long to measure and what is made of the results.
func outputFlags(c *cobra.Command, o *costs.Options, d time.Duration, of string) {
	f := c.Flags()
	o.Duration = d
	f.VarP((*perf.Seconds)(&o.Duration), "duration", "D", "how long to measure "+of)
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	f.StringVar(&o.Plot, "plot", "", "draw the result in a `file`, PNG if its name ends in .png, else SVG")
}
