package ports

// The rules of the rooms that a compiler does not check: who imports whom.

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/goroce/goroce/"

// rooms are the packages under transport, with what each may import of this module, directly or
// not.
var rooms = map[string]string{
	"transport":                "wire",
	"transport/internal/count": "transport wire",
	"transport/internal/park":  "",
	"transport/internal/event": "transport wire",
	"transport/internal/gid":   "transport wire",
	"transport/internal/rota":  "",
	"transport/internal/host":  "transport transport/internal/event transport/internal/gid wire",
	"transport/internal/ether": "transport transport/internal/count transport/internal/event transport/internal/gid " +
		"transport/internal/host wire",
	"transport/pipe":    "transport transport/internal/count transport/internal/event transport/internal/gid transport/internal/park wire",
	"transport/fault":   "transport wire",
	"transport/capture": "transport wire wire/pcapng",
	"transport/udp": "transport transport/internal/count transport/internal/event transport/internal/gid transport/internal/host " +
		"transport/internal/park transport/internal/rota wire",
	"transport/packet": "transport transport/internal/count transport/internal/ether transport/internal/event transport/internal/gid " +
		"transport/internal/host transport/internal/rota wire",
	"transport/xdp": "transport transport/internal/count transport/internal/ether transport/internal/event transport/internal/gid " +
		"transport/internal/host transport/internal/rota wire",
	"transport/ports": "transport transport/internal/count transport/internal/ether transport/internal/event transport/internal/gid " +
		"transport/internal/host transport/internal/park " +
		"transport/internal/rota transport/packet transport/pipe transport/udp transport/xdp wire",
}

// others are the modules of others that a room may link, beside golang.org/x/sys and those of the
// rooms it imports.
var others = map[string]string{
	"transport":         "",
	"transport/pipe":    "",
	"transport/fault":   "",
	"transport/capture": "",
	"transport/udp":     "github.com/vishvananda/netlink github.com/vishvananda/netns",
	"transport/ports":   "github.com/cilium/ebpf github.com/vishvananda/netlink github.com/vishvananda/netns",
}

// TestRooms: each room imports what it may. So a program with pipes links no netlink.
func TestRooms(t *testing.T) {
	for room, allowed := range rooms {
		out, err := exec.Command("go", "list", "-deps", module+room).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		links, checked := others[room]
		for _, dep := range strings.Fields(string(out)) {
			if name, ours := strings.CutPrefix(dep, module); ours {
				if name != room && !contains(allowed, name) {
					t.Errorf("%s imports %s; it may import: %s", room, name, allowed)
				}
				continue
			}
			if first, _, _ := strings.Cut(dep, "/"); !checked || !strings.Contains(first, ".") ||
				strings.HasPrefix(dep, "golang.org/x/sys") {
				continue
			}
			if parts := strings.SplitN(dep, "/", 4); !contains(links, strings.Join(parts[:min(3, len(parts))], "/")) {
				t.Errorf("%s links %s; it may link: %s", room, dep, links)
			}
		}
	}
}

func contains(list, word string) bool { return strings.Contains(" "+list+" ", " "+word+" ") }
