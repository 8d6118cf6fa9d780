//go:build verbs && !double

package roce

import (
	"errors"
	"strings"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/pipe"
)

// TestVerbsDevices: they are listed with the others, or what is missing is.
func TestVerbsDevices(t *testing.T) {
	all, err := Devices()
	must(t, err)
	found := 0
	for _, d := range all {
		if strings.HasPrefix(d.Name, "verbs:") {
			found++
			if d.Name == "verbs:" && (!errors.Is(d.Err, ErrNotSupported) || !strings.Contains(d.Err.Error(), "rdma link add")) {
				t.Errorf("%v", d.Err)
			}
		}
	}
	if found == 0 {
		t.Error("neither a device nor what is missing")
	}
	if _, err := Open("verbs:none such", nil); !errors.Is(err, ErrNotSupported) && !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// TestVerbsRefuseConfig: what a driver does not do is an error, and not passed over.
func TestVerbsRefuseConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.Wrap":              {Wrap: func(p transport.Port) transport.Port { return p }},
		"Config.Lanes":             {Lanes: 2},
		"Config.Transport.UDPPort": {Transport: transport.Options{UDPPort: 5000}},
		"Config.Window":            {Window: 5},
		"Config.Congestion":        {Congestion: CongestionParams{G: 0.5}},
		"Config.NoECN":             {NoECN: true},
	} {
		_, err := Open("verbs:none", &cfg)
		refused(t, err, ErrNotSupported, want)
	}
}

// TestPortBeforeName: with Config.Ports the name is only what the device is called.
func TestPortBeforeName(t *testing.T) {
	lanes, err := pipe.Open("pipe:called-otherwise", 2, transport.Options{})
	must(t, err)
	d, err := Open("verbs:its name", &Config{Ports: lanes})
	must(t, err)
	if d.Name() != "verbs:its name" {
		t.Error(d.Name())
	}
	if n := len(d.StatsByLane()); n != 2 {
		t.Errorf("%d lanes", n)
	}
	must(t, d.Close())
}
