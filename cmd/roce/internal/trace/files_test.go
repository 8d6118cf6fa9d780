package trace

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNotOntoItself: no command writes onto the capture that it reads, by whatever name.
func TestNotOntoItself(t *testing.T) {
	name := large(t, 1000)
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(name, link))
	for what, write := range map[string]func(to string) error{
		"annotate": func(to string) error { return Decode(t.Context(), io.Discard, name, DecodeOptions{Annotate: to}) },
		"svg":      func(to string) error { return Ladder(t.Context(), io.Discard, name, LadderOptions{SVG: to}) },
		"html":     func(to string) error { return Ladder(t.Context(), io.Discard, name, LadderOptions{HTML: to}) },
	} {
		require.ErrorContains(t, write(name), "the capture itself", what)
		require.ErrorContains(t, write(link), "the capture itself", what)
		require.NoError(t, write(filepath.Join(t.TempDir(), "other")), what)
	}
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
