package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Each command that has colours exists, and what it prints is without its colours what was to be
// written.
func TestColours(t *testing.T) {
	demo := t.TempDir() + "/demo.pcapng"
	_, err := execute(t, "demo", "--quiet", "--pcap", demo, "--records")
	require.NoError(t, err)
	lines := map[string]string{"roce learn": "learn write", "roce learn quiz": "learn quiz --list",
		"roce doctor":       "doctor --program " + demo,
		"roce trace decode": "trace decode " + demo, "roce trace timeline": "trace timeline " + demo,
		"roce trace analyze": "trace analyze " + demo, "roce trace explain": "trace explain IBV_WC_REM_ACCESS_ERR"}
	require.Len(t, lines, len(painted))
	for path, words := range painted {
		line := lines[path]
		c, _, err := newRoot().Find(strings.Fields(line))
		require.NoError(t, err)
		require.Equal(t, path, c.CommandPath())
		text, _ := execute(t, strings.Fields(line)...)
		require.NotContains(t, text, "\x1b", "nobody reads it")
		var out bytes.Buffer
		n, err := (&brush{&out, words}).Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		plain := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(out.String())
		require.Equal(t, text, plain, path)
		if path == "roce learn" || path == "roce trace analyze" || path == "roce trace explain" {
			require.Contains(t, out.String(), "\x1b[", path)
		}
	}
	for _, words := range painted {
		for _, name := range words.SubexpNames()[1:] {
			require.Contains(t, inks, name)
		}
	}
}

// What is painted, as somebody sees it.
func TestPainted(t *testing.T) {
	for in, want := range map[string]string{
		"Title\n=====\n":                        "<1>Title\n=====<0>\n",
		"A: completion: IBV_WC_SUCCESS (0)":     "A: completion: <32>IBV_WC_SUCCESS<0> (0)",
		"A: completion: IBV_WC_REM_ACCESS_ERR ": "A: completion: <31>IBV_WC_REM_ACCESS_ERR<0> ",
		"No, it is (c).":                        "<31>No, it is<0> (c).",
		"nothing of the kind":                   "nothing of the kind",
	} {
		var out bytes.Buffer
		_, err := (&brush{&out, lessonWords}).Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, strings.NewReplacer("<1>", "\x1b[1m", "<0>", "\x1b[0m", "<31>", "\x1b[31m", "<32>", "\x1b[32m").Replace(want),
			out.String())
	}
}

// Neither a file nor a pipe has colours, and NO_COLOR is heard.
func TestWhoReads(t *testing.T) {
	require.False(t, colourful(&bytes.Buffer{}))
	f, err := os.Create(t.TempDir() + "/f")
	require.NoError(t, err)
	defer f.Close()
	require.False(t, colourful(f))
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal to be had: ", err)
	}
	defer tty.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	require.True(t, colourful(tty))
	require.True(t, terminal(&brush{tty, lessonWords}))
	c := newRoot()
	learn, _, err := c.Find([]string{"learn"})
	require.NoError(t, err)
	for _, set := range []struct {
		name, value string
		want        bool
	}{{"TERM", "xterm", true}, {"TERM", "dumb", false}, {"NO_COLOR", "1", false}} {
		t.Run(set.name+set.value, func(t *testing.T) {
			t.Setenv(set.name, set.value)
			learn.SetOut(tty)
			paint(learn, nil)
			_, is := learn.OutOrStdout().(*brush)
			require.Equal(t, set.want, is)
		})
	}
	require.NoError(t, learn.Flags().Set("json", "true"))
	learn.SetOut(tty)
	paint(learn, nil)
	require.Same(t, tty, learn.OutOrStdout())
	plain := &cobra.Command{Use: "other"}
	plain.SetOut(tty)
	paint(plain, nil)
	require.Same(t, tty, plain.OutOrStdout())
}
