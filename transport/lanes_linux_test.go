package transport

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// Lanes of what only Linux has.
func init() {
	onHost := func(t testing.TB, _ int, f func()) { namespaceOf(t).do(f) }
	onWire := func(t testing.TB, i int, f func()) {
		w := newWireWithQueues(t, 4)
		[]*netns{w.left, w.right}[i].do(f)
	}
	laneKinds = append(laneKinds,
		lanesUnderTest{"udp4", "udp:127.77.0.%d", "239.1.2.3", onHost, false},
		lanesUnderTest{"udp6", "udp:fd78::%d", "ff15::77", onWire, false},
		lanesUnderTest{"packet4", "packet:10.77.0.%d", "239.1.2.3", onWire, false},
		lanesUnderTest{"packet6", "packet:fd78::%d", "ff15::77", onWire, false},
		lanesUnderTest{"auto", "auto:10.77.0.%d", "239.1.2.3", onWire, false},
		lanesUnderTest{"xdp4", "xdp:10.77.0.%d", "239.1.2.3", onWire, true})
}

// Nobody shares the address of a device with lanes: no device of this process, with lanes or without, and none of another
// process of the same user. They are told who has it.
func TestLanesAreNotShared(t *testing.T) {
	if name := os.Getenv("GOROCE_TEST_OPEN"); name != "" { // the other process
		for _, lanes := range []int{1, 2} {
			ports, err := OpenLanes(name, lanes, Options{UDPPort: 4791})
			closeAll(ports)
			fmt.Printf("%d: %v\n", lanes, err)
		}
		return
	}
	ns := newNetns(t, "-6 addr add fd77::1/64 dev lo nodad")
	for _, c := range []struct {
		name  string
		lanes int
	}{{"udp:127.0.0.1", 1}, {"udp:127.0.0.2", 2}, {"udp:fd77::1", 4}, {"packet:127.0.0.3", 2}} {
		var out []byte
		ns.do(func() {
			ports, err := OpenLanes(c.name, c.lanes, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer closeAll(ports)
			for _, lanes := range []int{1, 2} {
				again, err := OpenLanes(c.name, lanes, Options{})
				if err == nil || !strings.Contains(err.Error(), "is in use by another device of this process") {
					t.Errorf("%s with %d lanes, opened again with %d: %v", c.name, c.lanes, lanes, err)
				}
				closeAll(again)
			}
			other := exec.Command(os.Args[0], "-test.run=^TestLanesAreNotShared$")
			other.Env = append(os.Environ(), "GOROCE_TEST_OPEN="+c.name)
			out, _ = other.CombinedOutput()
		})
		for _, lanes := range []int{1, 2} {
			line := fmt.Sprintf("%d: transport: open %s: UDP port 4791 of", lanes, c.name)
			if who := fmt.Sprintf("is in use by process %d (", os.Getpid()); !strings.Contains(string(out), line) || strings.Count(string(out), who) != 2 {
				t.Errorf("%s with %d lanes in another process: %s", c.name, lanes, out)
			}
		}
	}
}

// A socket of the same user that shares ports by itself can have the address, and gets nothing of what is ours.
func TestLanesKeepTheirPackets(t *testing.T) {
	ns := namespaceOf(t)
	open := func(name string, lanes int) (ports []Port) {
		var err error
		ns.do(func() { ports, err = OpenLanes(name, lanes, Options{}) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeAll(ports) })
		return ports
	}
	to, from := open("udp:127.77.0.1", 2), open("udp:127.77.0.2", 1)[0]
	var fd int
	var err error
	ns.do(func() {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0); err == nil {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: 4791, Addr: [4]byte{127, 77, 0, 1}})
		}
	})
	defer unix.Close(fd)
	if err != nil {
		t.Skip("the kernel refuses it: ", err)
	}
	batch := wire.NewBatch(256, 200)
	for i := range 256 {
		putFor(t, batch, pathBetween(t, from, to[0], 0, 64), uint32(i), i, 50)
	}
	sendAll(t, from, batch)
	for i, lane := range collect(t, to, 256) {
		if lane != i%2 {
			t.Errorf("packet for QP %d came to lane %d", i, lane)
		}
	}
	if n, _, err := unix.Recvfrom(fd, make([]byte, 100), 0); err != unix.EAGAIN {
		t.Errorf("the other socket received %d bytes, %v", n, err)
	}
}

// What can not be several lanes says so.
func TestLanesOpenErrors(t *testing.T) {
	w := newWireWithQueues(t, 2)
	for _, c := range []struct{ name, want string }{
		{"xdp:10.77.0.1/0", "one queue is one lane, not 4"},
		{"xdp:10.77.0.1", "interface wire has fewer than 4 queues"},
	} {
		w.left.do(func() {
			ports, err := OpenLanes(c.name, 4, Options{})
			closeAll(ports)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	_, err := openPortableUDP("udp:127.0.0.1", "127.0.0.1", 2, Options{}.withDefaults())
	if err == nil || !strings.Contains(err.Error(), "a udp port has one") {
		t.Error(err)
	}
}
