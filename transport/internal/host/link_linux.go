package host

import (
	"os"
	"strconv"
	"strings"
)

// LinkSpeed is the speed of an interface, 0 if it is not known. It asks sysfs; interfaces without a
// speed (lo, bridges, links that are down) say -1 or nothing.
func LinkSpeed(iface string) (mbps int) {
	b, err := os.ReadFile("/sys/class/net/" + iface + "/speed")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
