package main

// The competitors come from Debian packages. What is missing is installed when that is possible; what is still missing is
// named in the results.

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// fetchRivals returns what could not be had, one line for each program.
func fetchRivals(ctx context.Context, progress io.Writer) (missing []string) {
	programs := lacking()
	if len(programs) == 0 {
		return nil
	}
	reason := install(ctx, programs, progress)
	for _, p := range lacking() {
		missing = append(missing, fmt.Sprintf("%s (Debian package %s): %s", p, rivalPackages[p], reason))
	}
	return missing
}

// lacking are the programs that are not there.
func lacking() (programs []string) {
	for p := range rivalPackages {
		if _, err := exec.LookPath(p); err != nil {
			programs = append(programs, p)
		}
	}
	slices.Sort(programs)
	return programs
}

func install(ctx context.Context, programs []string, progress io.Writer) (reason string) {
	if os.Geteuid() != 0 {
		return "not installed, and only root can install it"
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "not installed, and there is no apt-get"
	}
	packages := make([]string, len(programs))
	for i, p := range programs {
		packages[i] = rivalPackages[p]
	}
	fmt.Fprintf(progress, "installing %s\n", strings.Join(packages, " "))
	for _, line := range [][]string{
		{"apt-get", "update", "-qq"},
		append([]string{"apt-get", "install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Sprintf("%s: %v: %s", strings.Join(line[:2], " "), err, lastLine(out))
		}
	}
	return "the package has no such program"
}

// rivalVersions are the packages with their versions, as far as dpkg knows.
func rivalVersions(ctx context.Context) string {
	args := []string{"-W", "-f=${Package} ${Version}, "}
	for _, p := range rivalPackages {
		args = append(args, p)
	}
	slices.Sort(args[2:])
	out, _ := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	return strings.TrimSuffix(string(out), ", ")
}
