package packet

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// What a packet port has received is not seen by the kernel's own stack; what is for another
// address or UDP port is, and everything is again when the port is closed.
func TestIngress(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		t.Run(format, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			a, b := openOn(t, w, format, 0, transport.Options{}), openOn(t, w, format, 1, transport.Options{})
			if len(b.Info().Degraded) > 0 {
				netns.Lacks(t, "there is no ingress program: %v", b.Info().Degraded)
			}
			porttest.Reach(t, a, b)
			ns := w.Right
			send := func(from transport.Port, count int) {
				batch := wire.NewBatch(64, 1200)
				for i := range count {
					porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 1024)
				}
				porttest.SendAll(t, from, batch)
			}
			before := delivered(t, ns)
			send(a, 40)
			porttest.Drain(t, b, 64, 40)
			if n := delivered(t, ns) - before; n >= 40 {
				t.Errorf("the kernel's stack saw %d packets", n)
			}
			// A stranger on another UDP port of the same address is served by the kernel.
			addr := b.Info().GIDs[0].Addr()
			var there net.PacketConn
			var here net.Conn
			var err error
			ns.Do(func() { there, err = net.ListenPacket("udp", net.JoinHostPort(addr.String(), "5001")) })
			if err != nil {
				t.Fatal(err)
			}
			defer there.Close()
			w.Left.Do(func() { here, err = net.Dial("udp", there.LocalAddr().String()) })
			if err != nil {
				t.Fatal(err)
			}
			defer here.Close()
			fmt.Fprint(here, "hello")
			there.SetReadDeadline(time.Now().Add(porttest.Patience)) // only so that a failure ends
			var buf [8]byte
			if n, _, err := there.ReadFrom(buf[:]); err != nil || string(buf[:n]) != "hello" {
				t.Errorf("a packet to another port: %q %v", buf[:n], err)
			}
			b.Close()
			before = delivered(t, ns)
			send(a, 40)
			for delivered(t, ns)-before < 40 { // ends only if all get there
				runtime.Gosched()
			}
		})
	}
}

// delivered is how many packets IP has received in a namespace.
func delivered(t *testing.T, ns *netns.Namespace) (n int) {
	t.Helper()
	ns.Do(func() {
		for _, file := range []string{"/proc/thread-self/net/snmp", "/proc/thread-self/net/snmp6"} {
			text, _ := os.ReadFile(file)
			var names []string
			for _, line := range strings.Split(string(text), "\n") {
				f := strings.Fields(line)
				switch {
				case len(f) == 2 && f[0] == "Ip6InReceives":
					n += number10(f[1])
				case len(f) > 3 && f[0] == "Ip:" && names == nil:
					names = f
				case len(f) > 3 && f[0] == "Ip:":
					for i := range f {
						if names[i] == "InReceives" {
							n += number10(f[i])
						}
					}
				}
			}
		}
	})
	return n
}

func number10(s string) (n int) {
	fmt.Sscan(s, &n)
	return n
}
