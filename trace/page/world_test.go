package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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

// sum is a hash of what the program is made of, the compiler and its library aside: our source
// files, and the versions of others' modules.
func sum(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	list := json.NewDecoder(bytes.NewReader(goTool(t, "list", "-deps", "-json=Dir,ImportPath,Standard,GoFiles,EmbedFiles,Module", "./wasm")))
	for {
		var p struct {
			Dir, ImportPath     string
			Standard            bool
			GoFiles, EmbedFiles []string
			Module              struct{ Version string }
		}
		err := list.Decode(&p)
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil))
		}
		require.NoError(t, err)
		if p.Standard {
			continue
		}
		fmt.Fprintln(h, p.ImportPath, p.Module.Version)
		if p.Module.Version != "" {
			continue
		}
		for _, f := range append(p.GoFiles, p.EmbedFiles...) {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			require.NoError(t, err)
			fmt.Fprintf(h, "%s %d\n%s", f, len(text), text)
		}
	}
}

// TestWorldIsFresh: world.gz was made of the sources that are here. The sum of these is compared,
// and not the program: every version of the compiler makes another one.
func TestWorldIsFresh(t *testing.T) {
	if testing.Short() && !*generate {
		t.Skip("whether world.gz is fresh is looked at without -short")
	}
	now := sum(t)
	if *generate {
		makeWorld(t)
		require.NoError(t, os.WriteFile("world.sum", []byte(now+"\n"), 0o644))
	}
	recorded, err := os.ReadFile("world.sum")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(recorded)), now, "the sources of the simulated world have changed: go generate ./trace/page")
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
