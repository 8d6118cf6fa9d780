package main

// "bench net": ours beside TCP on networks that lose, are shared, or are long (package networks).
// Stages: which cases; those that have not been played often enough, in a shuffled order, one
// repeat of all after the other; the table.

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/networks"
	"github.com/goroce/goroce/bench/play"
)

func netMain(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := flag.NewFlagSet("bench net", flag.ExitOnError)
	only := f.String("case", "", "play only cases whose name matches this `regexp`, from its beginning")
	repeats := f.Int("repeats", 5, "how often each case is to have been played")
	d := f.Duration("d", 4*time.Second, "how long to look at the flows")
	state := f.String("state", "bench/net.jsonl", "`file` of what has been played: it is not played again")
	out := f.String("out", "", "`file` for the table (default bench/NETWORKS.md if all cases were chosen, else "+
		"standard output)")
	list := f.Bool("list", false, "list the cases and how long they take, and end")
	f.Parse(args)
	match, err := regexp.Compile("^(" + *only + ")")
	if err != nil {
		return err
	}
	cases := slices.DeleteFunc(networks.Cases(), func(c networks.Case) bool { return !match.MatchString(c.Name) })
	if lacks := networks.Lacks(); len(lacks) > 0 {
		fmt.Fprintf(os.Stderr, "this kernel has no %s: modprobe tcp_bbr, or the table is without\n",
			strings.Join(lacks, ", "))
		cases = slices.DeleteFunc(cases, func(c networks.Case) bool {
			return slices.ContainsFunc(c.Flows, func(kind string) bool { return slices.Contains(lacks, kind) })
		})
	}
	s, err := networks.Load(*state, commit(ctx))
	if err != nil {
		return err
	}
	if *list {
		return listNet(os.Stdout, s, cases, *repeats, *d)
	}
	if err := playNet(ctx, s, cases, *repeats, *d); err != nil {
		return err
	}
	table := io.Writer(os.Stdout)
	if *out == "" && *only == "" {
		*out = "bench/NETWORKS.md"
	}
	if *out != "" {
		file, err := os.Create(*out)
		if err != nil {
			return err
		}
		defer file.Close()
		table = file
	}
	m := play.DescribeMachine()
	return s.Write(table, cases, *repeats, fmt.Sprintf("%d processors, %s, %s", m.Processors, m.Processor, m.Go))
}

// commit is what the programs are made of; what is not committed is told apart.
func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// listNet says what there is, and how long what is missing takes.
func listNet(w io.Writer, s *networks.State, cases []networks.Case, repeats int, d time.Duration) error {
	sum := time.Duration(0)
	for _, c := range cases {
		fmt.Fprintf(w, "%-34s %d of %d plays\n", c.Name, s.Times(c.Name), repeats)
		sum += time.Duration(max(repeats-s.Times(c.Name), 0)) * c.Takes(d)
	}
	_, err := fmt.Fprintf(w, "%d cases; what is missing takes %v\n", len(cases), sum.Round(time.Second))
	return err
}

// playNet plays what is missing. A case that fails is told, and played again in the next repeat.
func playNet(ctx context.Context, s *networks.State, cases []networks.Case, repeats int, d time.Duration) error {
	bench, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-net")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	roce := filepath.Join(dir, "roce")
	build := exec.CommandContext(ctx, "go", "build", "-o", roce, "github.com/goroce/goroce/cmd/roce")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build of the roce command: %w: %s", err, text)
	}
	failed := 0
	for n := range repeats {
		for _, i := range rand.Perm(len(cases)) {
			c := &cases[i]
			if s.Times(c.Name) > n {
				continue
			}
			r, err := networks.Play(ctx, c, d, roce, bench)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: what was played is in the file, and the next run goes on")
			}
			if err != nil {
				failed++
				fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
				continue
			}
			if err := s.Add(r); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s: %.3g Gbit/s, lost %.3g %%, sent again %.3g %%, 99 of 100 in %.3g ms\n", c.Name,
				r.Flows, r.Lost, r.Resent, r.P99)
		}
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d plays failed: run it again to make up for them\n", failed)
	}
	return nil
}
