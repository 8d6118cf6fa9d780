package trace

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
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

// TestAnnotateOddTimes: times that a file cannot have before 1970 do not end the annotated one.
func TestAnnotateOddTimes(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	for n := range 3 {
		data := packet(t, nil, 1, 7, wire.RCWriteOnly, wire.PSN(n), 100, 0)
		require.NoError(t, w.Write(&trace.Record{Time: 0x7ffffffe_00000000, Link: trace.LinkRaw, Data: data}))
	}
	require.NoError(t, w.Flush())
	name, to := filepath.Join(t.TempDir(), "odd.pcapng"), filepath.Join(t.TempDir(), "to.pcapng")
	odd := bytes.Replace(file.Bytes(), []byte{0xfe, 0xff, 0xff, 0x7f}, []byte{0xfe, 0xff, 0xff, 0xff}, 1)
	require.NoError(t, os.WriteFile(name, odd, 0o600))
	require.NoError(t, Decode(t.Context(), io.Discard, name, DecodeOptions{Annotate: to}))
	var out bytes.Buffer
	require.NoError(t, Decode(t.Context(), &out, to, DecodeOptions{}))
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte{'\n'}))
}

// TestToStandardOutput: what makes a file writes to standard output if it is to be called "-".
func TestToStandardOutput(t *testing.T) {
	name := large(t, 10)
	for begins, write := range map[string]func(out io.Writer) error{
		"\x0a\x0d\x0d\x0a": func(out io.Writer) error { return Decode(t.Context(), out, name, DecodeOptions{Annotate: "-"}) },
		"<svg":             func(out io.Writer) error { return Ladder(t.Context(), out, name, LadderOptions{SVG: "-"}) },
		"<!doctype html>":  func(out io.Writer) error { return Ladder(t.Context(), out, name, LadderOptions{HTML: "-"}) },
	} {
		var out bytes.Buffer
		require.NoError(t, write(&out))
		require.True(t, bytes.HasPrefix(bytes.ToLower(out.Bytes()), []byte(begins)), "%.20q", out.String())
	}
}
