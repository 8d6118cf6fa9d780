// Command mutants asks whether the worlds can find defects: it puts known ones back, one at a time,
// and runs them.
//
//	go run ./qp/qptest/mutants            every mutant against as many worlds as make worlds plays
//	go run ./qp/qptest/mutants -only PSN  those whose name matches
//	go run ./qp/qptest/mutants -check     only asks whether all still have their place in the code
//
// Stages: the tests pass without a defect → the change is made in a copy of the file (table.go,
// stack.go) → go test -overlay builds with the copy → each test that must find it runs until its
// first failure. A mutant that one of its tests misses, or whose place in the code is gone, is a
// failure.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run only mutants whose name matches this `regexp`")
	worlds := flag.Int("worlds", 10000, "how many random worlds may be needed")
	check := flag.Bool("check", false, "run no tests")
	flag.Parse()
	keep, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	if *check {
		if err := placed(keep); err != nil {
			fatal(err)
		}
		return
	}
	if err := sound(keep, *worlds); err != nil {
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
			found, says, err := m.run(tests, *worlds)
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
		fatal(fmt.Errorf("%d times a mutant survived", survivors))
	}
}

// placed asks whether every mutant can be made: it names all of those that cannot.
func placed(keep *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "goroce-mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var gone []error
	for i := range mutants {
		if m := &mutants[i]; keep.MatchString(m.name) {
			if _, err := m.overlay(dir); err != nil {
				gone = append(gone, fmt.Errorf("%s: %w", m.name, err))
			}
		}
	}
	return errors.Join(gone...)
}

// sound asks whether the tests pass without a defect: ones that fail anyway find everything.
func sound(keep *regexp.Regexp, worlds int) error {
	asked := map[string]bool{}
	for i := range mutants {
		for _, tests := range mutants[i].tests {
			if asked[tests] || !keep.MatchString(mutants[i].name) {
				continue
			}
			asked[tests] = true
			if found, says, err := (&mutant{}).run(tests, worlds); err != nil || found {
				return fmt.Errorf("%s fails without a defect: %s %w", tests, says, err)
			}
		}
	}
	return nil
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

// hang is how long a test takes that hangs. Those of the table take seconds.
const hang = time.Minute

// run builds with the defect and says whether tests find it, and what they say first. tests are a
// package and what -run takes.
func (m *mutant) run(tests string, plays int) (found bool, says string, err error) {
	dir, err := os.MkdirTemp("", "goroce-mutant-")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return false, "", err
	}
	pkg, run, _ := strings.Cut(tests, " ")
	args := []string{"test", "-count=1", "./" + pkg, "-run=" + run}
	// As many as make worlds plays, not the few that go test alone does.
	switch n := strconv.Itoa(plays); tests {
	case lifeWorlds:
		args = append(args, "-lives="+n)
	case worlds:
		args = append(args, "-worlds="+n)
	default: // a test that hangs has found a wake-up that was lost
		args = append(args, "-timeout="+hang.String())
	}
	cmd := exec.Command("go", args...)
	// so that a test which builds something has it built with the defect, too (internal/step)
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case err == nil:
		return false, "", nil
	case strings.Contains(text, "--- FAIL:"), strings.Contains(text, "panic:"):
		return true, firstFailure(text), nil
	default:
		return false, "", fmt.Errorf("no test has failed, but: %s", text)
	}
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
