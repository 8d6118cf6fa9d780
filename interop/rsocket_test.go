package interop

// The stream against the kernel's device and librdmacm's rsockets: roce rstream against rstream.

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRstream: bytes to and fro, every one compared, both programs as client and as server.
func TestRstream(t *testing.T) {
	a := theArena(t)
	for _, f := range []struct {
		name string
		family
	}{{"ipv4", ipv4}, {"ipv6", ipv6}} {
		for _, role := range roles {
			for _, size := range []string{"70001", "64", "1000000"} {
				name := fmt.Sprintf("roce-is-%s/%s/size=%s", role.name, f.name, size)
				t.Run(name, func(t *testing.T) {
					if os.Getenv(everyProgram) == "" && (size != "70001" || f.name != "ipv4") {
						t.Skip("played by make programs")
					}
					a.rstream(t, f.family, role.serving, "-S", size, "-C", "20", "-I", "3", "-T", "v", "-T", "b")
				})
			}
		}
	}
}

// rstream plays one game and looks at what both ends say.
func (a *arena) rstream(t *testing.T, f family, serving bool, options ...string) {
	server := append([]string{"rstream", "-b", f.guest}, options...)
	client := append([]string{"rstream", "-s", f.guest}, options...)
	d := duel{guest: server, host: client, rdma: true}
	if serving {
		server[2], client[2] = f.host, f.host
		d = duel{guest: client, host: server, serving: true, rdma: true, says: "usec/xfer"}
	}
	r := a.fight(t, d)
	for name, said := range map[string]string{"guest": r.guest, "host": r.host} {
		if !strings.Contains(said, "\ncustom ") {
			t.Errorf("%s has measured nothing: %s", name, said)
		}
	}
}
