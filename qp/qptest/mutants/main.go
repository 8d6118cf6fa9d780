// Command mutants asks whether the worlds can find defects: it puts known ones back, one at a time, and runs them.
//
//	go run ./qp/qptest/mutants            every mutant against CI's number of worlds; a table
//	go run ./qp/qptest/mutants -only PSN  those whose name matches
//
// Stages: the change is made in a copy of the file (table.go) → go test -overlay builds with the copy → the tests that must
// find it run until the first failure. A mutant that nothing finds, or whose place in the code is gone, is a failure.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	only := flag.String("only", "", "run only mutants whose name matches this `regexp`")
	worlds := flag.String("worlds", "10000", "how many worlds of each kind may be needed")
	flag.Parse()
	keep, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	fmt.Println("| defect put back | found by | what it says |\n|---|---|---|")
	survivors := 0
	for i := range mutants {
		m := &mutants[i]
		if !keep.MatchString(m.name) {
			continue
		}
		for _, tests := range m.tests {
			found, says, err := m.run(strings.Fields(tests), *worlds)
			if err != nil {
				fatal(fmt.Errorf("%s: %w", m.name, err))
			}
			by := tests
			if !found {
				by, survivors = "**not by "+tests+"**", survivors+1
			}
			fmt.Printf("| %s | %s | %s |\n", m.name, by, says)
		}
	}
	if survivors > 0 {
		fatal(fmt.Errorf("%d mutants survive", survivors))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

// run builds with the defect and says whether tests find it, and what they say first. tests are a package and what -run takes.
func (m *mutant) run(tests []string, worlds string) (found bool, says string, err error) {
	dir, err := os.MkdirTemp("", "goroce-mutant-")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return false, "", err
	}
	args := []string{"test", "-overlay=" + overlay, "-count=1", "./" + tests[0], "-run=" + tests[1]}
	if name := filepath.Base(tests[0]); name == "lives" { // CI's number of worlds, not the short one that go test alone runs
		args = append(args, "-lives="+worlds)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	switch {
	case err == nil:
		return false, "", nil
	case strings.Contains(string(out), "build failed"), strings.Contains(string(out), "setup failed"):
		return false, "", fmt.Errorf("it does not build: %s", out)
	}
	return true, firstFailure(string(out)), nil
}

// overlay writes the changed files and the list of them that go build takes.
func (m *mutant) overlay(dir string) (string, error) {
	replace := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		from := path
		if to, ok := replace[path]; ok {
			from = to
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return "", fmt.Errorf("%s has %d places that read %q, the mutant is made for one", e.file, n, e.old)
		}
		to := filepath.Join(dir, strings.ReplaceAll(e.file, "/", "-"))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

var (
	failure = regexp.MustCompile(`(?m)^\s*\S+_test\.go:\d+: (.*)$`)
	seed    = regexp.MustCompile(`^seed (\d+): at [0-9.]+ us: `)
)

// firstFailure is the first line that a test has printed.
func firstFailure(out string) string {
	if m := failure.FindStringSubmatch(out); m != nil {
		return seed.ReplaceAllString(m[1], "seed $1: ")
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return line
}
