// Command roce shows and uses software RoCEv2 devices: a demonstration that needs nothing, the
// device lists that verbs users know, and the pingpong and perftest programs, with which it can be
// paired.
//
// One file per subcommand translates flags to the options of a package under internal/; everything
// else is there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goroce/goroce/trace"
)

// errInterrupted is why a run ended that the user ended.
var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := interruptible()
	defer stop()
	root := newRoot()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "roce: "+said(err))
	if errors.Is(err, errInterrupted) {
		os.Exit(130)
	}
	os.Exit(1)
}

// said is an error as the terminal gets it. The library's errors have the prefix already, and text
// in them may come from a peer or a file: a terminal would obey it.
func said(err error) string {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "roce: "), "\n")
	for i, line := range lines {
		lines[i] = trace.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// interruptible returns a context that the first Ctrl-C ends, with errInterrupted as its cause; a
// second Ctrl-C kills.
func interruptible() (context.Context, func()) {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	context.AfterFunc(signaled, func() {
		cancel(errInterrupted)
		stop()
	})
	return ctx, func() { stop(); cancel(nil) }
}

// recordFlags let a command keep a record of what its device does.
func recordFlags(c *cobra.Command, pcap *string, records *bool) {
	c.Flags().StringVar(pcap, "pcap", "", "record all packets in a `file` that Wireshark opens (pcapng)")
	c.Flags().BoolVar(records, "records", false,
		"record in the file of --pcap what the device does too: roce trace timeline")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *records && *pcap == "" {
			return errors.New("--records goes into the file of --pcap: name one")
		}
		return nil
	}
}

// faultFlag lets a test program's device have faults on purpose.
func faultFlag(f *pflag.FlagSet, rules *string) {
	f.StringVar(rules, "fault", "", "`rules` of what goes wrong on purpose, such as tx.SEND:5:drop (docs/faults.md)")
}

// more are commands that only some builds have (man.go, run_linux.go).
var more []func() *cobra.Command

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "roce",
		Short: "RoCEv2 in user space: RDMA between ordinary machines, without RDMA hardware or kernel modules",
		Long: `roce runs RDMA over Converged Ethernet v2 in user space, over ordinary UDP sockets.

Its pingpong, perf and rping subcommands speak the protocols of ibv_*_pingpong, of perftest 4.5 and of rping:
either end may be one of those programs on a machine with an RDMA device.`,
		Example: `  roce demo                            see every operation, packet by packet, on this machine
  roce learn --list                    learn RDMA from nothing, lesson by lesson
  roce devices                         what can be opened here
  roce pingpong                        wait for a peer ...
  roce pingpong 10.0.0.1               ... and play with it
  roce perf write-bw 10.0.0.1 -s 64K   measure against "roce perf write-bw" or "ib_write_bw" there`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRun: paint,
	}
	root.SetVersionTemplate("roce {{.Version}}\n")
	root.SetFlagErrorFunc(badOption)
	root.AddCommand(demoCommand(), devicesCommand(), devinfoCommand(), doctorCommand(), pingpongCommand(),
		perfCommand(), rpingCommand(), rstreamCommand(), versionCommand())
	root.AddCommand(traceCommand(), learnCommand())
	for _, command := range more {
		root.AddCommand(command())
	}
	complete(root)
	helpTopics(root)
	return group(root)
}
