package lab

// Getting Debian packages without installing anything. Stages: add the suite that is asked for to
// the host's sources, choose the kernel's package by pattern, let apt resolve the others as for an
// empty system, download, verified by apt, into a folder of ours. The host's own state is only
// read.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// apt runs apt tools with a private package status and cache.
type apt struct {
	dir      string // for downloads and state
	ownLists bool   // use lists of our own, for which "update" was run
	sources  string // file that takes the place of the host's sources.list; empty: that
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
	if a.sources != "" {
		options = append(options, "-o", "Dir::Etc::sourcelist="+a.sources)
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

// addSuite adds a suite of the mirror that the host's sources name, such as "trixie-backports".
func (a *apt) addSuite(ctx context.Context, suite string) error {
	targets, err := a.run(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
		"Component: main")
	if err != nil {
		return err
	}
	var mirror string
	for _, uri := range strings.Fields(targets) {
		if path.Base(uri) == "debian" {
			mirror = uri
			break
		}
	}
	if mirror == "" {
		return fmt.Errorf("where to get the suite %s from: the apt sources name no mirror of Debian, which "+
			"ends in /debian", suite)
	}
	name, err := a.run(ctx, "apt-config", "shell", "FILE", "Dir::Etc::sourcelist/f")
	if err != nil {
		return err
	}
	_, name, _ = strings.Cut(strings.TrimSpace(name), "=")
	// It is absent where all sources are in sources.list.d.
	list, _ := os.ReadFile(strings.Trim(name, "'"))
	a.ownLists, a.sources = true, filepath.Join(a.dir, "sources.list")
	list = fmt.Appendf(list, "\ndeb %s %s main\n", mirror, suite)
	if err := os.WriteFile(a.sources, list, 0o644); err != nil {
		return err
	}
	_, err = a.run(ctx, "apt-get", "update")
	return err
}

// fetch downloads the kernel's packages and the packages with their dependencies, and returns the
// paths of the .deb files. The host's package lists serve when they can; when they are absent or
// stale, it fetches lists of its own.
func (a *apt) fetch(ctx context.Context, series []string, packages []string) (kernel, debs []string, err error) {
	kernel, debs, err = a.download(ctx, series, packages)
	if err == nil || ctx.Err() != nil || a.ownLists {
		return kernel, debs, err
	}
	a.ownLists = true
	if _, updateErr := a.run(ctx, "apt-get", "update"); updateErr != nil {
		return nil, nil, fmt.Errorf("%w (and %w)", err, updateErr)
	}
	return a.download(ctx, series, packages)
}

func (a *apt) download(ctx context.Context, series, packages []string) (kernel, debs []string, err error) {
	listing, err := a.run(ctx, "apt-cache", "search", "--names-only", `^linux-image-[0-9].*-amd64`)
	if err != nil {
		return nil, nil, err
	}
	name, err := chooseKernel(listing, series)
	if err != nil {
		return nil, nil, err
	}
	depends, err := a.run(ctx, "apt-cache", "depends", "--no-recommends", "--no-suggests", name)
	if err != nil {
		return nil, nil, err
	}
	names := append(kernelParts(depends), name)
	if _, err := a.run(ctx, "apt-get", append([]string{"download"}, names...)...); err != nil {
		return nil, nil, err
	}
	install := append([]string{"install", "--download-only", "-y"}, packages...)
	if _, err := a.run(ctx, "apt-get", install...); err != nil {
		return nil, nil, err
	}
	all, err := filepath.Glob(filepath.Join(a.dir, "debs", "*.deb"))
	if err != nil {
		return nil, nil, err
	}
	sort.Strings(all)
	for _, deb := range all {
		if pkg, _, _ := strings.Cut(filepath.Base(deb), "_"); slices.Contains(names, pkg) {
			kernel = append(kernel, deb)
		} else {
			debs = append(debs, deb)
		}
	}
	if len(kernel) != len(names) {
		return nil, nil, fmt.Errorf("apt-get download %s left %d packages", strings.Join(names, " "), len(kernel))
	}
	return kernel, debs, nil
}

var kernelPart = regexp.MustCompile(`(?m)^\s*(?:Pre)?Depends: (linux-(?:base|binary|modules)-[0-9]\S*)$`)

// kernelParts finds in what `apt-cache depends` prints the packages that hold the parts of a
// kernel: since Debian's 7.x, its file, its modules and their lists come in one each.
func kernelParts(depends string) (names []string) {
	for _, m := range kernelPart.FindAllStringSubmatch(depends, -1) {
		names = append(names, m[1])
	}
	return names
}

var kernelPackage = regexp.MustCompile(`^linux-image-(\d+)\.(\d+)\.(\d+)(?:-(\d+))?\S*?-amd64(-unsigned)?$`)

// chooseKernel picks from apt-cache's listing the newest kernel of the first series that is there.
// The variants "cloud" (it has no rdma_rxe) and "rt" are passed over.
func chooseKernel(listing string, series []string) (string, error) {
	type candidate struct {
		name string
		// The last number prefers the package without signature, which is in more archives.
		version [5]int
	}
	var all []candidate
	for _, line := range strings.Split(listing, "\n") {
		name, _, _ := strings.Cut(line, " ")
		m := kernelPackage.FindStringSubmatch(name)
		if m == nil || strings.Contains(name, "-cloud-") || strings.Contains(name, "-rt-") ||
			strings.Contains(name, "-dbg") {
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
			if s == NewestKernel || strings.HasPrefix(c.name, "linux-image-"+s+".") {
				return c.name, nil
			}
		}
	}
	return "", fmt.Errorf("the apt sources offer no kernel linux-image-%s.*-amd64[-unsigned] (%d kernels of other "+
		"series seen); "+
		"a Debian 12 or newer source with main and security is right", strings.Join(series, ".* or linux-image-"),
		len(all))
}

// lastLines returns the end of text, for an error message.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
