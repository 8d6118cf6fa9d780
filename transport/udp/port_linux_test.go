package udp

import (
	"errors"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// sniffer sees what is really on the wire of an interface.
type sniffer struct{ fd int }

// next returns the next RoCE packet that enters the interface.
func (s sniffer) next(t *testing.T) []byte {
	t.Helper()
	buf := make([]byte, 1<<17)
	for {
		n, from, err := unix.Recvfrom(s.fd, buf, 0)
		if err != nil {
			t.Fatal(err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if f, why := wire.SplitFrame(buf[:n]); why == wire.DropNone {
			return wire.AppendFrame(nil, &f)
		}
	}
}

// On a veth whose peer can not take super-frames, the kernel itself cuts runs up: each packet must
// carry the Identification that its ICRC was made for, and DF. Strict verification, as hardware and
// rxe do it.
func TestIdentificationOnTheWire(t *testing.T) {
	for _, ip := range []struct {
		name, src, dst string
		head           int
	}{{"v4", "10.9.0.1", "10.9.0.2", wire.Head4Len}, {"v6", "fd78::1", "fd78::2", wire.Head6Len}} {
		for _, zero := range []bool{false, true} {
			t.Run(ip.name+map[bool]string{true: "-zero-checksum"}[zero], func(t *testing.T) {
				ns := vethPair(t)
				wireTap := sniffer{porttest.Sniffer(t, ns, "v1")}
				a := porttest.OpenIn(t, ns, Open, "udp:"+ip.src, transport.Options{ZeroChecksum: zero})
				dst, err := wire.ParseGID(ip.dst)
				if err != nil {
					t.Fatal(err)
				}
				path := porttest.PathTo(t, a, dst, 0, 64)
				batch := wire.NewBatch(64, 1100)
				batch.MaxRun(a.Info().MaxRun)
				sizes := []int{64, 100, 100, 100, 100, 40, 1024, 1024, 7, 7}
				for i, n := range sizes {
					porttest.Put(t, batch, path, i, n)
				}
				porttest.SendAll(t, a, batch)
				numbers := 0
				for i, n := range sizes {
					f, why := wire.SplitFrame(wireTap.next(t))
					if why != wire.DropNone {
						t.Fatal(why)
					}
					if got := porttest.Number(t, &f); got != i {
						t.Fatalf("packet %d on the wire, want %d", got, i)
					}
					if len(f.Body) != wire.BodyLen(wire.UCSendOnly, n) {
						t.Fatalf("packet %d has %d bytes: the kernel did not cut the run up", i, f.Len())
					}
					if h := f.IPv4(); h != nil {
						if h.Fragment() != wire.DontFragment {
							t.Errorf("packet %d: flags %#x, not DF alone", i, h.Fragment())
						}
						numbers += int(h.Identification())
					}
					if sum := f.UDP().Checksum(); zero && sum != 0 {
						t.Errorf("packet %d: UDP checksum %#x", i, sum)
					}
				}
				runs := a.Stats().SendRuns
				if zero != (runs == 0) || ip.name == "v4" && (numbers == 0) != zero {
					t.Errorf("%d runs sent, sum of Identifications %d", runs, numbers)
				}
			})
		}
	}
}

// vethPair is a namespace with two ends of a cable, segmentation offload off. Only v0 has
// addresses; its neighbours are written down, so that nobody needs to answer for them.
func vethPair(t testing.TB) *netns.Namespace {
	t.Helper()
	ns := netns.New(t,
		"link add v0 mtu 9000 gso_max_segs 1 gso_max_size 9000 type veth peer name v1 mtu 9000",
		"addr add 10.9.0.1/24 dev v0", "-6 addr add fd78::1/64 dev v0 nodad",
		"link set v0 up", "link set v1 up",
		"neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent",
		"-6 neigh add fd78::2 lladdr 02:00:00:00:00:02 dev v0 nud permanent")
	ns.SegmentationOff(t, "v0")
	ns.Settle()
	return ns
}

// fdOf is the socket of a port's first address.
func fdOf(p transport.Port) int { return p.(*port).sockets.list.Load().rows[0].recv.fd }

// The first row of an interface is its IPv4 address if it has one, even after IPv6 ones; a
// link-local address is better than none, and reaches link-local peers.
func TestOpenByInterfaceRanks(t *testing.T) {
	ns := netns.New(t, "link add v0 type veth peer name v1 address 02:00:00:00:00:0b",
		"link set v0 addrgenmode none", "link set v1 addrgenmode none", "link set v0 up", "link set v1 up",
		"-6 addr add fe80::a/64 dev v0 nodad", "-6 addr add fe80::b/64 dev v1 nodad",
		"-6 neigh add fe80::b lladdr 02:00:00:00:00:0b dev v0 nud permanent")
	ns.Settle()
	a, b := porttest.OpenIn(t, ns, Open, "udp:v0", transport.Options{}), porttest.OpenIn(t, ns, Open, "udp:v1", transport.Options{})
	if got := a.Info(); got.GIDs[0].String() != "fe80::a" || got.Interface != "v0" || got.NetMTU != 1500 || len(got.MAC) != 6 {
		t.Errorf("%+v", got)
	}
	batch := wire.NewBatch(1, 200)
	porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), 3, 8)
	porttest.SendAll(t, a, batch)
	if got := porttest.RecvSome(t, b, make([]wire.Frame, 4)); porttest.Number(t, &got[0]) != 3 {
		t.Error("wrong packet")
	}
	a.Close()
	ns.Do(func() {
		exec.Command("ip", "addr", "add", "10.9.1.1/24", "dev", "v0").Run()
		exec.Command("ip", "-6", "addr", "add", "fd79::1/64", "dev", "v0", "nodad").Run()
	})
	if got := porttest.OpenIn(t, ns, Open, "udp:v0", transport.Options{}).Info(); got.GIDs[0].String() != "::ffff:10.9.1.1" ||
		len(got.Addresses) != 3 {
		t.Errorf("%+v", got)
	}
}

// A run that the kernel refuses, once or always, arrives all the same: packet by packet, sealed
// again.
func TestRefusedRuns(t *testing.T) {
	ns := vethPair(t)
	wireTap := sniffer{porttest.Sniffer(t, ns, "v1")}
	a := porttest.OpenIn(t, ns, Open, "udp:10.9.0.1", transport.Options{})
	p := a.(*port)
	// SO_NO_CHECK makes every UDP_SEGMENT send fail with EINVAL, as a device without checksums does
	// with EIO.
	if err := unix.SetsockoptInt(fdOf(p), unix.SOL_SOCKET, host.SoNoCheck, 1); err != nil {
		t.Fatal(err)
	}
	dst, _ := wire.ParseGID("10.9.0.2")
	path := porttest.PathTo(t, a, dst, 0, 64)
	batch := wire.NewBatch(64, 1100)
	batch.MaxRun(a.Info().MaxRun)
	for round := range 2 {
		for i := range 5 {
			porttest.Put(t, batch, path, i, 100)
		}
		porttest.SendAll(t, a, batch)
		for i := range 5 {
			if f, _ := wire.SplitFrame(wireTap.next(t)); porttest.Number(t, &f) != i || f.IPv4().Identification() != 0 {
				t.Fatalf("packet %d: Identification %d", i, f.IPv4().Identification())
			}
		}
		i, s := a.Info(), a.Stats()
		if i.MaxRun != 1 || len(i.Degraded) != 1 || i.Degraded[0].Feature != "UDP_SEGMENT" ||
			!errors.Is(i.Degraded[0].Err, syscall.EINVAL) {
			t.Fatalf("degradation is not reported: %+v", i)
		}
		if s.SendResealed != uint64(4*(round+1)) || s.SendRuns != 0 || s.SendRefused != 0 {
			t.Fatalf("%+v", s)
		}
	}
}

// Frames that can not go are skipped and counted, those after them go.
func TestUnsendable(t *testing.T) {
	ns := vethPair(t)
	wireTap := sniffer{porttest.Sniffer(t, ns, "v1")}
	a := porttest.OpenIn(t, ns, Open, "udp:10.9.0.1", transport.Options{})
	dst, _ := wire.ParseGID("10.9.0.2")
	nowhere, _ := wire.ParseGID("10.10.0.2")
	batch := wire.NewBatch(64, 10000)
	porttest.Put(t, batch, porttest.PathTo(t, a, dst, 0, 64), 1, 100)
	porttest.Put(t, batch, porttest.PathTo(t, a, dst, 0, 64), 2, 9100)
	porttest.Put(t, batch, porttest.PathTo(t, a, nowhere, 0, 64), 3, 100)
	porttest.Put(t, batch, porttest.PathTo(t, a, dst, 0, 64), 4, 100)
	porttest.SendAll(t, a, batch)
	var got []int
	for range 2 {
		f, _ := wire.SplitFrame(wireTap.next(t))
		got = append(got, porttest.Number(t, &f))
	}
	s := a.Stats()
	if !slices.Equal(got, []int{1, 4}) || s.SendFrames != 2 || s.SendTooLong != 1 || s.SendUnreachable != 1 || s.LastSendError == "" {
		t.Fatalf("sent %v; %+v", got, s)
	}
}

// With a neighbour that does not answer, packets pile up in the kernel until the socket's send
// buffer is full: Send says so, and Wait returns when there is room, after the neighbour has been
// found.
func TestSendBackPressure(t *testing.T) {
	ns := vethPair(t)
	a := porttest.OpenIn(t, ns, Open, "udp:10.9.0.1", transport.Options{SendBuffer: 4096})
	silent, _ := wire.ParseGID("10.9.0.77")
	batch := wire.NewBatch(64, 1100)
	for i := range 64 {
		porttest.Put(t, batch, porttest.PathTo(t, a, silent, 0, 64), i, 1024)
	}
	n, err := a.Send(batch)
	if err != nil || n == 0 || n == 64 || a.Stats().SendBlocked != 1 {
		t.Fatalf("%d sent, %v, %+v", n, err, a.Stats())
	}
	batch.Drop(n)
	found := make(chan error, 1)
	go func() {
		ns.Do(func() {
			found <- exec.Command("ip", "neigh", "replace", "10.9.0.77", "lladdr", "02:00:00:00:00:03", "dev", "v0", "nud",
				"permanent").Run()
		})
	}()
	porttest.SendAll(t, a, batch) // ends only if Wait returns for room
	if err := <-found; err != nil {
		t.Fatal(err)
	}
	if a.(*port).Lacks() == host.SendBuffer {
		t.Error("still waiting for room")
	}
}

// What overflows the receive buffer is counted.
func TestReceiveOverflow(t *testing.T) {
	a := openAt(t, "127.77.1.1", transport.Options{})
	b := openAt(t, "127.77.1.2", transport.Options{RecvBuffer: 4096})
	batch := wire.NewBatch(256, 1100)
	for i := range 256 {
		porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 1024)
	}
	porttest.SendAll(t, a, batch)
	frames := make([]wire.Frame, 64)
	got := uint64(0)
	for got+b.Stats().RecvOverflow < 256 { // ends only if each is the one or the other
		n, err := b.Recv(frames)
		if err != nil {
			t.Fatal(err)
		}
		got += uint64(n)
	}
	if s := b.Stats(); got == 0 || s.RecvOverflow == 0 || got+s.RecvOverflow != 256 {
		t.Fatalf("%d received, %d overflowed", got, s.RecvOverflow)
	}
	if i := b.Info(); i.RecvBuffer == 0 || i.RecvBuffer > 8192 {
		t.Errorf("receive buffer of %d bytes", i.RecvBuffer)
	}
}

