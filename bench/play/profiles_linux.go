package play

// Profiles of our own cases, played once more with a CPU profile of each end. What they are for: to
// tell where the time goes in the cases that are furthest above and furthest below their bars, and
// to build the command by (cmd/roce/default.pgo, `make pgo`).

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/bench/figures"
)

// profileLines is how many functions of a profile are told.
const profileLines = "40"

// profileExtremes adds the profiles of the best and the worst case to the results. It judges what
// has been measured so far.
func profileExtremes(ctx context.Context, t theatre, set figures.Setting, bouts []figures.Bout, r *figures.Results,
	progress io.Writer) {
	best, worst := r.Extremes(bouts)
	for _, p := range []figures.Profile{{Name: "worst", Case: worst}, {Name: "best", Case: best}} {
		if p.Name == "best" && best == worst {
			continue // it is the only one
		}
		c := caseNamed(bouts, p.Case)
		if c == nil {
			continue
		}
		fmt.Fprintf(progress, "profile of the %s case, %s\n", p.Name, p.Case)
		var err error
		if p.Text, err = profileOf(ctx, c, t, set); err != nil {
			r.Missing = append(r.Missing, fmt.Sprintf("profile of %s: %v", p.Case, err))
			continue
		}
		r.Profiles = append(r.Profiles, p)
	}
}

// caseNamed finds a case in bouts; nil: there is none.
func caseNamed(bouts []figures.Bout, name string) *figures.Case {
	for _, b := range bouts {
		for i := range b.Cases {
			if b.Cases[i].Name == name {
				return &b.Cases[i]
			}
		}
	}
	return nil
}

// profileOf plays a case of roce perf and returns the functions that take most of the time at both
// ends.
func profileOf(ctx context.Context, c *figures.Case, t theatre, set figures.Setting) (text string, err error) {
	dir, err := os.MkdirTemp("", "goroce-profile-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ends, err := record(ctx, c, t, set, dir)
	if err != nil {
		return "", err
	}
	for _, e := range ends {
		out, err := pprof(ctx, "-top", "-nodecount="+profileLines, e.file)
		if err != nil {
			return "", fmt.Errorf("profile of the %s: %w", e.name, err)
		}
		text += fmt.Sprintf("%s: %s\n\n%s\n", e.name, e.command, out)
	}
	return text, nil
}

// recorded is the profile of one end.
type recorded struct{ name, command, file string }

// record plays a case of roce perf and leaves the CPU profiles of both ends in a folder.
func record(ctx context.Context, c *figures.Case, t theatre, set figures.Setting, dir string) (ends []recorded,
	err error) {
	play := c.Play(set)
	play.Link.MTU = c.MTU
	for name, args := range map[string]*[]string{"client": &play.Client.Args, "server": &play.Server.Args} {
		e := recorded{name, strings.Join((*args)[1:], " "),
			filepath.Join(dir, strings.ReplaceAll(c.Name, "/", "-")+"-"+name)}
		*args = append(*args, "--cpuprofile", e.file)
		ends = append(ends, e)
	}
	slices.SortFunc(ends, func(a, b recorded) int { return strings.Compare(a.name, b.name) })
	_, err = t.perform(ctx, play, figures.Limit(set.Duration))
	return ends, err
}

// profileAll plays all cases of ours and merges their profiles into one file, by which the compiler
// arranges the command.
func profileAll(ctx context.Context, t theatre, set figures.Setting, bouts []figures.Bout, file string,
	progress io.Writer) error {
	dir, err := os.MkdirTemp("", "goroce-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	merge := []string{"-proto", "-output=" + file}
	for _, b := range bouts {
		for i := range b.Cases {
			if figures.Maker(b.Cases[i].Name) != "ours" {
				continue
			}
			fmt.Fprintf(progress, "profile of %s\n", b.Cases[i].Name)
			ends, err := record(ctx, &b.Cases[i], t, set, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", b.Cases[i].Name, err)
			}
			for _, e := range ends {
				merge = append(merge, e.file)
			}
		}
	}
	_, err = pprof(ctx, merge...)
	return err
}

func pprof(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof"}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w", err)
	}
	return out, nil
}
