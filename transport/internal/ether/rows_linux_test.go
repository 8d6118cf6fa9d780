package ether

import (
	"slices"
	"sync"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// TestChangesBeforeReady: an address that comes or goes while a port is being opened, after its
// addresses were held and before its lanes are ready, has its row and the kernel's leave to receive
// as soon as they are.
func TestChangesBeforeReady(t *testing.T) {
	w := netns.NewWire(t, 1500)
	var mu sync.Mutex
	admitted := map[wire.GID]bool{}
	p := &Port{}
	w.Right.Do(func() {
		if err := p.Init("packet", "packet:wire", "wire", transport.Options{UDPPort: wire.UDPPort}); err != nil {
			t.Fatal(err)
		}
		p.Admit = func(dst wire.GID, in bool) error {
			mu.Lock()
			defer mu.Unlock()
			admitted[dst] = in
			return nil
		}
		iface, err := p.Interface()
		if err == nil {
			err = p.Hold(iface, Holding{})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	defer p.LetGo()
	came, _ := wire.ParseGID("10.77.0.9")
	went, _ := wire.ParseGID("10.77.0.3")
	w.Right.IP(t, "addr add 10.77.0.9/24 dev wire", "addr del 10.77.0.3/24 dev wire")
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	for e := range p.Events() {
		mu.Lock()
		done := admitted[came] && !admitted[went]
		mu.Unlock()
		if rows := p.Rows(); !slices.Contains(rows, came) || slices.Contains(rows, went) || !done {
			t.Errorf("%v: rows %v, admitted %v", e, rows, admitted)
		}
		break
	}
}
