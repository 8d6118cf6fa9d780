package learn

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	library "github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/told"
	"github.com/goroce/goroce/trace/world"
)

func TestList(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, List(&out, false))
	for _, l := range library.All() {
		require.Contains(t, out.String(), l.Title)
	}
	out.Reset()
	require.NoError(t, List(&out, true))
	var pages []library.Page
	require.NoError(t, json.Unmarshal(out.Bytes(), &pages))
	require.Len(t, pages, len(library.All()))
}

// The question is asked, and an answer, right or wrong, is explained.
func TestQuestion(t *testing.T) {
	for answer, want := range map[string]string{"c\n": "Right.", "(C)\n": "Right.", "a\n": "No, it is (c).", "": "Your answer: "} {
		var out bytes.Buffer
		require.NoError(t, Run(&out, "write", Options{Ask: true, In: strings.NewReader(answer)}))
		require.Contains(t, out.String(), want)
		require.Equal(t, answer != "", strings.Contains(out.String(), "Posting only puts"), answer)
	}
	var out bytes.Buffer
	require.NoError(t, Run(&out, "write", Options{}))
	require.Contains(t, out.String(), "Answer: (c)")
	require.Contains(t, out.String(), "The next lesson: roce learn packets")
}

// A change is played, and what came of it is said.
func TestChanges(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Run(&out, "write", Options{Changes: []string{"drop:2"}}))
	require.Contains(t, out.String(), "ack timeout of 1.049 ms")
	require.Contains(t, out.String(), "Not true any more")
	out.Reset()
	require.NoError(t, Run(&out, "write", Options{Changes: []string{"delay:2:5us"}}))
	require.Contains(t, out.String(), "5.000 us later")
	require.NotContains(t, out.String(), "Not true any more")
	for _, bad := range []string{"drop", "drop:x", "burn:1", "drop:0", "drop:1:5us", "delay:1:soon", "delay:1:2:3"} {
		require.Error(t, Run(&out, "write", Options{Changes: []string{bad}}), bad)
	}
	require.ErrorContains(t, Run(&out, "nothing", Options{}), "--list")
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Run(&out, "write", Options{JSON: true, Changes: []string{"mark:1"}}))
	var x struct {
		Lesson library.Page
		Play   world.Play
		Told   []told.Sentence
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &x))
	require.Equal(t, world.Marked, x.Play.Packets[0].Fate)
	require.Equal(t, "operations", x.Lesson.Chapter)
	require.Equal(t, "CNP", x.Told[2].Rule)
}

func TestWriteDocs(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, WriteDocs(folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "99-old.md"), nil, 0o600))
	require.NoError(t, WriteDocs(folder))
	require.NoFileExists(t, filepath.Join(folder, "99-old.md"))
	require.FileExists(t, filepath.Join(folder, "README.md"))
	require.FileExists(t, filepath.Join(folder, "pictures", "write.svg"))
}

// A folder with pages of somebody else's is left as it is.
func TestWriteDocsElsewhere(t *testing.T) {
	for _, name := range []string{"README.md", "thesis.md", "pictures/own.svg"} {
		folder := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(folder, "pictures"), 0o700))
		own := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.WriteFile(own, []byte("mine"), 0o600))
		require.ErrorContains(t, WriteDocs(folder), "somebody else's")
		text, err := os.ReadFile(own)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
	}
}
