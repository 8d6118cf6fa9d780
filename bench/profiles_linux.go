package main

// Where the time goes: the cases of ours that are furthest above and furthest below their bars are played once more, with a CPU
// profile of each end.

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// profileLines is how many functions of a profile are told.
const profileLines = "40"

// profileExtremes adds the profiles of the best and the worst case to the results. It judges what has been measured so far.
func profileExtremes(ctx context.Context, t theatre, set Setting, cases []Case, r *Results, progress io.Writer) {
	best, worst := r.extremes(allBars())
	for _, p := range []Profile{{Name: "best", Case: best}, {Name: "worst", Case: worst}} {
		for i := range cases {
			if cases[i].Name != p.Case {
				continue
			}
			fmt.Fprintf(progress, "profile of the %s case, %s\n", p.Name, p.Case)
			var err error
			if p.Text, err = cases[i].profile(ctx, t, set); err != nil {
				r.Missing = append(r.Missing, fmt.Sprintf("profile of %s: %v", p.Case, err))
				continue
			}
			r.Profiles = append(r.Profiles, p)
		}
	}
}

// profile plays a case of roce perf and returns the functions that take most of the time at both ends.
func (c *Case) profile(ctx context.Context, t theatre, set Setting) (text string, err error) {
	dir, err := os.MkdirTemp("", "goroce-profile-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	play := c.Play(set)
	ends := []struct {
		name string
		args *[]string
	}{{"client", &play.Client.Args}, {"server", &play.Server.Args}}
	for _, e := range ends {
		*e.args = append(*e.args, "--cpuprofile", filepath.Join(dir, e.name))
	}
	if _, _, err := t.perform(ctx, play, limit(set.Duration)); err != nil {
		return "", err
	}
	for _, e := range ends {
		out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount="+profileLines, filepath.Join(dir, e.name)).Output()
		if err != nil {
			return "", fmt.Errorf("go tool pprof of the %s: %w", e.name, err)
		}
		text += fmt.Sprintf("%s: %s\n\n%s\n", e.name, strings.Join((*e.args)[1:len(*e.args)-2], " "), out)
	}
	return text, nil
}
