package main

// Each command that a document shows exists, with its options. Stages: the lines of code of all
// documents that begin with roce, and in the course all code that does; of each, the command and
// the options as cobra knows them.

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shown is a command line as documents show it: alone in its line of code, with what is to be
// chosen in capitals, [brackets] or a|b, and after several spaces what it does.
var shown = regexp.MustCompile(`(?m)^    (?:sudo )?roce ([a-z].*)$`)

// words cuts off what stands behind the command, or is that of a program that it runs, and takes
// the first of what is to be chosen.
func words(line string) []string {
	line, _, _ = strings.Cut(line, "   ")
	line, _, _ = strings.Cut(line, " #")
	line = regexp.MustCompile(`\{(\w+)[^}]*\}`).ReplaceAllString(line, "$1")
	line = strings.NewReplacer("[", "", "]", "", "`", "", ",", "", ";", "").Replace(line)
	var args []string
	for _, w := range strings.Fields(line) {
		if w == "&" || w == ">" || w == "|" || w == "roce" || w == "--" {
			break
		}
		w, _, _ = strings.Cut(w, "|")
		args = append(args, w)
	}
	return args
}

// named is a command in the middle of a text.
var named = regexp.MustCompile("`(?:sudo )?roce ([a-z][^`]*)`")

func TestTheDocsShowCommandsThatExist(t *testing.T) {
	names, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	course, err := filepath.Glob("../../docs/course/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, course)
	found := 0
	for _, name := range append(append(names, "../../README.md", "../../CONTRIBUTING.md"), course...) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		lines := shown
		if strings.Contains(name, "course") {
			lines = named
		}
		for _, m := range lines.FindAllStringSubmatch(string(text), -1) {
			found++
			args := words(m[1])
			root := newRoot()
			root.InitDefaultCompletionCmd()
			c, rest, err := root.Find(args)
			if err != nil || c == root || !c.Runnable() {
				t.Errorf("%s: roce %s: there is no such command (%v)", name, strings.Join(args, " "), err)
				continue
			}
			for _, w := range rest {
				flag, _, _ := strings.Cut(w, "=")
				switch {
				case strings.HasPrefix(flag, "--"):
					if c.Flag(flag[2:]) == nil && !strings.Contains(flag, "_") {
						t.Errorf("%s: %s has no option %s", name, c.CommandPath(), flag)
					}
				case len(flag) == 2 && flag[0] == '-':
					if c.Flags().ShorthandLookup(flag[1:]) == nil && c.InheritedFlags().ShorthandLookup(flag[1:]) == nil {
						t.Errorf("%s: %s has no option %s", name, c.CommandPath(), flag)
					}
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}
