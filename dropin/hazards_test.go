package dropin

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHazards plays each program of testdata/hazards.c, which says what it is about.
func TestHazards(t *testing.T) {
	needs(t, "gcc")
	program := filepath.Join(t.TempDir(), "hazards")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-g", "-o", program, "testdata/hazards.c", "-L"+built, "-l:libibverbs.so.1",
		"-pthread").CombinedOutput()
	require.NoError(t, err, "%s", out)
	names, err := with(t, "", program).Output()
	require.NoError(t, err)
	for name := range strings.FieldsSeq(string(names)) {
		t.Run(name, func(t *testing.T) {
			out, err := with(t, "udp:127.0.0.1", program+" "+name).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
