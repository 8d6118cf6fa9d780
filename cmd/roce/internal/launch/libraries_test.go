//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSafe: what lies beside the command in a folder like /tmp may be anybody's.
func TestSafe(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, safe(folder, os.Geteuid()))
	require.NoError(t, os.Chmod(folder, 0o777|os.ModeSticky))
	require.ErrorContains(t, safe(folder, os.Geteuid()), "everybody may write in "+folder)
	below := filepath.Join(folder, "below")
	require.NoError(t, os.Mkdir(below, 0o700))
	require.NoError(t, safe(below, os.Geteuid()))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(below, 65534, 65534))
		require.ErrorContains(t, safe(below), below+" is of user 65534")
		require.NoError(t, safe(below, 65534))
	}
}
