//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeep: what is kept is the user's alone, is written once, and is refused when it is not what
// was written, or lies where others may write.
func TestKeep(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	place := filepath.Join(cache, "goroce", "run")
	want := files{"a/b": {data: "text"}, "c": {link: "/dev/null"}, "empty": {}}
	folder, err := keep("kind", want)
	require.NoError(t, err)
	require.Equal(t, place, filepath.Dir(folder))
	text, err := os.ReadFile(filepath.Join(folder, "a/b"))
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	link, err := os.Readlink(filepath.Join(folder, "c"))
	require.NoError(t, err)
	require.Equal(t, "/dev/null", link)
	for _, name := range []string{place, folder, filepath.Join(folder, "a")} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), name)
	}
	again, err := keep("kind", want)
	require.NoError(t, err)
	require.Equal(t, folder, again)
	other, err := keep("kind", files{"a/b": {data: "texts"}})
	require.NoError(t, err)
	require.NotEqual(t, folder, other)
	left, err := os.ReadDir(place)
	require.NoError(t, err)
	require.Len(t, left, 2) // nothing half written

	refused := func(says string) {
		t.Helper()
		_, err := keep("kind", want)
		require.ErrorContains(t, err, says)
	}
	file := filepath.Join(folder, "a/b")
	require.NoError(t, os.WriteFile(file, []byte("Text"), 0o600))
	refused("its files are others")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	require.NoError(t, os.Chmod(file, 0o620))
	refused("open to others")
	require.NoError(t, os.Chmod(file, 0o600))
	more := filepath.Join(folder, "more")
	require.NoError(t, os.WriteFile(more, nil, 0o600))
	refused("its files are others")
	require.NoError(t, os.Remove(more))
	_, err = keep("kind", want)
	require.NoError(t, err)

	require.NoError(t, os.Chmod(place, 0o755))
	refused("open to others")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(place, 0o700))
		require.NoError(t, os.Chown(place, 65534, 65534))
		refused("is of user 65534, and you are 0")
	}
	require.NoError(t, os.Rename(place, place+"-moved"))
	require.NoError(t, os.Symlink(place+"-moved", place))
	refused("is a link or a file")
}
