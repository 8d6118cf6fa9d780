package lab

// What the lab needs of its host, saying exactly what is missing, and for tests: skip with the
// reason where the lab cannot run, or fail where it must.

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// needs are the programs that the lab runs, and the Debian package that has each.
var needs = []struct{ program, debian string }{
	{qemuProgram, "qemu-system-x86"},
	{"ip", "iproute2"},
	{"go", "golang-go, or the Go distribution"},
}

// imageNeeds are programs that are needed only to build the image.
var imageNeeds = []struct{ program, debian string }{
	{"apt-get", "apt: the guest is made of Debian packages"},
	{"apt-cache", "apt: the guest is made of Debian packages"},
	{"dpkg-deb", "dpkg"},
	{"xz", "xz-utils"},
}

// Missing says what this machine lacks to run a lab, one line each; empty: a lab can run.
func Missing() (missing []string) {
	if unsupported != "" {
		return []string{unsupported}
	}
	if os.Geteuid() != 0 {
		missing = append(missing,
			fmt.Sprintf("root: a network namespace and a tap device are needed (this is user %d; try sudo)",
				os.Geteuid()))
	}
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		missing = append(missing,
			fmt.Sprintf("/dev/net/tun for the tap device: %v (modprobe tun; in a container: --device /dev/net/tun)",
				err))
	} else {
		f.Close()
	}
	wanted := needs
	if dir, err := CacheDir(); err != nil {
		missing = append(missing, "a cache folder: "+err.Error())
	} else if cachedImage(dir, recipeHash(ImageOptions{})) == nil {
		wanted = append(wanted[:len(wanted):len(wanted)], imageNeeds...)
	}
	for _, n := range wanted {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, fmt.Sprintf("program %s (Debian package %s)", n.program, n.debian))
		}
	}
	return missing
}

func missingError(missing []string) error {
	return fmt.Errorf("the rxe lab cannot run here; missing: %s", strings.Join(missing, "; "))
}

// RequireEnv is the environment variable that turns skips into failures when it is 1.
const RequireEnv = "GOROCE_REQUIRE_LAB"

// TB is the part of testing.TB that Require uses.
type TB interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Require skips the test, with the reason, on a machine that cannot run a lab. Where
// GOROCE_REQUIRE_LAB is 1, as in CI, it fails the test instead: a machine set up to run the lab
// must run it.
func Require(t TB) {
	t.Helper()
	missing := Missing()
	switch {
	case len(missing) == 0:
	case os.Getenv(RequireEnv) == "1":
		t.Fatal(RequireEnv+"=1, but", missingError(missing))
	default:
		t.Skip(missingError(missing))
	}
}
