package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/world"
)

var generate = flag.Bool("generate", false, "make world.gz anew, and world.sum beside it (go generate)")

// goTool runs the go command for the browser.
func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	require.NoError(t, err)
	return out
}

// sum is a hash of all that the program has to show: of each lesson its page, and its plays with
// something done to one of its first packets. It is computed here, by the sources that are here.
func sum(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	show := json.NewEncoder(h)
	for _, l := range learn.All() {
		if l.Terminal {
			continue
		}
		played := l.Play(nil)
		require.NoError(t, show.Encode(l.Page(played)))
		require.NoError(t, show.Encode(played))
		for n := range min(3, len(played.Packets)) {
			for _, a := range []world.Action{world.Drop, world.Delay, world.Duplicate, world.Mark, world.Corrupt, world.Deliver} {
				changed := l.Play([]world.Change{{Packet: n + 1, Action: a}})
				require.NoError(t, show.Encode(changed))
				require.NoError(t, show.Encode(l.Differs(changed)))
			}
		}
	}
	require.NoError(t, show.Encode(learn.Glossary()))
	for _, name := range []string{"wasm/main.go", "wasm/unmapped.json"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// recording is what rocePlay answers of the lesson that a browser cannot play.
func recording(t *testing.T) []byte {
	l := learn.Find("unmapped")
	if l.Claims == nil {
		t.Skip("this system cannot play the lesson of unmapped memory")
	}
	play := l.Play(nil)
	text, err := json.Marshal(map[string]any{"lesson": l.Page(play), "play": play, "differs": []string{}})
	require.NoError(t, err)
	return append(text, '\n')
}

// TestRecordingIsFresh: the recording is what happens here.
func TestRecordingIsFresh(t *testing.T) {
	recorded, err := os.ReadFile("wasm/unmapped.json")
	require.NoError(t, err)
	require.Equal(t, string(recording(t)), string(recorded), "go generate ./trace/page")
}

// TestWorldIsFresh: world.gz shows what the sources that are here show. Neither the program is
// compared, of which every version of the compiler makes another one, nor the sources: it is 1.6 MB
// in the repository each time, so a change that no lesson shows does not ask for it.
func TestWorldIsFresh(t *testing.T) {
	if testing.Short() && !*generate {
		t.Skip("whether world.gz is fresh is looked at without -short")
	}
	if *generate {
		require.NoError(t, os.WriteFile("wasm/unmapped.json", recording(t), 0o644))
	}
	now := sum(t)
	if *generate {
		makeWorld(t)
		require.NoError(t, os.WriteFile("world.sum", []byte(now+"\n"), 0o644))
	}
	recorded, err := os.ReadFile("world.sum")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(recorded)), now,
		"the lessons in the page are not those of the sources: go generate ./trace/page")
}

// makeWorld writes world.gz.
func makeWorld(t *testing.T) {
	program := filepath.Join(t.TempDir(), "world.wasm")
	goTool(t, "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./wasm")
	support := filepath.Join(strings.TrimSpace(string(goTool(t, "env", "GOROOT"))), "lib/wasm/wasm_exec.js")
	var out bytes.Buffer
	for _, name := range []string{support, program} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		require.NoError(t, err)
		z.Name = filepath.Base(name)
		_, err = z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	require.NoError(t, os.WriteFile("world.gz", out.Bytes(), 0o644))
}

// TestWorld: what is embedded is what it should be, and small.
func TestWorld(t *testing.T) {
	require.Contains(t, worldSupport(), "globalThis.Go = class")
	require.False(t, strings.Contains(worldSupport(), "</script"))
	z, err := gzip.NewReader(bytes.NewReader(worldProgram()))
	require.NoError(t, err)
	program, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, "\x00asm", string(program[:4]))
	require.Less(t, len(packed), 2<<20)
}
