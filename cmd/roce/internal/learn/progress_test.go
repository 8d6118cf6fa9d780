package learn

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two students' files, as the page writes them: one with a name that would write to the terminal,
// one without a name.
func TestProgress(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const kind = `{"kind": "goroce progress", "version": 1, "lessonsInAll": 68, `
	one := file("one.json", kind+`"name": "Ada\u001b[2J\tL", "written": "2026-11-26T20:00:00.000Z", "right": 1, "lessons": [
		{"lesson": "write", "steps": 7, "of": 7, "freePlay": true, "changes": 3, "right": true, "rightAtOnce": false,
		 "answers": [{"answer": 0, "right": false, "at": ""}, {"answer": 2, "right": true, "at": ""}]},
		{"lesson": "send", "steps": 2, "of": 8, "freePlay": false, "changes": 1, "right": false, "rightAtOnce": false,
		 "answers": [{"answer": 1, "right": false, "at": ""}]}]}`)
	two := file("two.json", kind+`"name": "", "written": "2026-11-26T21:00:00.000Z", "right": 1, "lessons": [
		{"lesson": "read", "steps": 6, "of": 6, "changes": 0, "right": true, "rightAtOnce": true,
		 "answers": [{"answer": 2, "right": true, "at": ""}]}]}`)
	var out bytes.Buffer
	require.NoError(t, Progress(&out, []string{one, two}))
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 4, "%s", out.String())
	require.Equal(t, []string{"Ada[2JL", "2", "of", "68", "1", "2", "1", "0", "4", "2026-11-26", "send"}, strings.Fields(lines[1]))
	require.Equal(t, []string{two, "1", "of", "68", "1", "1", "1", "1", "0", "2026-11-26"}, strings.Fields(lines[2]))

	for _, text := range []string{"", "[]", `{"kind": "else", "version": 1}`, `{"kind": "goroce progress", "version": 2}`} {
		require.ErrorContains(t, Progress(&out, []string{file("bad.json", text)}), "Save as a file", text)
	}
}
