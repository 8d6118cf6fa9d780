// Command bench measures goroce against what the machine can do and against its rivals, in one run.
//
//	go run ./bench               what most users ask
//	go run ./bench -full         more ports, guests, loss, many connections, from inside
//	go run ./bench -quick        one short round
//	go run ./bench -list         what there is, and how long it takes
//	go run ./bench net           ours beside TCP on networks that lose, are shared, or are long
//	go run ./bench -old COMMIT   our own cases of COMMIT and of the working tree in pairs
//
// The first two write bench/RESULTS.md, results.json, plots/ and profiles/; the last one says
// whether anything has become slower. -only and -skip choose cases by regular expressions.
//
// Three packages beside the command: figures (what cases, bouts, bars, results and verdicts are,
// and their report), repertoire (which cases there are, ours and those of the rivals, and what is
// demanded of ours), and play (performing them on this machine).
//
// The stages of a run (play/measure_linux.go): fetch the rivals' packages and build the roce
// command; the stage (two network namespaces and a veth pair, package stage) with its bouts
// (repertoire/bouts.go) in a shuffled order, each in rounds (play/rounds.go), with the processor
// time of each play (play/meter.go); then the bouts in the guest with rxe, and in a guest with two
// network cards; then the verdicts (figures/judge.go) and the report (figures/report.go).
//
// The same program is both ends of the references, of the measurements from inside, of the
// bottlenecks and of what TCP has no program for: "bench raw", "bench inside", "bench fair", "bench
// short", "bench loaded", "bench many", "bench dial"; and "bench host" starts a rank of MPI.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/inside"
	"github.com/goroce/goroce/bench/play"
	"github.com/goroce/goroce/bench/raw"
	"github.com/goroce/goroce/bench/repertoire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := benchMain
	if len(os.Args) > 1 {
		if end, ok := map[string]func(context.Context, []string) error{"raw": rawMain, "inside": insideMain,
			"fair": fairMain, "short": shortMain, "net": netMain, "loaded": endMain("loaded"), "many": endMain("many"),
			"dial": endMain("dial"), "host": hostMain}[os.Args[1]]; ok {
			run = end
			os.Args = append(os.Args[:1], os.Args[2:]...)
			stop() // ends of cases die when they are told to
			ctx = context.Background()
		}
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// readOptions reads the command line of a run.
func readOptions(args []string) (o play.Options, err error) {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.IntVar(&o.Rounds, "rounds", 10, "how often every case is played; below 6 no bar is decided")
	f.DurationVar(&o.Duration, "d", time.Second, "how long a case takes, about")
	f.BoolVar(&o.Quick, "quick", false, "one round")
	f.BoolVar(&o.Full, "full", false, "play all cases, also those that a short run leaves out (-only finds them too)")
	f.BoolVar(&o.List, "list", false, "list the bouts with their cases and how long they take, and end")
	f.StringVar(&o.Only, "only", "", "play only cases whose name matches this `regexp`")
	f.StringVar(&o.Skip, "skip", "", "leave out cases whose name matches this `regexp`")
	f.StringVar(&o.Out, "out", "", "`folder` for RESULTS.md, results.json, plots and profiles (default bench, and "+
		"none for a quick or partial run)")
	f.StringVar(&o.PGO, "pgo", "",
		"measure nothing: write the profiles of our own cases as one to this `file`, a default.pgo")
	f.BoolVar(&o.Guest, "guest", true, "also play in the guests: with rxe, and with the wire between two drivers")
	f.StringVar(&o.Old, "old", "", "play our own cases of this `commit` and of the working tree in pairs, and exit "+
		"with 1 if one has become worse or fails more often, or if nothing could be compared")
	f.IntVar(&o.Pairs, "pairs", 10,
		"with -old: how many pairs of each case; below 6 only figures of nothing are decided")
	f.Uint64Var(&o.Seed, "seed", 0, "of the order of bouts and cases; 0 chooses one")
	f.StringVar(&o.JSON, "json", "", "with -old: `file` for all samples and verdicts")
	f.Parse(args)
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "d", "only", "skip", "seed": // of both
		case "old", "pairs", "json":
			if o.Old == "" {
				err = fmt.Errorf("-%s needs the commit of -old", set.Name)
			}
		default:
			if o.Old != "" {
				err = fmt.Errorf("-%s does not go with -old", set.Name)
			}
		}
	})
	if o.Old != "" && o.Pairs < 1 {
		err = errors.New("-pairs must be 1 or more")
	}
	if o.Quick {
		o.Rounds = 1
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64N(1e6)
	}
	if o.Out == "" && !o.Quick && o.Only == "" && o.Skip == "" {
		o.Out = "bench"
	}
	return o, err
}

