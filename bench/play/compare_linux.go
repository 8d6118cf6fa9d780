package play

// A comparison on this machine: it checks the old commit out, builds the programs of both, and has
// them play on one stage.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

var errInterrupted = errors.New("interrupted: nothing was compared")

// Compare plays the cases of the commit o.old and of the working tree in pairs. It returns an error
// if a case has become worse or fails more than it did, and if nothing could be compared.
func Compare(ctx context.Context, o Options, choice func(*figures.Case) bool, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "goroce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	host, err := newHostStage() // first, because it says what privilege is missing
	if err != nil {
		return err
	}
	defer host.Close()
	c := &Comparison{Started: time.Now(), Machine: DescribeMachine(), Pairs: o.Pairs, Duration: o.Duration.String(),
		Seed: o.Seed, old: contender{name: "old"}, new: contender{name: "new"}}
	if err := c.prepare(ctx, o.Old, dir, progress); ctx.Err() != nil {
		return errInterrupted
	} else if err != nil {
		return err
	}
	c.old.enter(ctx, host, o.Duration)
	c.new.enter(ctx, host, o.Duration)
	cases := slices.DeleteFunc(c.plan(), func(k figures.Case) bool { return !choice(&k) })
	if len(cases) == 0 {
		return errors.New("none of the cases that commits are compared by was chosen")
	}
	fmt.Fprintf(progress, "%d cases, seed %d\n", len(cases), c.Seed)
	c.playPairs(ctx, host, cases, progress)
	if ctx.Err() != nil {
		return errInterrupted
	}
	c.Judge(cases)
	return c.conclude(out, o.JSON)
}

// conclude prints and writes what was found.
func (c *Comparison) conclude(out io.Writer, file string) error {
	if err := c.Write(out); err != nil {
		return err
	}
	if file != "" {
		if err := c.writeJSON(file); err != nil {
			return err
		}
	}
	return c.outcome()
}

// prepare checks the old commit out and builds the programs of both in a folder.
func (c *Comparison) prepare(ctx context.Context, commit, dir string, progress io.Writer) error {
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if c.OldCommit, err = describeCommit(ctx, top, commit); err != nil {
		return err
	}
	if c.NewCommit, err = describeTree(ctx, top); err != nil {
		return err
	}
	source := filepath.Join(dir, "source")
	if err := checkOut(ctx, top, commit, source); err != nil {
		return err
	}
	for p, from := range map[*contender]string{&c.old: source, &c.new: top} {
		if err := p.build(ctx, from, dir, progress); err != nil {
			return err
		}
	}
	if c.old.listed == nil {
		c.Notes = append(c.Notes, "the old commit has no bench: nothing is compared from inside")
	} else if changed, err := changedSources(ctx, top, commit, "bench"); err != nil {
		return err
	} else if n := len(changed); n > 0 {
		c.Notes = append(c.Notes,
			fmt.Sprintf("inside/ compares by two rulers: sources of bench differ (%d, such as %s)", n, changed[0]))
	}
	for _, program := range [][2]string{{c.old.set.Roce, c.new.set.Roce}, {c.old.set.Bench, c.new.set.Bench}} {
		if same, err := sameContent(program[0], program[1]); err == nil && same {
			c.Notes = append(c.Notes, filepath.Base(program[0])+" and "+filepath.Base(program[1])+
				" are the same program: its differences are noise")
		}
	}
	return nil
}

// build builds a commit's programs in a folder, and asks its bench, if it has one, for its cases.
func (p *contender) build(ctx context.Context, source, dir string, progress io.Writer) error {
	fmt.Fprintf(progress, "building the %s commit\n", p.name)
	p.set.Roce, p.set.Bench = filepath.Join(dir, p.name+"-roce"), filepath.Join(dir, p.name+"-bench")
	if err := build(ctx, source, "cmd/roce", p.set.Roce); err != nil {
		return fmt.Errorf("%s commit: %w", p.name, err)
	}
	_, err := os.Stat(filepath.Join(source, "bench"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err = build(ctx, source, "bench", p.set.Bench); err == nil {
		p.listed, err = listedCases(ctx, p.set.Bench)
	}
	if err != nil {
		return fmt.Errorf("%s commit: %w", p.name, err)
	}
	return nil
}

// enter gives a commit's programs their places on the stage and tries the ports there.
func (p *contender) enter(ctx context.Context, host *hostStage, duration time.Duration) {
	p.set.Duration = duration
	p.set.A, p.set.B = host.ends()
	p.ports = map[string]error{}
	for _, port := range repertoire.AllPorts {
		p.ports[port] = tryPort(ctx, host, p.set, port)
	}
}

// listedCases asks a bench program for the names of its cases: all of them, if it knows how to tell
// those that only a full run plays.
func listedCases(ctx context.Context, bench string) (map[string]bool, error) {
	out, err := exec.CommandContext(ctx, bench, "-full", "-list").Output()
	if err != nil {
		out, err = exec.CommandContext(ctx, bench, "-list").Output()
	}
	if err != nil {
		return nil, fmt.Errorf("the list of its cases: %w", err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, _, ok := strings.Cut(line, " "); ok {
			names[name] = true
		}
	}
	return names, nil
}

func sameContent(a, b string) (bool, error) {
	x, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	return bytes.Equal(x, y), err
}