func openAt(t testing.TB, addr string, o transport.Options) transport.Port {
	o.UDPPort = porttest.UDPPort
	return porttest.Open(t, Open, "udp:"+addr, o)
}

// Merged runs with fewer frames asked for than they hold: nothing is lost, and what was lent does
// not change.
func TestRecvFewerThanARun(t *testing.T) {
	a, b := openAt(t, "127.77.1.1", transport.Options{}), openAt(t, "127.77.1.2", transport.Options{})
	batch := wire.NewBatch(64, 200)
	batch.MaxRun(64)
	for i := range 64 {
		porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 64)
	}
	porttest.SendAll(t, a, batch)
	frames := make([]wire.Frame, 5)
	for next := 0; next < 64; {
		got := porttest.RecvSome(t, b, frames)
		for j := range got {
			if n := porttest.Number(t, &got[j]); n != next {
				t.Fatalf("%d, want %d", n, next)
			}
			next++
		}
	}
	if s := b.Stats(); s.RecvRuns != 1 || s.RecvFrames != 64 {
		t.Errorf("%+v", s)
	}
}

// Datagrams that no frame can be made of do not disturb those around them.
func TestForeignDatagrams(t *testing.T) {
	a, b := openAt(t, "127.77.1.1", transport.Options{}), openAt(t, "127.77.1.2", transport.Options{MaxRun: 1})
	fd := fdOf(a)
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 77, 1, 2}, Port: porttest.UDPPort}
	for _, n := range []int{0, 3, smallMsg + 1} {
		if err := unix.Sendto(fd, make([]byte, n), 0, to); err != nil {
			t.Fatal(err)
		}
	}
	batch := wire.NewBatch(1, 200)
	porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), 7, 64)
	porttest.SendAll(t, a, batch)
	var lengths []int
	for len(lengths) < 3 {
		got := porttest.RecvSome(t, b, make([]wire.Frame, 8))
		for i := range got {
			lengths = append(lengths, len(got[i].Body))
		}
	}
	if !slices.Equal(lengths, []int{0, 3, 80}) || b.Stats().RecvBad != 1 {
		t.Fatalf("bodies of %v bytes, %d bad", lengths, b.Stats().RecvBad)
	}
}

