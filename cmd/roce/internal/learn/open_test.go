package learn

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where there is no display the page's address is printed, and the page is there, twice in the same
// place.
func TestOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("where the system keeps such files is asked for as Linux has it")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	for range 2 {
		var out bytes.Buffer
		require.NoError(t, Open(&out, "lost-ack"))
		require.Contains(t, out.String(), "No browser could be opened here: there is no display")
		address := regexp.MustCompile(`file://\S+`).FindString(out.String())
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, "lesson=lost-ack", u.Fragment)
		require.Equal(t, filepath.Join(os.Getenv("XDG_CACHE_HOME"), "roce", "lessons.html"), u.Path)
		text, err := os.ReadFile(u.Path)
		require.NoError(t, err)
		require.Contains(t, string(text), "RoCE lessons")
	}
	require.ErrorContains(t, Open(&bytes.Buffer{}, "lost-akc"), "(is it lost-ack?)")
}

// Where there is one it is the browser that gets the address.
func TestBrowse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program that opens URLs is Linux's")
	}
	bin := t.TempDir()
	pipe := filepath.Join(bin, "pipe")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "xdg-open"),
		[]byte("#!/bin/sh\necho \"$1\" >"+pipe+".new\nmv "+pipe+".new "+pipe+"\n"), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	require.NoError(t, browse("file:///x"))
	require.Eventually(t, func() bool {
		got, _ := os.ReadFile(pipe)
		return string(got) == "file:///x\n"
	}, wait, wait/1000)
	t.Setenv("PATH", t.TempDir())
	require.Error(t, browse("file:///x"))
}

// wait only ends a test that hangs.
const wait = 60_000_000_000
