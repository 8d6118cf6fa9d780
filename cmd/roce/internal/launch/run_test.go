//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnvironment: what the user has set stays, beside ours.
func TestEnvironment(t *testing.T) {
	on := []*device{{on: &opened{name: "udp:lo"}}}
	for range 2 { // in one that has it already
		env := []string{"A=b=c", "LD_LIBRARY_PATH=/x:/y", "LD_PRELOAD=/libasan.so /b.so", "OMPI_MCA_opal_common_ucx_devices=mlx5_0",
			"GOROCE_HUB=/roce"}
		env = environment(environment(env, "/ours", "/view", on), "/ours", "/view", on)
		slices.Sort(env)
		require.Equal(t, []string{"A=b=c", "GOROCE_DEVICES=udp:lo", "GOROCE_HUB=/roce", "GOROCE_VIEW=/view",
			"LD_LIBRARY_PATH=/ours:/x:/y", "LD_PRELOAD=/libasan.so /b.so:/ours/libgoroce-view.so",
			"OMPI_MCA_opal_common_ucx_devices=mlx5_0"}, env)
	}
	require.Contains(t, environment(nil, "/ours", "/view", on), "LD_PRELOAD=/ours/libgoroce-view.so")
	folder := t.TempDir() + "/a;b"
	require.NoError(t, os.Mkdir(folder, 0o700))
	for _, name := range wanted {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	t.Setenv("GOROCE_LIBRARIES", folder)
	_, err := findLibraries()
	require.ErrorContains(t, err, "without spaces, colons and semicolons")
}
