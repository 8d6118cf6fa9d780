package dropin

// qemu's migration by RDMA: the memory of a guest goes from one qemu to another. The guest's
// processor does not run, so that its memory must be the same at the end.
//
// Stages: qemu, and what it is asked and tells as JSON; the migration.

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// guest is a qemu, which is asked by a socket: what it prints is something else.
type guest struct {
	t    *testing.T
	to   io.Writer
	from *json.Decoder
}

// said is one thing that it says: an answer, an error, or an event.
type said struct {
	Return, Error json.RawMessage
	Event         string
	Data          struct{ Status string }
}

// boots starts a qemu whose guest does not run.
func boots(t *testing.T, device, options string) *guest {
	t.Helper()
	socket := filepath.Join(nobody.Folder(t), "qmp")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(socket, 0o666)) // qemu is not this user
	c := with(t, device, "qemu-system-x86_64 -accel tcg -m 64 -S -nodefaults -display none -qmp unix:"+socket+" "+options)
	var prints bytes.Buffer
	c.Stdout, c.Stderr = &prints, &prints
	require.NoError(t, c.Start())
	ended := make(chan struct{})
	go func() {
		c.Wait()
		l.Close()
		close(ended)
	}()
	t.Cleanup(func() {
		c.Process.Kill()
		<-ended
		if t.Failed() || testing.Verbose() {
			t.Logf("qemu on %s: %s", device, &prints)
		}
	})
	conn, err := l.Accept()
	require.NoError(t, err)
	g := &guest{t, conn, json.NewDecoder(conn)}
	g.asks("qmp_capabilities", nil)
	g.asks("migrate-set-capabilities", map[string]any{"capabilities": []any{map[string]any{"capability": "events", "state": true}}})
	return g
}

// hears waits until it says what is wanted.
func (g *guest) hears(wanted func(said) bool) {
	g.t.Helper()
	for {
		var s said
		require.NoError(g.t, g.from.Decode(&s))
		require.Empty(g.t, string(s.Error))
		if wanted(s) {
			return
		}
	}
}

// asks has it do something.
func (g *guest) asks(what string, arguments any) {
	g.t.Helper()
	line := map[string]any{"execute": what}
	if arguments != nil {
		line["arguments"] = arguments
	}
	require.NoError(g.t, json.NewEncoder(g.to).Encode(line))
	g.hears(func(s said) bool { return s.Return != nil })
}

// migrated waits until the migration is over.
func (g *guest) migrated() {
	g.t.Helper()
	g.hears(func(s said) bool {
		require.NotEqual(g.t, "failed", s.Data.Status)
		return s.Event == "MIGRATION" && s.Data.Status == "completed"
	})
}

func TestMigration(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	needs(t, "qemu-system-x86_64")
	for _, pinned := range []bool{false, true} { // what is sent is registered, or all at once
		name := map[bool]string{false: "as needed", true: "pinned"}[pinned]
		t.Run(name, func(t *testing.T) { migrates(t, pinned) })
	}
}

func migrates(t *testing.T, pinned bool) {
	const at, uri = 16 << 20, "rdma:127.0.0.1:4444"
	content := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	folder := nobody.Folder(t)
	source, saved := filepath.Join(folder, "source"), filepath.Join(folder, "saved")
	require.NoError(t, os.WriteFile(source, content, 0o644))

	there := boots(t, "udp:127.0.0.1", "-incoming defer")
	here := boots(t, "udp:127.0.0.2", "-device loader,force-raw=on,addr=0x1000000,file="+source)
	for _, g := range []*guest{there, here} {
		g.asks("migrate-set-capabilities",
			map[string]any{"capabilities": []any{map[string]any{"capability": "rdma-pin-all", "state": pinned}}})
	}
	there.asks("migrate-incoming", map[string]any{"uri": uri})
	here.asks("migrate", map[string]any{"uri": uri})
	here.migrated()
	there.migrated()
	there.asks("pmemsave", map[string]any{"val": at, "size": len(content), "filename": saved})
	has, err := os.ReadFile(saved)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, has), "the guest's memory has arrived otherwise")
}
