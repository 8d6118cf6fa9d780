// Command bench measures goroce against what the machine can do and against its competitors, in one run.
//
//	go run ./bench               everything, three rounds; writes bench/RESULTS.md, results.json, plots/ and profiles/
//	go run ./bench -quick        one short round
//	go run ./bench -list         what there is; -only and -skip choose by regular expression
//	go run ./bench -old COMMIT   our own cases of COMMIT and of the working tree in pairs: is anything slower?
//
// The stages of a run: fetch the competitors' packages and build the roce command; the stage (two network namespaces and a
// veth pair, package stage) with its cases in interleaved rounds: ceilings (package raw), competitors, goroce on each port,
// what shows from inside (package inside), two flows through a bottleneck; then the guest with rxe and both stacks in it; then
// a guest with two network cards and what our ports make of their driver; then the verdicts and the report.
//
// The same program is both ends of the ceilings, of the inside measurements and of the bottleneck: "bench raw", "bench inside",
// "bench fair".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/inside"
	"github.com/goroce/goroce/bench/raw"
	"github.com/goroce/goroce/bench/stage"
)

// linkMTU of the veth pair: a path MTU of 4096 fits.
const linkMTU = 9000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := benchMain
	if len(os.Args) > 1 {
		if end, ok := map[string]func(context.Context, []string) error{"raw": rawMain, "inside": insideMain, "fair": fairMain}[os.Args[1]]; ok {
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
	f.IntVar(&o.rounds, "rounds", 3, "how often every case is played")
	f.DurationVar(&o.duration, "d", 0, "how long a case takes, about (default 2s, with -old 1s)")
	f.BoolVar(&o.quick, "quick", false, "one round of one second a case")
	f.BoolVar(&o.list, "list", false, "list the cases and end")
	f.StringVar(&o.only, "only", "", "play only cases whose name matches this `regexp`")
	f.StringVar(&o.skip, "skip", "", "leave out cases whose name matches this `regexp`")
	f.StringVar(&o.out, "out", "", "`folder` for RESULTS.md, results.json, plots and profiles (default bench, and none for a quick or partial run)")
	f.StringVar(&o.pgo, "pgo", "", "measure nothing: write the profiles of our own cases as one to this `file`, a default.pgo")
	f.BoolVar(&o.guest, "guest", true, "also play in the guests: with rxe, and with the wire between two drivers")
	f.StringVar(&o.old, "old", "", "play our own cases of this `commit` and of the working tree in pairs, and exit with 1 if one has become worse or fails more often, or if nothing could be compared")
	f.IntVar(&o.pairs, "pairs", 10, "with -old: how many pairs of each case; below 6 only figures of nothing are decided")
	f.Uint64Var(&o.seed, "seed", 0, "with -old: of the order of the cases; 0 chooses one")
	f.StringVar(&o.json, "json", "", "with -old: `file` for all samples and verdicts")
	f.Parse(args)
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "d", "only", "skip": // of both
		case "old", "pairs", "seed", "json":
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
	switch {
	case o.quick:
		o.rounds, o.duration = 1, time.Second
	case o.duration == 0 && o.old != "":
		o.duration = time.Second
	case o.duration == 0:
		o.duration = 2 * time.Second
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
	choice, err := chosen(o.only, o.skip)
	if err != nil {
		return err
	}
	if o.list {
		for _, c := range choice(everyCase()) {
			fmt.Printf("%-34s %-24s %s\n", c.Name, c.Unit.Name, c.Brief)
		}
		return nil
	}
	if o.old != "" {
		return compare(ctx, o, choice, os.Stdout, os.Stderr)
	}
	r := &Results{Started: time.Now(), Machine: describeMachine(linkMTU), Rounds: o.rounds, Duration: o.duration.String()}
	if err := measure(ctx, o, choice, r, os.Stderr); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was written")
	}
	if o.pgo != "" {
		fmt.Fprintf(os.Stderr, "written: %s\n", o.pgo)
		return nil
	}
	r.judge(allBars())
	if err := r.writeSummary(os.Stdout); err != nil || o.out == "" {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "written: %s\n", filepath.Join(o.out, "RESULTS.md"))
	return nil
}

// chosen returns the filter of -only and -skip.
func chosen(only, skip string) (func([]Case) []Case, error) {
	keep, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	if skip == "" {
		skip = "^$"
	}
	drop, err := regexp.Compile(skip)
	if err != nil {
		return nil, err
	}
	return func(all []Case) (some []Case) {
		for _, c := range all {
			if keep.MatchString(c.Name) && !drop.MatchString(c.Name) {
				some = append(some, c)
			}
		}
		return some
	}, nil
}

// everyCase that there could be, for the list.
func everyCase() []Case {
	cases := append(ceilingCases(), rivalCases()...)
	for _, port := range allPorts {
		cases = append(cases, ourCases(port)...)
	}
	return slices.Concat(cases, insideCases(), fairCases(barredPorts), guestCases(barredPorts), wireCases())
}

// measure plays on this machine and then in the guest. What could not be had goes into the results; an error is one that
// leaves nothing to report.
func measure(ctx context.Context, o options, choice func([]Case) []Case, r *Results, progress io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goroce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	roce := filepath.Join(dir, "roce")
	if err := build(ctx, ".", "cmd/roce", roce); err != nil {
		r.Missing = append(r.Missing, "goroce: "+err.Error())
	}
	if o.pgo == "" {
		r.Missing = append(r.Missing, fetchRivals(ctx, progress)...)
		r.Machine.Rivals = rivalVersions(ctx)
	}

	s, err := stage.New(linkMTU)
	if err != nil {
		return err
	}
	host := hostStage{s}
	set := Setting{Bench: self, Roce: roce, Duration: o.duration}
	set.A, set.B = host.ends()
	ports, missing := workingPorts(ctx, host, set)
	r.Missing = append(r.Missing, missing...)
	cases := append(ceilingCases(), rivalCases()...)
	for _, port := range ports {
		cases = append(cases, ourCases(port)...)
	}
	ports = slices.DeleteFunc(ports, func(p string) bool { return !slices.Contains(barredPorts, p) })
	cases = slices.Concat(cases, insideCases(), fairCases(ports))
	if o.pgo != "" {
		defer s.Close()
		return profileAll(ctx, host, set, choice(cases), o.pgo, progress)
	}
	playRounds(ctx, host, set, choice(cases), o.rounds, r, progress)
	if o.out != "" {
		profileExtremes(ctx, host, set, cases, r, progress)
	}
	s.Close()

	if o.guest && ctx.Err() == nil && len(choice(guestCases(ports))) > 0 {
		if err := measureGuest(ctx, o, choice, set, ports, r, progress); err != nil {
			r.Missing = append(r.Missing, "the guest with rxe: "+err.Error())
		}
	}
	if o.guest && ctx.Err() == nil && len(choice(wireCases())) > 0 {
		if err := measureWire(ctx, o, choice, set, r, progress); err != nil {
			r.Missing = append(r.Missing, "the wire between two drivers: "+err.Error())
		}
	}
	return nil
}

func measureGuest(ctx context.Context, o options, choice func([]Case) []Case, set Setting, ports []string, r *Results, progress io.Writer) error {
	g, err := openGuest(ctx, set.Roce)
	if err != nil {
		return err
	}
	defer g.Close()
	r.Machine.Guest = g.describe()
	set.Roce, set.A, set.B = guestRoce, guestA, guestB
	playRounds(ctx, g, set, choice(guestCases(ports)), o.rounds, r, progress)
	return nil
}

func measureWire(ctx context.Context, o options, choice func([]Case) []Case, set Setting, r *Results, progress io.Writer) error {
	g, err := openWire(ctx, set.Roce)
	if err != nil {
		return err
	}
	defer g.Close()
	r.Machine.Wire = "Linux " + g.Kernel() + " under QEMU's emulation (TCG), 1 processor, two virtio_net cards of MTU 3814, joined by a bridge of the host"
	set.Roce, set.A, set.B = guestRoce, wireA, wireB
	playRounds(ctx, g, set, choice(wireCases()), o.rounds, r, progress)
	return nil
}

// rawMain is one end of a ceiling.
func rawMain(_ context.Context, args []string) error {
	var e raw.End
	f := flag.NewFlagSet("bench raw", flag.ExitOnError)
	path := f.String("path", "", "name of the path")
	mac := f.String("mac", "", "the peer's MAC address")
	f.StringVar(&e.Interface, "if", "", "interface")
	f.TextVar(&e.Local, "local", netip.Addr{}, "own address")
	f.TextVar(&e.Peer, "peer", netip.Addr{}, "the peer's address")
	f.DurationVar(&e.Duration, "d", time.Second, "duration")
	f.IntVar(&e.MTU, "mtu", linkMTU, "MTU of the interface")
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
