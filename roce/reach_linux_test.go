package roce

// First messages to neighbours that the kernel does not know yet, on a real Ethernet: two network
// namespaces and a veth pair.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/netns"
)

// openIn opens a device in a namespace; a port that does not work here ends the test.
func openIn(t *testing.T, ns *netns.Namespace, name string) (d *Device) {
	t.Helper()
	var err error
	ns.Do(func() { d, err = Open(name, nil) })
	if err != nil {
		netns.Lacks(t, "%v", err)
	}
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// overEthernet runs f on each kind of port, IPv4 and IPv6. format is as "packet:10.77.0.%d".
func overEthernet(t *testing.T, f func(t *testing.T, left, right *netns.Namespace, format string)) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d", "xdp:10.77.0.%d"} {
		t.Run(strings.ReplaceAll(format, "%d", "N"), func(t *testing.T) {
			w := netns.NewWire(t, 9000)
			f(t, w.Left, w.Right, format)
		})
	}
}

// first sends one message, which nobody repeats: it must leave the port, and arrive.
func first(t *testing.T, a, b *end, wr SendWR) {
	t.Helper()
	b.recv(0, b.mr.SGE(0, 64))
	a.post(wr)
	a.wait()
	if s := a.dev.Stats().Port; s.SendUnreachable > 0 {
		t.Fatalf("the port has dropped the first message: %+v", s)
	}
	b.wait()
}

func TestFirstMessage(t *testing.T) {
	overEthernet(t, func(t *testing.T, left, right *netns.Namespace, format string) {
		for _, typ := range []QPType{UC, UD} {
			t.Run(typ.String(), func(t *testing.T) {
				a := newEnd(t, openIn(t, left, fmt.Sprintf(format, 1)), typ, 64)
				b := newEnd(t, openIn(t, right, fmt.Sprintf(format, 2)), typ, 64)
				for _, ns := range []*netns.Namespace{left, right} {
					ns.IP(t, "neigh flush all")
				}
				wr := SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 8)}}
				if typ == UC {
					connect(t, a, b)
				} else {
					must(t, a.qp.Activate(7))
					must(t, b.qp.Activate(7))
					ah, err := a.pd.CreateAH(bg, AHAttr{DGID: b.dev.GIDs()[0]})
					must(t, err)
					defer func() { must(t, a.pd.DestroyAH(ah)) }()
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.QPN(), 7
				}
				first(t, a, b, wr)
			})
		}
	})
}

// A neighbour that is not there is an error of Connect and CreateAH, which names it; so is a
// destination without a route.
func TestUnreachableNeighbour(t *testing.T) {
	d := openIn(t, netns.NewWire(t, 9000).Left, "packet:10.77.0.1")
	a, u := newEnd(t, d, RC, 64), newEnd(t, d, UD, 64)
	for address, want := range map[string]string{"10.77.0.99": "10.77.0.99 has not answered ARP", "10.79.0.1": "no route to 10.79.0.1"} {
		remote, err := ParseEndpoint(address + "/77/0")
		must(t, err)
		created := make(chan error)
		go func() { // both at once, for they wait
			_, err := u.pd.CreateAH(bg, AHAttr{DGID: remote.GID})
			created <- err
		}()
		for call, err := range map[string]error{"Connect": a.qp.Connect(bg, remote, nil), "CreateAH": <-created} {
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
}
