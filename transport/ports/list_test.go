package ports

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/transport"
)

func TestList(t *testing.T) {
	list, err := List()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(l transport.Listing) bool { return l.Address == netip.MustParseAddr("127.0.0.1") })
	if i < 0 {
		t.Skip("no 127.0.0.1 here")
	}
	l := list[i]
	if l.Name != "udp:127.0.0.1" || l.Kind != "udp" || l.GID.String() != "::ffff:127.0.0.1" || l.PathMTU == 0 || !l.Up {
		t.Errorf("%+v", l)
	}
	if (l.Err == nil) != (l.Problem == "") {
		t.Errorf("error %v, problem %q", l.Err, l.Problem)
	}
	text, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(text), `"address":"127.0.0.1"`) {
		t.Errorf("%s, %v", text, err)
	}
	all := slices.IndexFunc(list, func(a transport.Listing) bool { return a.Name == "udp:"+l.Interface })
	if all < 0 || all > i || list[all].Address.IsValid() || list[all].GID != l.GID || list[all].Kind != "udp" ||
		list[all].NetMTU != l.NetMTU {
		t.Errorf("the interface of %s is not listed before it: %+v", l.Name, list)
	}
	for _, l := range list {
		if !l.Address.IsValid() && l.Name == l.Kind+":"+l.Interface {
			continue
		}
		if l.Kind == "" || l.Interface == "" || !l.Address.IsValid() || l.Address.Zone() != "" && !strings.HasSuffix(l.Name,
			"%"+l.Interface) {
			t.Errorf("%+v", l)
		}
	}
}

func TestListSaysWhatIsMissing(t *testing.T) {
	k := &kinds[0]
	if err := k.try(&transport.Listing{Name: "udp:x", Interface: "eth7"}); !strings.Contains(err.Error(), "eth7 is down") {
		t.Error(err)
	}
	if err := k.try(&transport.Listing{Name: "udp:x", Interface: "eth7", Up: true}); !strings.Contains(err.Error(),
		"MTU of interface eth7 is too small") {
		t.Error(err)
	}
}
