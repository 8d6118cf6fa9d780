// Command bench measures goroce against what the machine can do and against its rivals, in one run.
//
//	go run ./bench               what most users ask
//	go run ./bench -full         more ports, guests, loss, many connections, from inside
//	go run ./bench -quick        one short round
//	go run ./bench -list         what there is, and how long it takes
//	go run ./bench -old COMMIT   our own cases of COMMIT and of the working tree in pairs
//
// The first two write bench/RESULTS.md, results.json, plots/ and profiles/; the last one says
// whether anything has become slower. -only and -skip choose cases by regular expressions.
//
// The stages of a run (measure_linux.go): fetch the rivals' packages and build the roce command;
// the stage (two network namespaces and a veth pair, package stage) with its bouts (bouts.go) in a
// shuffled order, each in rounds (rounds.go), with the processor time of each play (meter.go); then
// the bouts in the guest with rxe, and in a guest with two network cards; then the verdicts
// (bars.go, judge.go) and the report (report.go).
//
// The same program is both ends of the references, of the measurements from inside, of the
// bottlenecks and of what TCP has no program for: "bench raw", "bench inside", "bench fair", "bench
// short", "bench loaded", "bench many".
package main

import (
	"cmp"
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
	"regexp"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/goroce/goroce/bench/inside"
	"github.com/goroce/goroce/bench/raw"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := benchMain
	if len(os.Args) > 1 {
		if end, ok := map[string]func(context.Context, []string) error{"raw": rawMain, "inside": insideMain, "fair": fairMain, "loaded": loadedMain, "many": manyMain, "short": shortMain}[os.Args[1]]; ok {
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

// options of a run.
type options struct {
	rounds     int
	duration   time.Duration
	quick      bool
	full       bool
	list       bool
	only, skip string
	out, pgo   string
	guest      bool

	old, json string
	pairs     int
	seed      uint64
}

// readOptions reads the command line of a run.
func readOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.IntVar(&o.rounds, "rounds", 10, "how often every case is played; below 6 no bar is decided")
	f.DurationVar(&o.duration, "d", time.Second, "how long a case takes, about")
	f.BoolVar(&o.quick, "quick", false, "one round")
	f.BoolVar(&o.full, "full", false, "play all cases, also those that a short run leaves out (-only finds them too)")
	f.BoolVar(&o.list, "list", false, "list the bouts with their cases and how long they take, and end")
	f.StringVar(&o.only, "only", "", "play only cases whose name matches this `regexp`")
	f.StringVar(&o.skip, "skip", "", "leave out cases whose name matches this `regexp`")
	f.StringVar(&o.out, "out", "", "`folder` for RESULTS.md, results.json, plots and profiles (default bench, and none for a quick or partial run)")
	f.StringVar(&o.pgo, "pgo", "", "measure nothing: write the profiles of our own cases as one to this `file`, a default.pgo")
	f.BoolVar(&o.guest, "guest", true, "also play in the guests: with rxe, and with the wire between two drivers")
	f.StringVar(&o.old, "old", "", "play our own cases of this `commit` and of the working tree in pairs, and exit with 1 if one has become worse or fails more often, or if nothing could be compared")
	f.IntVar(&o.pairs, "pairs", 10, "with -old: how many pairs of each case; below 6 only figures of nothing are decided")
	f.Uint64Var(&o.seed, "seed", 0, "of the order of bouts and cases; 0 chooses one")
	f.StringVar(&o.json, "json", "", "with -old: `file` for all samples and verdicts")
	f.Parse(args)
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "d", "only", "skip", "seed": // of both
		case "old", "pairs", "json":
			if o.old == "" {
				err = fmt.Errorf("-%s needs the commit of -old", set.Name)
			}
		default:
			if o.old != "" {
				err = fmt.Errorf("-%s does not go with -old", set.Name)
			}
		}
	})
	if o.old != "" && o.pairs < 1 {
		err = errors.New("-pairs must be 1 or more")
	}
	if o.quick {
		o.rounds = 1
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1e6)
	}
	if o.out == "" && !o.quick && o.only == "" && o.skip == "" {
		o.out = "bench"
	}
	return o, err
}

func benchMain(ctx context.Context, args []string) error {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	choice, err := o.choice()
	if err != nil {
		return err
	}
	if o.list {
		return list(os.Stdout, chosen(allBouts(allPorts), choice), o)
	}
	if o.old != "" {
		return compare(ctx, o, choice, os.Stdout, os.Stderr)
	}
	r := &Results{Started: time.Now(), Machine: describeMachine(), Full: o.full, Rounds: o.rounds, Duration: o.duration.String(),
		Seed: o.seed, chance: rand.New(rand.NewPCG(o.seed, 0))}
	bouts, err := measure(ctx, o, choice, r, os.Stderr)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: the bouts that were played to their ends are written, unless nothing was to be")
	}
	if o.pgo != "" {
		fmt.Fprintf(os.Stderr, "written: %s\n", o.pgo)
		return nil
	}
	r.Complete = true
	r.judge(bouts)
	if err := r.writeSummary(os.Stdout); err != nil || o.out == "" {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "written: %s\n", filepath.Join(o.out, "RESULTS.md"))
	return nil
}

// choice returns what -only, -skip and -full leave. Who asks for cases by their names gets them
// also if only a full run plays them.
func (o *options) choice() (func(*Case) bool, error) {
	keep, err := regexp.Compile(o.only)
	if err != nil {
		return nil, err
	}
	drop, err := regexp.Compile(cmp.Or(o.skip, "^$"))
	if err != nil {
		return nil, err
	}
	return func(c *Case) bool {
		return keep.MatchString(c.Name) && !drop.MatchString(c.Name) && (!c.Full || o.full || o.only != "")
	}, nil
}

// list says what there is and how long it takes, about.
func list(out io.Writer, bouts []Bout, o options) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sum := time.Duration(0)
	for _, b := range bouts {
		takes := b.takes(o.rounds, Setting{Duration: o.duration})
		sum += takes
		fmt.Fprintf(w, "# %s: %d cases, %d rounds, %v\n", b.Name, len(b.Cases), b.rounds(o.rounds), takes.Round(time.Second))
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
	f.IntVar(&e.MTU, "mtu", jumboMTU, "MTU of the interface")
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