// An ICMP "port unreachable" for an earlier packet breaks neither Recv nor Send.
func TestPeerIsNotThere(t *testing.T) {
	a, b := openAt(t, "127.77.1.1", transport.Options{}), openAt(t, "127.77.1.2", transport.Options{})
	nobody, _ := wire.ParseGID("127.77.1.3")
	batch := wire.NewBatch(8, 200)
	for i := range 3 {
		porttest.Put(t, batch, porttest.PathTo(t, a, nobody, 0, 64), 0, 64)
		porttest.SendAll(t, a, batch)
		if n, err := a.Recv(make([]wire.Frame, 1)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 64)
		porttest.SendAll(t, a, batch)
		if got := porttest.RecvSome(t, b, make([]wire.Frame, 1)); porttest.Number(t, &got[0]) != i {
			t.Fatal("wrong packet")
		}
	}
}

// TestWatchedRoom: room to send ends the Watch of the relief and not of the background.
func TestWatchedRoom(t *testing.T) {
	ns := vethPair(t)
	p := porttest.OpenIn(t, ns, Open, "udp:10.9.0.1", transport.Options{SendBuffer: 4096})
	silent, _ := wire.ParseGID("10.9.0.77") // what is sent there waits for its address
	batch := wire.NewBatch(64, 1100)
	for i := range 64 {
		porttest.Put(t, batch, porttest.PathTo(t, p, silent, 0, 64), i, 1024)
	}
	porttest.WatchedRoom(t, p, batch, func() {
		ns.IP(t, "neigh replace 10.9.0.77 lladdr 02:00:00:00:00:03 dev v0 nud permanent")
	})
}

// A socket of the same user that shares ports by itself can have the address, and gets nothing of
// what is ours.
func TestLanesKeepTheirPackets(t *testing.T) {
	ns := netns.NewLoopback(t)
	open := func(name string, lanes int) []transport.Port {
		return porttest.OpenLanesIn(t, ns, Open, name, lanes, transport.Options{})
	}
	to, from := open("udp:127.77.0.1", 2), open("udp:127.77.0.2", 1)[0]
	var fd int
	var err error
	ns.Do(func() {
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
		porttest.PutFor(t, batch, porttest.PathBetween(t, from, to[0], 0, 64), uint32(i), i, 50)
	}
	porttest.SendAll(t, from, batch)
	for i, lane := range porttest.Collect(t, to, 256) {
		if lane != i%2 {
			t.Errorf("packet for QP %d came to lane %d", i, lane)
		}
	}
	if n, _, err := unix.Recvfrom(fd, make([]byte, 100), 0); err != unix.EAGAIN {
		t.Errorf("the other socket received %d bytes, %v", n, err)
	}
}
