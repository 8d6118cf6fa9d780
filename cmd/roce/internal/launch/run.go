//go:build linux

package launch

// Stages: signals are what they were; the program's file; the libraries; the profile and its
// devices; the view; the environment; the program takes this process' place, so that signals and
// the exit status are its own. What reserves the addresses is left open for it, so that they are
// free when it is over.

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/goroce/goroce/roce/hub"
)

// Options of a run.
type Options struct {
	Dev     []string // names of devices; none: each interface
	Profile string   // a file or a built-in profile's name; "": Plain
	Quiet   bool     // says nothing of the devices
}

// Run starts args in this process' place and returns only if it cannot. It says on w which devices
// the program has.
func Run(w io.Writer, o Options, args []string) error {
	// The command hears of these two. Until the program is there they end this process, and if the
	// caller ignores SIGINT, as shells do for what they run in the background, so does the program.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	libraries, err := findLibraries()
	if err != nil {
		return err
	}
	profile, err := ReadProfile(o.Profile)
	if err != nil {
		return err
	}
	devices, left, err := choose(profile, o.Dev)
	if err != nil {
		return err
	}
	folder, err := keep("view", viewOf(devices, libraries.has("librdmacm.so.1")))
	if err != nil {
		return err
	}
	if !o.Quiet {
		for _, d := range devices {
			fmt.Fprintf(w, "roce run: %s\n", d)
		}
		for _, why := range left {
			fmt.Fprintf(w, "roce run: without %v\n", why)
		}
	}
	env := environment(os.Environ(), libraries, folder, devices)
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, args, env))
}

// environment is what the program gets: our libraries in front of others. What the user preloads
// comes before what we do: that of the address sanitizer wants to be the first of all.
func environment(env []string, libraries libraries, view string, devices []*device) []string {
	vars := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	put := func(name, value string, kept bool) {
		if old, ok := vars[name]; ok && kept {
			value = old
		}
		vars[name] = value
	}
	put("LD_LIBRARY_PATH", joined(string(libraries), vars["LD_LIBRARY_PATH"], ""), false)
	put("LD_PRELOAD", joined("", vars["LD_PRELOAD"], libraries.file(preload)), false)
	put("GOROCE_VIEW", view, false)
	var names []string
	for _, d := range devices {
		names = append(names, d.on.name)
	}
	put("GOROCE_DEVICES", strings.Join(names, ","), false)
	if own, err := os.Executable(); err == nil {
		put(hub.ProgramVar, own, true)
	}
	put("OMPI_MCA_opal_common_ucx_devices", "any", true) // it counts mlx* only
	env = env[:0:0]
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env
}

// joined puts a path in front of a list of them, or behind it, once.
func joined(first, list, last string) string {
	paths := []string{first}
	for p := range strings.SplitSeq(list, ":") {
		if p != first && p != last {
			paths = append(paths, p)
		}
	}
	paths = append(paths, last)
	return strings.Join(slices.DeleteFunc(paths, func(p string) bool { return p == "" }), ":")
}
