package nobody

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiles: the user reads what is made for him and writes to his folder, though root's temporary
// files and all that root writes be root's alone.
func TestFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	folder := Folder(t)
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, []byte("read"), 0o644))
	copies, err := Copies(file)
	t.Cleanup(func() { os.RemoveAll(copies) })
	require.NoError(t, err)
	c := exec.Command("sh", "-c", "set -e; cat "+file+" "+copies+"/file; rm $(mktemp); touch $HOME/new "+folder+"/new")
	Runs(t, c)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "readread", string(out))
}

// asParent has this test program start a program, and say which, and wait to be killed.
const asParent = "GOROCE_TEST_PARENT"

// TestOrphans: a program ends with the test program that has started it, however that ends.
func TestOrphans(t *testing.T) {
	if os.Getenv(asParent) != "" {
		c := exec.Command("sleep", "600")
		Runs(t, c)
		require.NoError(t, c.Start())
		home := slices.IndexFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "HOME="+os.TempDir()) })
		fmt.Println(c.Process.Pid, strings.TrimPrefix(c.Env[home], "HOME="))
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run=^TestOrphans$")
	c.Env = append(os.Environ(), asParent+"=1")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var pid int
	var home string
	_, err = fmt.Fscan(out, &pid, &home)
	require.NoError(t, c.Process.Kill())
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	c.Wait()
	sleeps := func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), "(sleep) Z")
	}
	for began := time.Now(); sleeps(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("it goes on")
		}
	}
}