func benchMain(ctx context.Context, args []string) error {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	choice, err := o.Choice()
	if err != nil {
		return err
	}
	if o.List {
		return list(os.Stdout, figures.Chosen(repertoire.AllBouts(repertoire.AllPorts), choice), o)
	}
	if o.Old != "" {
		return play.Compare(ctx, o, choice, os.Stdout, os.Stderr)
	}
	r := &figures.Results{Started: time.Now(), Machine: play.DescribeMachine(), Full: o.Full, Rounds: o.Rounds,
		Duration: o.Duration.String(), Seed: o.Seed, Chance: rand.New(rand.NewPCG(o.Seed, 0))}
	bouts, err := play.Measure(ctx, o, choice, r, os.Stderr)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: the bouts that were played to their ends are written, unless nothing was to be")
	}
	if o.PGO != "" {
		fmt.Fprintf(os.Stderr, "written: %s\n", o.PGO)
		return nil
	}
	r.Complete = true
	r.Judge(bouts)
	if err := r.WriteSummary(os.Stdout); err != nil || o.Out == "" {
		return err
	}
	if err := r.Write(o.Out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "written: %s\n", filepath.Join(o.Out, "RESULTS.md"))
	return nil
}

// list says what there is and how long it takes, about.
func list(out io.Writer, bouts []figures.Bout, o play.Options) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sum := time.Duration(0)
	for _, b := range bouts {
		takes := b.Takes(o.Rounds, figures.Setting{Duration: o.Duration})
		sum += takes
		fmt.Fprintf(w, "# %s: %d cases, %d rounds, %v\n", b.Name, len(b.Cases), b.Times(o.Rounds),
			takes.Round(time.Second))
		for _, c := range b.Cases {
			fmt.Fprintf(w, "%s\t %s\t %s\n", c.Name, c.Unit.Name, c.Brief)
		}
	}
	fmt.Fprintf(w, "# in all: %v\n", sum.Round(time.Second))
	return w.Flush()
}

// rawMain is one end of a reference.
func rawMain(_ context.Context, args []string) error {
	var e raw.End
	f := flag.NewFlagSet("bench raw", flag.ExitOnError)
	path := f.String("path", "", "name of the path")
	mac := f.String("mac", "", "the peer's MAC address")
	f.StringVar(&e.Interface, "if", "", "interface")
	f.TextVar(&e.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&e.Peer, "peer", netip.Addr{}, "the peer's address")
	f.DurationVar(&e.Duration, "d", time.Second, "duration")
	f.IntVar(&e.MTU, "mtu", figures.JumboMTU, "MTU of the interface")
	f.DurationVar(&e.Gap, "gap", 0, "of a ping-pong: how long the client sleeps before each exchange")
	f.DurationVar(&e.Spin, "spin", 50*time.Microsecond, "of udp-spin50: how long an end spins before it sleeps")
	f.BoolVar(&e.Sends, "sends", false, "be the sender, or the client")
	f.Parse(args)
	var err error
	if e.PeerMAC, err = net.ParseMAC(*mac); err != nil {
		return err
	}
	if !e.Local.Is4() || !e.Peer.Is4() {
		return errors.New("raw: -local and -peer must be IPv4 addresses")
	}
	return raw.Run(os.Stdout, *path, e)
}

// endMain is an end of a kind.
func endMain(kind string) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		var t ends.Task
		if err := t.Parse(kind, args); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		return ends.Run(ctx, os.Stdout, kind, t)
	}
}

// insideMain is a measurement from inside.
func insideMain(_ context.Context, args []string) error {
	var t inside.Task
	f := flag.NewFlagSet("bench inside", flag.ExitOnError)
	name := f.String("name", "", "name of the measurement")
	f.StringVar(&t.Device, "dev", "udp:127.0.0.1", "device, where a real one is needed")
	f.IntVar(&t.QPs, "qps", 1, "connected queue pairs")
	f.DurationVar(&t.Duration, "d", time.Second, "duration")
	f.Parse(args)
	return inside.Run(os.Stdout, *name, t)
}
