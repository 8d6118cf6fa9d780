package main

// What is said of a command line that no command understands. Stages: the words behind a command
// (operands), subcommands that there are not (group, helpTopics), and what may have been meant by
// them, options (badOption). Each says what was wrong and, in the words of the command's usage
// line, what would be right.

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/similar"
	"github.com/goroce/goroce/trace/learn"
)

// operands takes least to most words behind a command, as its usage line has them.
func operands(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s: something is missing: %s", c.CommandPath(), c.UseLine())
		case len(args) > most && most == 0:
			return fmt.Errorf("%s: %q is one word too many: %s", c.CommandPath(), args[0], c.UseLine())
		case len(args) > most:
			return fmt.Errorf("%s: %q is one word too many behind %q: %s",
				c.CommandPath(), args[most], args[most-1], c.UseLine())
		}
		return nil
	}
}

// group makes c a command that has subcommands only: alone it helps, and another word is a mistake.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(c, args[0])
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// unknownCommand names what may have been meant: a command of these, one elsewhere, the one that
// does what a program of rdma-core does, or a lesson.
func unknownCommand(c *cobra.Command, name string) error {
	said := fmt.Sprintf("%s has no command %q", c.CommandPath(), name)
	var own []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			own = append(own, sub.Name())
		}
	}
	meant := similar.To(name, own)
	if other, ok := others[name]; ok {
		meant = []string{c.Root().Name() + " " + other}
	} else if meant == nil {
		meant = elsewhere(c.Root(), name)
	}
	if meant != nil {
		said += " (is it " + strings.Join(meant, " or ") + "?)"
	}
	return fmt.Errorf("%s; \"%s --help\" lists all", said, c.CommandPath())
}

// others are programs that people know by heart, and what does here what they do. Those of perftest
// are found by their names: ib_write_bw is perf write-bw.
var others = map[string]string{
	"ibv_devices": "devices", "rdma": "devices", "ibv_devinfo": "devinfo", "ibstat": "devinfo",
	"show_gids": "devinfo -v", "ibv_rc_pingpong": "pingpong", "ibv_uc_pingpong": "pingpong --type uc",
	"ibv_ud_pingpong": "pingpong --type ud", "ibv_srq_pingpong": "pingpong --srq", "ping": "doctor",
	"tcpdump": "trace capture", "tshark": "trace decode", "wireshark": "trace serve",
}

// elsewhere are the commands of the whole tree, and the lessons, that a name may stand for.
func elsewhere(root *cobra.Command, name string) (lines []string) {
	paths := map[string]string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				paths[sub.Name()] = sub.CommandPath()
				walk(sub)
			}
		}
	}
	walk(root)
	for _, l := range learn.All() {
		if _, taken := paths[l.Name]; !taken {
			paths[l.Name] = root.Name() + " learn " + l.Name
		}
	}
	perftest := strings.ReplaceAll(strings.TrimPrefix(name, "ib_"), "_", "-")
	if _, ok := paths[perftest]; ok {
		return []string{paths[perftest]}
	}
	for _, near := range similar.To(perftest, slices.Sorted(maps.Keys(paths))) {
		lines = append(lines, paths[near])
	}
	return lines[:min(len(lines), 4)]
}

// helpTopics lets "help" refuse what is no command.
func helpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Use, help.Example = "help [COMMAND]...", "  roce help trace ladder"
	help.Long = "help has the rest about a command, as \"roce COMMAND --help\" has."
	help.Args = func(_ *cobra.Command, args []string) error {
		at := root
		for _, name := range args {
			next, rest, err := at.Find([]string{name})
			if err != nil || next == at || len(rest) > 0 {
				return unknownCommand(at, name)
			}
			at = next
		}
		return nil
	}
}

// reasons are what the standard library says of values that it cannot read, and what a person wants
// to know instead.
var reasons = []struct {
	of   *regexp.Regexp
	want string
}{
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): .*: invalid syntax`), "want a whole number"},
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): .*: value out of range`), "the number is too large"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "want a number, such as 2.5"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "want true or false, or no value"},
	{regexp.MustCompile(`time: .* duration .*`), "want a time with its unit, such as 10s or 500ms"},
}

// badOption says what is wrong with an option.
func badOption(c *cobra.Command, err error) error {
	said := err.Error()
	for _, r := range reasons {
		said = r.of.ReplaceAllString(said, r.want)
	}
	if strings.HasPrefix(said, "unknown") || strings.Contains(said, "needs an argument") {
		said += fmt.Sprintf("; \"%s --help\" lists all", c.CommandPath())
	}
	return errors.New(said)
}
