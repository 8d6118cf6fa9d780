package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goroce/goroce/cmd/roce/internal/perf"
	"github.com/goroce/goroce/roce"
)

func perfCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency, as the programs of perftest do",
		Long: `perf has perftest's tests with perftest's options. Each waits for a peer, or with a host connects to one that waits.
The peer is the same test of this command, or of perftest 4.5 (ib_write_bw and so on) on a machine with an RDMA device.

Besides perftest's figures it prints what a test cost the processors of both ends. --json prints all of it, --plot draws it.

Without --dev the device is the address over which the two ends reach each other.`,
		Example: `  roce perf write-bw                      server
  roce perf write-bw 10.0.0.1 -s 64K      client of it, or of "ib_write_bw" on 10.0.0.1
  roce perf send-lat 10.0.0.1 -s 8 -n 10000
  roce perf read-bw 10.0.0.1 -D 5 --json
  roce perf write-bw 10.0.0.1 -a --plot sizes.svg
  roce perf write-bw 10.0.0.1 -D 5 --rate-limit 10G`,
	}
	for i := range perf.Tests {
		c.AddCommand(perfTestCommand(&perf.Tests[i]))
	}
	c.AddCommand(costsCommands()...)
	return group(c)
}

func perfTestCommand(t *perf.Test) *cobra.Command {
	var o perf.Options
	var size perf.Size
	var kind, atomicType string
	c := &cobra.Command{
		Use:     t.Name + " [HOST]",
		Aliases: []string{t.Tool},
		Short:   fmt.Sprintf("%s; the other end may be %s", purpose(t), t.Tool),
		Example: fmt.Sprintf("  roce perf %[1]s\n  roce perf %[1]s 10.0.0.1 -s %[2]d -n %[3]d",
			t.Name, t.Size, t.Iters),
		Args: operands(0, 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Type, err = qpType("connection", kind); err != nil {
				return err
			}
			switch atomicType {
			case "FETCH_AND_ADD":
			case "CMP_AND_SWAP":
				o.CmpSwap = true
			default:
				return fmt.Errorf("--atomic-type %q: want FETCH_AND_ADD or CMP_AND_SWAP", atomicType)
			}
			if len(args) > 0 {
				o.Host = args[0]
			}
			o.Size = int(size)
			if !o.JSON && isTerminal(os.Stderr) {
				o.Live = os.Stderr
			}
			return perf.Run(c.Context(), c.OutOrStdout(), t, o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.SetNormalizeFunc(perftestNames)
	testFlags(f, t, &o, &size, &kind)
	if t.Lat {
		latencyFlags(f, t, &o)
	} else {
		bandwidthFlags(f, t, &o)
	}
	kindFlags(f, t, &o)
	atomicType = "FETCH_AND_ADD"
	if t.Title == "Atomic" {
		f.StringVarP(&atomicType, "atomic-type", "A", atomicType, "FETCH_AND_ADD or CMP_AND_SWAP")
	}
	reportFlags(f, &o)
	recordFlags(c, &o.Pcap, &o.Records)
	f.BoolP("cpu-freq", "F", false, "accepted, since perftest wants it on many machines")
	return c
}

// testFlags are those of all tests.
func testFlags(f *pflag.FlagSet, t *perf.Test, o *perf.Options, size *perf.Size, kind *string) {
	f.IntVarP(&o.Port, "port", "p", oobPort, "TCP `port` on which the two ends meet, or with -R RDMA port")
	f.StringVarP(&o.Dev, "dev", "d", "", "device `name`, see \"roce devices\"")
	f.VarP(size, "size", "s", fmt.Sprintf("message size, such as 8, 64K, 1M (default %d)", t.Size))
	f.IntVarP(&o.Iters, "iters", "n", 0, fmt.Sprintf("messages of each queue pair (default %d)", t.Iters))
	f.VarP((*perf.Seconds)(&o.Duration), "duration", "D",
		"run for so long instead, such as 5; SENDs and latency: on both ends")
	f.IntVarP(&o.MTU, "mtu", "m", 0, "path MTU in bytes (default the port's); the smaller of both ends counts")
	f.BoolVarP(&o.CM, "rdma-cm", "R", false,
		"meet by the RDMA connection manager, which connects the queue pairs too; on both ends")
	f.StringVarP(kind, "connection", "c", "RC", "transport service: RC, UC or UD")
	f.IntVarP(&o.GIDIndex, "gid-index", "x", 0, "row of the device's GID table")
	f.BoolVarP(&o.AllSizes, "all", "a", false, "all sizes from 2 to 8M; on both ends")
	f.BoolVarP(&o.Verbose, "verbose", "v", false,
		"print what the queue pairs know of their path: round trip, window, losses, pace")
	f.BoolVarP(&o.Events, "events", "e", false, "sleep until a completion comes instead of polling")
	f.IntVarP(&o.SL, "sl", "S", 0, "service level")
	f.IntVarP(&o.TClass, "tclass", "T", 0, "traffic class of the IP header")
	f.BoolVar(&o.GoBackN, "go-back-n", false,
		"RC: repair losses as the InfiniBand standard has it even if the peer is roce perf too, not by "+
			"selective repeat")
	f.IntVarP(&o.QPTimeout, "qp-timeout", "u", 14, "code of the ack timeout: 4.096 us * 2^n")
	faultFlag(f, &o.Faults)
}

// latencyFlags are those of tests that have one message under way.
func latencyFlags(f *pflag.FlagSet, t *perf.Test, o *perf.Options) {
	f.DurationVar(&o.Gap, "gap", 0,
		"the client sleeps so long before each message, such as 1ms; no part of the latency")
	if t.Op == roce.WRWrite {
		f.BoolVar(&o.Alone, "alone", false,
			"wait as programs do that know NICs only, such as ib_write_lat: look at memory alone, and poll for the "+
				"completion of each WRITE")
		f.DurationVar(&o.Linger, "linger", 50*time.Microsecond,
			"--alone: a poll that finds a completion runs the stack for so long, until the peer writes")
	}
	f.BoolVarP(&o.Histogram, "report-histogram", "H", false, "print how many messages took how long")
}

// kindFlags are those of one kind of operation.
func kindFlags(f *pflag.FlagSet, t *perf.Test, o *perf.Options) {
	if t.Title == "Send" || t.Title == "RDMA_Write" {
		f.IntVarP(&o.Inline, "inline", "I", t.Inline, "messages of up to so many bytes are copied while posting")
	}
	if t.Title == "Send" {
		f.IntVarP(&o.RxDepth, "rx-depth", "r", 0, "receives posted at a time (default 512)")
	}
	if t.Title == "RDMA_Read" || t.Title == "Atomic" {
		f.IntVarP(&o.Outs, "outs", "o", 0,
			"requests of the peer that are answered at a time (default 128 if the peer is roce perf, else 16)")
	}
}

// bandwidthFlags are those of tests that have many messages under way.
func bandwidthFlags(f *pflag.FlagSet, t *perf.Test, o *perf.Options) {
	f.VarP((*perf.Seconds)(&o.Margin), "margin", "f",
		"with --duration: not measured at its start and end (default a quarter of it)")
	f.IntVarP(&o.TxDepth, "tx-depth", "t", 0, "messages under way (default 128)")
	f.IntVarP(&o.PostList, "post-list", "l", 0, "messages posted with one call, at most (default 64)")
	f.IntVarP(&o.CQMod, "cq-mod", "Q", 0,
		"every so many messages have a completion (default a quarter of the depth, 1 above 8 KiB, a burst "+
			"under --rate-limit)")
	f.IntVarP(&o.QPs, "qps", "q", 0, "queue pairs; on both ends (default 1)")
	f.IntVar(&o.Lanes, "lanes", 1, "lanes of this end's device, which the queue pairs are spread over: a power of two")
	f.BoolVarP(&o.Bidi, "bidirectional", "b", false, "both ends send; on both ends")
	f.Var(&o.Rate, "rate-limit",
		"send no faster, all queue pairs together: bits a second (10G, 500M), messages (1.5Mpps), 100MiBps; a number "+
			"alone is Gbit/s")
	f.StringVar(&o.RateUnits, "rate-units", "",
		"unit of a --rate-limit without one: g (Gbit/s), M (MiB/s) or p (messages/s)")
	f.IntVar(&o.Burst, "burst-size", 0, "messages that leave together under --rate-limit (default 1)")
	f.BoolVarP(&o.NoPeak, "no-peak", "N", false, "do not look for the peak (it is looked for up to 20000 messages)")
	if t.Title != "Send" {
		f.BoolVar(&o.WarmUp, "perform-warm-up", false, "fill the send queues once before the measurement")
	}
	f.Float64VarP(&o.LimitBW, "limit-bw", "w", 0, "fail if the average bandwidth is below, in the unit of the report")
	f.Float64VarP(&o.LimitRate, "limit-msgrate", "y", 0, "fail if the message rate is below, in millions a second")
	f.BoolVar(&o.Gbits, "report-gbits", false, "bandwidth in Gbit/s instead of MiB/s")
}

// reportFlags say what is made of the results.
func reportFlags(f *pflag.FlagSet, o *perf.Options) {
	f.BoolVar(&o.CPUUtil, "cpu-util", false, "what each size cost this end's processors, as columns")
	f.StringVar(&o.Plot, "plot", "", "draw the result in a `file`, PNG if its name ends in .png, else SVG: over all "+
		"sizes, over time, or the tail of the latencies")
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	f.StringVar(&o.Profile, "cpuprofile", "", "`file` for a CPU profile of the measured phase, for go tool pprof")
}

// perftestNames lets perftest's long options be used as they are: its underscores, and the names
// that differ.
func perftestNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if ours, ok := map[string]string{"ib-dev": "dev", "qp": "qps", "inline-size": "inline", "nopeak": "no-peak",
		"out-json": "json"}[name]; ok {
		name = ours
	}
	return pflag.NormalizedName(name)
}

// isTerminal says whether a person reads what is written to a file.
func isTerminal(f *os.File) bool {
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

// purpose says what a test measures.
func purpose(t *perf.Test) string {
	what := map[string]string{
		"RDMA_Write": "RDMA WRITE",
		"RDMA_Read":  "RDMA READ",
		"Send":       "SEND",
		"Atomic":     "atomic",
	}[t.Title]
	if t.Lat {
		return what + " latency"
	}
	return what + " bandwidth"
}
