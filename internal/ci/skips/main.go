// Command skips runs go test, says little where all is well, and lists the tests that were skipped:
//
//	skips [NAME=VALUE...] ARGUMENT...
//
// are variables for the environment of go test, and its arguments. Where nothing may be missing
// (GOROCE_REQUIRE_LAB, as in CI) it fails if a test was skipped for a reason that is not in the
// table below.
//
// Stages: start "go test -json"; keep what each test prints until it is known how it ended; print
// what failed and a line for each package; judge the skips.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// expected are the reasons for which a test may be skipped although nothing is missing.
var expected = [...]struct{ reason, why string }{
	{"the race detector allocates", "the unit run counts allocations"},
	{"the race detector's atomics write in C", "the unit run writes to protected pages"},
	{"to watch 2 bytes of memory", "this is what the race detector looks for; the unit run has it"},
	{"half a million regions", "slow when raced or emulated; the unit run has it"},
	{"orders of steps are played without the race detector",
		"one goroutine at a time runs in them; the unit run plays them"},
	{"only for Test", "it is the other process of that test, which starts it"},
	{"no device is named by -device", "interop's TestVerbs... run it on a device"},
	{"both ends are one device, which need not hear",
		"two slots of one address; the suite's other runs have two addresses"},
	{"rxe0 lacks something", "the suite knows more than rxe can"},
	{"has no module siw", "Debian's kernels are built without it; who has built it names it"},
	{"an ordinary user may not make namespaces", "some systems forbid it, such as Ubuntu 24.04"},
	{"played by make programs", "make test plays one case of each program"},
	{"takes ten seconds, in which nobody answers", "the unit run waits for them"},
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// name is a test of a package; without a test it is the package.
type name struct{ pkg, test string }

// run is what is known of the tests that have not ended, and of those that were skipped.
type run struct {
	said    map[name][]string
	order   map[string][]string // the tests of a package that have said something
	excused [len(expected)]int  // how many tests each row of the table has excused
	skipped []string            // those that nothing excuses, with their reasons
}

// variable is an argument that sets a variable of the environment.
var variable = regexp.MustCompile("^[A-Z_]+=")

func main() {
	args, env := os.Args[1:], os.Environ()
	for len(args) > 0 && variable.MatchString(args[0]) {
		args, env = args[1:], append(env, args[0])
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := run{said: map[name][]string{}, order: map[string][]string{}}
	r.follow(out)
	err = cmd.Wait()
	if !r.judge() || err != nil {
		os.Exit(1)
	}
}

// judge prints what was skipped, and says whether that is all right.
func (r *run) judge() bool {
	for i, n := range r.excused {
		if n > 0 {
			fmt.Printf("skipped\t%d × %q: %s\n", n, expected[i].reason, expected[i].why)
		}
	}
	for _, s := range r.skipped {
		fmt.Println("skipped\t" + s)
	}
	strict := os.Getenv("GOROCE_REQUIRE_LAB") != "" && len(r.skipped) > 0
	if strict {
		fmt.Println("FAIL: GOROCE_REQUIRE_LAB is set, so nothing may be skipped for want of something")
	}
	return !strict
}

// follow reads events to their end. Lines that are none are printed as they are.
func (r *run) follow(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.handle(&e)
		} else {
			os.Stdout.Write(line)
		}
		if err != nil {
			return
		}
	}
}

func (r *run) handle(e *event) {
	n := name{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output":
		if r.said[n] == nil && e.Test != "" {
			r.order[e.Package] = append(r.order[e.Package], e.Test)
		}
		r.said[n] = append(r.said[n], e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		r.end(e.Package)
	case e.Action == "skip":
		r.skip(n)
		delete(r.said, n)
	case e.Action == "pass":
		delete(r.said, n)
	}
}

// end prints what the tests of a package have said that did not pass, and how the package ended.
func (r *run) end(pkg string) {
	for _, test := range append(r.order[pkg], "") {
		for _, line := range r.said[name{pkg, test}] {
			if !noise.MatchString(line) {
				fmt.Print(line)
			}
		}
		delete(r.said, name{pkg, test})
	}
}

// noise is what -json adds, and that a package has no tests.
var noise = regexp.MustCompile(`^=== |^(PASS|FAIL)\n|^\?   |\[no tests to run\]`)

// skip notes a skip, and whether the table excuses it.
func (r *run) skip(n name) {
	why := slices.DeleteFunc(r.said[n], func(line string) bool {
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- SKIP")
	})
	reason := strings.TrimSpace(strings.Join(why, ""))
	for i, x := range expected {
		if strings.Contains(reason, x.reason) {
			r.excused[i]++
			return
		}
	}
	r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", n.pkg, n.test, reason))
}
