package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/perf"
	"github.com/goroce/goroce/cmd/roce/internal/trace"
	library "github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
	"github.com/goroce/goroce/trace/timeline"
)

func traceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Read captures of RoCE: packets explained, drawn, and what became of each message",
		Long: `trace reads capture files, pcap and pcapng, of RoCEv2, RoCEv1 and InfiniBand: taken on Ethernet, with or without
VLAN tags, by "tcpdump -i any", of IP packets (roce --pcap), or by an Endace card. It checks the ICRC of every
packet. FILE may be - for standard input. "Section 4.5" is one of docs/rocev2.md in the repository, which has the
protocol with its sources.`,
		Example: `  roce demo --quiet --pcap demo.pcapng && roce trace decode demo.pcapng
  roce trace explain demo.pcapng#3        every byte of the third packet
  roce trace explain IBV_WC_REM_INV_REQ_ERR
  roce trace analyze demo.pcapng          what became of each message
  roce trace timeline demo.pcapng         what the device did beside its packets (roce demo --pcap ... --records)
  roce trace ladder --html demo.html demo.pcapng
  roce trace diff here.pcapng there.pcapng    what was lost between two ends, and how long packets took
  sudo roce trace capture eth0            what other programs and machines send`,
	}
	c.AddCommand(traceDecodeCommand(), traceExplainCommand(), traceAnalyzeCommand(), traceTimelineCommand(),
		traceDiffCommand(), traceLadderCommand(), traceServeCommand(), traceCaptureCommand())
	return group(c)
}

// choiceFlags choose packets of a file.
func choiceFlags(c *cobra.Command, o *trace.Choice) {
	c.Flags().IntVar(&o.From, "from", 0, "begin with packet `N`")
	c.Flags().IntVar(&o.To, "to", 0, "end with packet `N`")
	c.Flags().Uint32Var(&o.QP, "qp", 0, "only packets to this queue pair `number`")
	filterFlag(c, o)
}

// filterFlag chooses packets by an expression.
func filterFlag(c *cobra.Command, o *trace.Choice) {
	c.Flags().StringVarP(&o.Filter, "filter", "Y", "", "only packets that an `expression` describes, written as "+
		"Wireshark's display filters: \"ip.src == 10.0.0.1 && infiniband.bth.opcode == RC_ACKNOWLEDGE\" "+
		"(roce trace decode --fields: all names)")
}

