// Getting Debian packages without installing anything. Stages: choose the kernel's package by pattern, let apt resolve
// the others as for an empty system, download, verified by apt, into a folder of ours. The host's own state is only read.

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// apt runs apt tools with a private package status and cache.
type apt struct {
	dir      string // for downloads and state
	ownLists bool   // use lists of our own, for which "update" was run
}

func newApt(dir string) (*apt, error) {
	a := &apt{dir: dir}
	for _, sub := range []string{"debs/partial", "lists/partial", "cache"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	return a, os.WriteFile(filepath.Join(dir, "status"), nil, 0o644)
}

func (a *apt) run(ctx context.Context, tool string, args ...string) (string, error) {
	options := []string{
		"-q",
		"-o", "Dir::State::status=" + filepath.Join(a.dir, "status"),
		"-o", "Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"-o", "Dir::Cache::archives=" + filepath.Join(a.dir, "debs"),
		"-o", "APT::Architecture=amd64",
		"-o", "APT::Install-Recommends=0",
		"-o", "APT::Sandbox::User=root",
		"-o", "Debug::NoLocking=1",
	}
	if a.ownLists {
		options = append(options, "-o", "Dir::State::lists="+filepath.Join(a.dir, "lists"))
	}
	cmd := exec.CommandContext(ctx, tool, append(options, args...)...)
	cmd.Dir = filepath.Join(a.dir, "debs")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, lastLines(complaint.String(), 6))
	}
	return string(out), nil
}

// fetch downloads the kernel's package and the packages with their dependencies, and returns the paths of the .deb files.
// The host's package lists serve when they can; when they are absent or stale, it fetches lists of its own.
func (a *apt) fetch(ctx context.Context, series []string, packages []string) (kernel string, debs []string, err error) {
	kernel, debs, err = a.download(ctx, series, packages)
	if err == nil || ctx.Err() != nil {
		return kernel, debs, err
	}
	a.ownLists = true
	if _, updateErr := a.run(ctx, "apt-get", "update"); updateErr != nil {
		return "", nil, fmt.Errorf("%w (and %w)", err, updateErr)
	}
	return a.download(ctx, series, packages)
}

func (a *apt) download(ctx context.Context, series, packages []string) (string, []string, error) {
	listing, err := a.run(ctx, "apt-cache", "search", "--names-only", `^linux-image-[0-9].*-amd64`)
	if err != nil {
		return "", nil, err
	}
	name, err := chooseKernel(listing, series)
	if err != nil {
		return "", nil, err
	}
	if _, err := a.run(ctx, "apt-get", "download", name); err != nil {
		return "", nil, err
	}
	install := append([]string{"install", "--download-only", "-y"}, packages...)
	if _, err := a.run(ctx, "apt-get", install...); err != nil {
		return "", nil, err
	}
	all, err := filepath.Glob(filepath.Join(a.dir, "debs", "*.deb"))
	if err != nil {
		return "", nil, err
	}
	sort.Strings(all)
	var kernel string
	var debs []string
	for _, deb := range all {
		if strings.HasPrefix(filepath.Base(deb), name+"_") {
			kernel = deb
		} else {
			debs = append(debs, deb)
		}
	}
	if kernel == "" {
		return "", nil, fmt.Errorf("apt-get download %s left no %s_*.deb", name, name)
	}
	return kernel, debs, nil
}

var kernelPackage = regexp.MustCompile(`^linux-image-(\d+)\.(\d+)\.(\d+)(?:-(\d+))?\S*?-amd64(-unsigned)?$`)

// chooseKernel picks from apt-cache's listing the newest kernel of the first series that is there. The variants "cloud"
// (it has no rdma_rxe) and "rt" are passed over.
func chooseKernel(listing string, series []string) (string, error) {
	type candidate struct {
		name    string
		version [5]int // the last number prefers the package without signature, which is in more archives
	}
	var all []candidate
	for _, line := range strings.Split(listing, "\n") {
		name, _, _ := strings.Cut(line, " ")
		m := kernelPackage.FindStringSubmatch(name)
		if m == nil || strings.Contains(name, "-cloud-") || strings.Contains(name, "-rt-") || strings.Contains(name, "-dbg") {
			continue
		}
		c := candidate{name: name}
		for i := range 4 {
			c.version[i], _ = strconv.Atoi(m[i+1])
		}
		c.version[4] = len(m[5])
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool {
		for k := range all[i].version {
			if all[i].version[k] != all[j].version[k] {
				return all[i].version[k] > all[j].version[k]
			}
		}
		return false
	})
	for _, s := range series {
		for _, c := range all {
			if strings.HasPrefix(c.name, "linux-image-"+s+".") {
				return c.name, nil
			}
		}
	}
	return "", fmt.Errorf("the apt sources offer no kernel linux-image-%s.*-amd64[-unsigned] (%d kernels of other series seen); "+
		"a Debian 12 or newer source with main and security is right", strings.Join(series, ".* or linux-image-"), len(all))
}

// lastLines returns the end of text, for an error message.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
