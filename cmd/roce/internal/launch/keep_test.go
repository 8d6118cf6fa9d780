//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestKeepAbove: nobody else can put another folder in the place of what is kept.
func TestKeepAbove(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	want := files{"a": {data: "text"}}
	folder, err := keep("kind", want)
	require.NoError(t, err)
	refused := func(says string) {
		t.Helper()
		_, err := keep("kind", want)
		require.ErrorContains(t, err, says)
	}
	for _, above := range []string{cache, filepath.Join(cache, "goroce")} {
		require.NoError(t, os.Chmod(above, 0o777))
		refused("everybody may write in " + above)
		require.NoError(t, os.Chmod(above, 0o777|os.ModeSticky)) // like /tmp
		_, err = keep("kind", want)
		require.NoError(t, err)
		if os.Geteuid() == 0 {
			require.NoError(t, os.Chown(above, 65534, 65534))
			refused(above + " is of user 65534, who could replace it")
			require.NoError(t, os.Chown(above, 0, 0))
		}
		require.NoError(t, os.Chmod(above, 0o775))
	}
	link := filepath.Join(t.TempDir(), "link") // where it leads later does not matter
	require.NoError(t, os.Symlink(cache, link))
	t.Setenv("XDG_CACHE_HOME", link)
	again, err := keep("kind", want)
	require.NoError(t, err)
	require.Equal(t, folder, again)
}

// TestSweep: what nobody has used for long goes, also what was never finished; what is used stays.
func TestSweep(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	used, err := keep("used", files{"a": {data: "a"}}) // by this process
	require.NoError(t, err)
	long := time.Now().Add(-2 * month)
	place := filepath.Dir(used)
	for _, name := range []string{"view-old", "new-old", "view-fresh"} {
		require.NoError(t, os.MkdirAll(filepath.Join(place, name, "below"), 0o700))
		if name != "view-fresh" {
			require.NoError(t, os.Chtimes(filepath.Join(place, name), long, long))
		}
	}
	require.NoError(t, os.Chtimes(used, long, long))
	other, err := keep("other", files{"b": {}})
	require.NoError(t, err)
	entries, err := os.ReadDir(place)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.ElementsMatch(t, []string{filepath.Base(used), filepath.Base(other), "view-fresh"}, left)
}