func traceDecodeCommand() *cobra.Command {
	var o trace.DecodeOptions
	fields := false
	c := &cobra.Command{
		Use:   "decode FILE",
		Short: "Show each packet in a line, or all of its fields",
		Example: `  roce trace decode capture.pcapng
  roce trace decode -v --from 17 --to 17 capture.pcapng
  roce trace decode --json capture.pcapng | jq .opcode
  roce trace decode --filter 'ip.src == 10.0.0.1 && infiniband.bth.psn in {5..9}' capture.pcapng
  roce trace decode --fields                the names that a filter may have
  roce trace decode --annotate commented.pcapng capture.pcap && wireshark commented.pcapng`,
		Args: func(c *cobra.Command, args []string) error {
			if fields {
				return operands(0, 0)(c, args)
			}
			return operands(1, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if fields {
				_, err := fmt.Fprintln(c.OutOrStdout(), strings.Join(filter.Fields(), "\n"))
				return err
			}
			return trace.Decode(c.Context(), c.OutOrStdout(), args[0], o)
		},
	}
	choiceFlags(c, &o.Choice)
	c.Flags().BoolVarP(&o.Verbose, "verbose", "v", false, "every field of every header, with its meaning")
	c.Flags().BoolVar(&o.JSON, "json", false, "a JSON object for each packet")
	c.Flags().BoolVar(&fields, "fields", false, "show the names that a filter may have")
	c.Flags().BoolVar(&o.Others, "all", false, "packets that are nothing of RoCE too")
	c.Flags().StringVar(&o.Annotate, "annotate", "",
		"write the packets to a `file` for Wireshark, each with its line as a comment")
	c.MarkFlagsMutuallyExclusive("verbose", "json", "annotate")
	return c
}

func traceExplainCommand() *cobra.Command {
	list := false
	c := &cobra.Command{
		Use:   "explain HEX | FILE#N | STATUS",
		Short: "Explain a packet byte by byte, or what a status, syndrome, event or counter means",
		Long: `explain shows a packet byte by byte: the N-th of a capture file, or one given in hexadecimal digits, which may begin at
Ethernet, IP or the BTH. Of a completion status, a syndrome, an asynchronous event, a drop counter or a rejection of the connection
manager it says what it means, what its usual causes are and where to look. Of a term of the lessons, such as rkey, it says what it is.`,
		Example: `  roce trace explain demo.pcapng#3
  roce trace explain "0a40ffff 00000012 80000005 00001000 00002000 00000033 00000000 12345678"
  roce trace explain 9                      a completion status, as its name or its text is
  roce trace explain 0x62                   a syndrome
  roce trace explain "event 3"
  roce trace explain rx_icrc_errors
  roce trace explain rkey`,
		Args: func(c *cobra.Command, args []string) error {
			if list {
				return operands(0, 0)(c, args)
			}
			return operands(1, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if !list {
				return trace.Explain(c.Context(), c.OutOrStdout(), args[0])
			}
			for _, t := range library.Topics() {
				fmt.Fprintf(c.OutOrStdout(), "%-18s %s\n", t.Kind, t.Name)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&list, "list", false, "show all names that can be explained")
	return c
}

func traceAnalyzeCommand() *cobra.Command {
	var choice trace.Choice
	asJSON := false
	c := &cobra.Command{
		Use:   "analyze FILE",
		Short: "Say what became of each message: times, retries, losses, refusals, and the rules behind them",
		Long: `analyze finds the connections of a capture, by the messages of the connection manager or, if those are not in it, by
sequence numbers, and says for each way of each: the messages and how long they took, what was sent again and why,
what was lost, refused or put off, credits, marks and congestion notifications, and what went wrong, with the
section of docs/rocev2.md that has the rule. Each finding says which packets it rests on, and whether it is a guess.
It sees what the capture has seen, which is not what either end has; of --filter, only the packets that it leaves,
so leave both ways. "roce trace explain 12" says what a status comes of.`,
		Example: `  roce trace analyze capture.pcapng
  roce trace analyze --json capture.pcapng | jq '.connections[].ways[].findings[] | select(.weight == "failed")'`,
		Args: operands(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return trace.Analyze(c.Context(), c.OutOrStdout(), args[0], choice, asJSON)
		},
	}
	choiceFlags(c, &choice)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object: connections, their ways, findings and what they rest "+
		"on")
	return c
}

func traceDiffCommand() *cobra.Command {
	var choice trace.Choice
	asJSON := false
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two captures of one connection, taken at its two ends: losses, order, delays",
		Long: `diff finds each packet of one capture in the other, and says what was lost between them, what came twice, what
another packet has overtaken, what a switch has marked, what was damaged, and how long packets took. It finds out by
itself which capture is of which end. Clocks of two machines differ by an unknown time. Packets of both ways tell
how long the fastest take there and back together; how that divides nobody can tell, so the clocks are set as if the
fastest packet of each way took half of it. All delays of one way may be too long by the same constant, and those of
the other way too short by it.`,
		Example: `  roce trace diff client.pcapng server.pcapng
  roce trace diff --json client.pcapng server.pcapng | jq '.pairs[].ways[] | {from, lost: (.lost | length), delay_ns}'`,
		Args: operands(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return trace.Diff(c.Context(), c.OutOrStdout(), args[0], args[1], choice, asJSON)
		},
	}
	filterFlag(c, &choice)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

func traceTimelineCommand() *cobra.Command {
	var o timeline.Options
	c := &cobra.Command{
		Use:   "timeline FILE",
		Short: "Show what a device did beside its packets: requests, drops and why, retries, completions",
		Long: `timeline shows a file that a command has written with --pcap FILE --records: each packet, and between them what the
device did, in the order in which it happened: the work request that began, the packets that it became, what was
executed where, what was dropped and why, why it was sent again, and the completion in which it ended. The device is
one end: of the other end only the packets are seen.`,
		Example: `  roce demo --quiet --pcap demo.pcapng --records && roce trace timeline demo.pcapng
  roce perf write-bw --pcap loss.pcapng --records --fault tx:1%:drop 10.0.0.1
  roce trace timeline --json demo.pcapng | jq 'select(.record == "completion")'`,
		Args: operands(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return trace.Timeline(c.Context(), c.OutOrStdout(), args[0], o)
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "a JSON object for each packet and each record")
	return c
}

func traceLadderCommand() *cobra.Command {
	var o trace.LadderOptions
	c := &cobra.Command{
		Use:   "ladder FILE",
		Short: "Draw the packets as a sequence diagram: in the terminal, as SVG, or as a page",
		Long: `ladder draws a line down for each address and an arrow for each packet, with what analyze has to say of it. The page of
--html is one file that needs nothing else and opens from disk; each packet in it opens to its bytes and fields. It shows
1000 packets unless --rows says otherwise (10000 at most), from packet --from on.`,
		Example: `  roce trace ladder capture.pcapng | less -S
  roce trace ladder --html capture.html capture.pcapng
  roce trace ladder --svg retry.svg --from 100 --to 140 capture.pcapng`,
		Args: operands(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return trace.Ladder(c.Context(), c.OutOrStdout(), args[0], o)
		},
	}
	choiceFlags(c, &o.Choice)
	c.Flags().IntVar(&o.Rows, "rows", 1000, "show so many `packets` at most")
	c.Flags().StringVar(&o.SVG, "svg", "", "write a picture to a `file`")
	c.Flags().StringVar(&o.HTML, "html", "", "write a page to a `file`")
	c.MarkFlagsMutuallyExclusive("svg", "html")
	return c
}

func traceServeCommand() *cobra.Command {
	var o trace.ServeOptions
	c := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Show a capture, a running demonstration or the lessons in a browser",
		Long: `serve prints a URL of this machine to open in a browser. The page there is the one of "ladder --html"; of a large
capture it has a window at a time, and shows the others as they are asked for. Without a FILE it shows the lessons
of "roce learn". With --demo it shows the packets of "roce demo", which runs again and again, as they pass. Nobody
else can open the page: it is on a loopback address, and the URL has a secret in it. It ends with Ctrl-C.`,
		Example: `  roce trace serve capture.pcapng
  roce trace serve --demo
  ssh -L 8080:127.0.0.1:8080 HOST roce trace serve --listen 127.0.0.1:8080 capture.pcapng`,
		Args: operands(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.File = args[0]
			} else if o.Filter != "" {
				return errors.New("--filter chooses packets of a FILE")
			}
			return trace.Serve(c.Context(), c.OutOrStdout(), o)
		},
	}
	filterFlag(c, &o.Choice)
	c.Flags().BoolVar(&o.Demo, "demo", false, "show the packets of roce demo as they pass")
	c.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:0", "loopback `address` and port; port 0: any that is free")
	c.Flags().IntVar(&o.Rows, "rows", 1000, "show so many `packets` at once, 10000 at most")
	return c
}

func traceCaptureCommand() *cobra.Command {
	var o trace.CaptureOptions
	var snap, buffer, size perf.Size
	var duration, every perf.Seconds
	c := &cobra.Command{
		Use:   "capture INTERFACE",
		Short: "Show or record the RoCE packets that a network interface sees",
		Long: `capture listens on a network interface, as tcpdump does, for RoCEv2 and RoCEv1, also between other machines as far
as the interface sees it, and answers nothing. It needs Linux and CAP_NET_RAW, and ends with Ctrl-C. What a NIC does
without its kernel is not seen on the NIC's own host. The packets of one's own program alone are recorded without
privilege by --pcap of roce perf, pingpong, rping and demo, and by capture.Wrap (package transport/capture).

Where there is more than can be written, --snap 128 keeps the headers of each packet, which is all that analyze
needs; messages of the connection manager are kept whole. With --file-size or --file-time the capture goes to one
file after the other, called as --write says, with a number and the time; --files 10 keeps the newest ten, so that
the capture can run until what happens once a night has happened.`,
		Example: `  sudo roce trace capture eth0
  sudo roce trace capture lo -w local.pcapng --count 1000
  sudo roce trace capture eth0 -w - | roce trace decode -
  sudo roce trace capture eth0 -w night.pcapng --snap 128 --file-size 100M --files 10`,
		Args: operands(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Snap, o.Ring, o.Files.Size = int(snap), int(buffer), int64(size)
			o.Duration, o.Files.Time = time.Duration(duration), time.Duration(every)
			return trace.Capture(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), args[0], o)
		},
	}
	c.Flags().StringVarP(&o.Write, "write", "w", "",
		"write the packets to a `file` (pcapng) instead; -: standard output")
	c.Flags().Var(&snap, "snap", "write so many bytes of a packet at most, such as 128")
	c.Flags().Var(&buffer, "buffer", "memory for packets that wait to be written, such as 256M (default 64M)")
	c.Flags().IntVar(&o.Count, "count", 0, "end after so many `packets`")
	c.Flags().Var(&duration, "duration", "end after so many seconds, or 10m")
	c.Flags().Var(&size, "file-size", "begin another file after so many bytes, such as 100M")
	c.Flags().Var(&every, "file-time", "begin another file after so many seconds, or 10m")
	c.Flags().IntVar(&o.Files.Keep, "files", 0, "keep the newest `N` files (default all)")
	c.Flags().Uint32Var(&o.QP, "qp", 0, "only packets to this queue pair `number`")
	filterFlag(c, &o.Choice)
	return c
}
