package play

// The rivals come from Debian packages. What is missing is installed when that is possible; what is
// still missing is named in the results.

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/goroce/goroce/bench/repertoire"
)

// fetchRivals returns what could not be had, one line for each program.
func fetchRivals(ctx context.Context, progress io.Writer) (missing []string) {
	programs := lacking()
	if len(programs) == 0 {
		return nil
	}
	reason := install(ctx, programs, progress)
	for _, p := range lacking() {
		missing = append(missing, fmt.Sprintf("%s (Debian package %s): %s", p, repertoire.RivalPackages[p], reason))
	}
	return missing
}

// lacking are the programs that are not there.
func lacking() (programs []string) {
	for p := range repertoire.RivalPackages {
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
		packages[i] = repertoire.RivalPackages[p]
	}
	fmt.Fprintf(progress, "installing %s\n", strings.Join(packages, " "))
	for _, line := range [][]string{
		{"apt-get", "update", "-qq"},
		append([]string{"apt-get", "install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Sprintf("%s: %v: %s", strings.Join(line[:2], " "), err, repertoire.LastLine(out))
		}
	}
	return "the package has no such program"
}

// rivalVersions are the packages with their versions, as far as dpkg knows, and the dates at which
// these were made, as far as their change logs are there.
func rivalVersions(ctx context.Context) string {
	var all []string
	for _, p := range slices.Sorted(maps.Values(repertoire.RivalPackages)) {
		version, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f=${Version}", p).Output()
		if err != nil {
			continue
		}
		text := p + " " + string(version)
		if log, err := readGzip("/usr/share/doc/" + p + "/changelog.Debian.gz"); err == nil {
			text += ChangeDate(log)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// changeLine ends an entry of a Debian change log; the newest comes first.
var changeLine = regexp.MustCompile(`(?m)^ -- .*, (\d+ \w+ \d{4}) `)

// ChangeDate is when a package was made, in brackets; nothing if its log does not say it.
func ChangeDate(log []byte) string {
	if m := changeLine.FindSubmatch(log); m != nil {
		return fmt.Sprintf(" (%s)", m[1])
	}
	return ""
}

func readGzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
