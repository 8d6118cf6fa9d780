package dropin

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// offLoopback are hazards on a device that is not on the loopback.
var offLoopback = []string{"no-context", "off-loopback", "loopback-in-use"}

// TestHazards plays each program of testdata/hazards.c and cmhazards.c, which say what they are
// about.
func TestHazards(t *testing.T) {
	needs(t, "gcc")
	for _, source := range []string{"hazards", "cmhazards"} {
		program := filepath.Join(nobody.Folder(t), source)
		out, err := exec.Command("gcc", "-Wall", "-Werror", "-g", "-o", program, "testdata/"+source+".c", "-L"+built,
			"-l:librdmacm.so.1", "-l:libibverbs.so.1", "-pthread").CombinedOutput()
		require.NoError(t, err, "%s", out)
		names, err := with(t, "", program).Output()
		require.NoError(t, err)
		for name := range strings.FieldsSeq(string(names)) {
			t.Run(source+"/"+name, func(t *testing.T) {
				device := "udp:127.0.0.1"
				if source == "cmhazards" && slices.Contains(offLoopback, name) {
					wire(t)
					device = "udp:" + oneEnd
				}
				c := with(t, device, program+" "+name)
				if name == "elsewhere" { // it becomes another user by itself
					c.SysProcAttr.Credential = nil
				}
				out, err := c.CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
	}
}
