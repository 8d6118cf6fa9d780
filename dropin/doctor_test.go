package dropin

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctor: roce doctor --program tells these libraries from rdma-core's, and from one that lacks
// functions.
func TestDoctor(t *testing.T) {
	program := needs(t, "ibv_devinfo")
	roce := command(t)
	short := t.TempDir() // a library of ours that has nothing
	gcc := exec.Command("gcc", "-shared", "-x", "c", "-o", short+"/libibverbs.so.1", "/dev/null")
	out, err := gcc.CombinedOutput()
	require.NoError(t, err, "%s", out)
	other := t.TempDir()
	require.NoError(t, os.Link(short+"/libibverbs.so.1", other+"/libibverbs.so.1"))
	require.NoError(t, os.WriteFile(short+"/libgoroce-engine.so", nil, 0o600))

	for _, c := range []struct {
		folders, says string
		well          bool
	}{
		{built, `ok +libibverbs +\d+ functions, all in ` + built, true},
		{"/nowhere:" + built, `ok +libibverbs`, true},
		{"", `BAD +libibverbs .*LD_LIBRARY_PATH leads to none`, false},
		{other + ":" + built, `BAD +libibverbs .*is not goroce's`, false},
		{short, `BAD +libibverbs .*ibv_get_device_list@IBVERBS_1\.1`, false},
	} {
		doctor := exec.Command(roce, "doctor", "--program", program)
		doctor.Env = append(os.Environ(), "LD_LIBRARY_PATH="+c.folders)
		out, err := doctor.CombinedOutput()
		require.Regexp(t, c.says, string(out), c.folders)
		require.Equal(t, c.well, err == nil, "%s: %v: %s", c.folders, err, out)
	}
}
