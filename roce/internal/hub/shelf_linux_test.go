package hub

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestShelf: what lies there stays, however often one looks, and nobody else has it.
func TestShelf(t *testing.T) {
	const lists, each = 128, 3
	var all [][]int
	var open []*os.File
	for i := range lists {
		var fds []int
		for j := range each {
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			require.NoError(t, err)
			fmt.Fprint(f, i, j)
			open, fds = append(open, f), append(fds, int(f.Fd()))
		}
		all = append(all, fds)
	}
	shelf, err := FillShelf(all)
	require.NoError(t, err)
	defer unix.Close(shelf)
	for _, f := range open {
		require.NoError(t, f.Close())
	}
	for range 3 {
		there, err := LookAtShelf(shelf)
		require.NoError(t, err)
		require.Len(t, there, lists)
		for i, files := range there {
			require.Len(t, files, each)
			for j, fd := range files {
				f := os.NewFile(uintptr(fd), "copy")
				b, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i, j), string(b))
				require.NoError(t, f.Close())
			}
		}
	}
	_, err = FillShelf([][]int{make([]int, maxFiles+1)})
	require.ErrorContains(t, err, "at most 250")
}
