//go:build linux

// Package stage is where the benchmark plays: two network namespaces joined by a veth pair, each
// with a processor of its own. Stages: a thread for each end unshares its network and pins itself;
// a veth pair is made between the two; programs are started from the thread of their end and so are
// born in its namespace, on its processor. Nothing is left behind (package netthread).
package stage

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netthread"
)

// End is one of the two ends.
type End struct {
	Name      string
	CPU       int
	Interface string
	Addr      netip.Addr
	MAC       net.HardwareAddr

	thread *netthread.Thread
}

// Stage is both ends. The sender of a stream plays at A, its receiver at B.
type Stage struct{ A, B *End }

// prefixBits of the network between the ends.
const prefixBits = 24

// processor is the i-th of the processors that this process may use, or the last of them.
func processor(i int) int {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return 0
	}
	last := 0
	for cpu := range 8 * int(unsafe.Sizeof(may)) {
		if !may.IsSet(cpu) {
			continue
		}
		if last = cpu; i == 0 {
			break
		}
		i--
	}
	return last
}

// New makes a stage whose links have the given MTU. With one processor both ends share it.
func New(mtu int) (*Stage, error) {
	s := &Stage{
		A: &End{
			Name:      "sender",
			CPU:       processor(0),
			Interface: "bench0",
			Addr:      netip.MustParseAddr("198.51.100.1"),
			MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 1, 1},
		},
		B: &End{
			Name:      "receiver",
			CPU:       processor(1),
			Interface: "bench1",
			Addr:      netip.MustParseAddr("198.51.100.2"),
			MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 1, 2},
		},
	}
	for _, e := range []*End{s.A, s.B} {
		if err := e.enter(); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := s.join(mtu); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the threads, and with them the programs and the namespaces.
func (s *Stage) Close() {
	for _, e := range []*End{s.A, s.B} {
		e.leave()
	}
}

// Peer is the other end.
func (s *Stage) Peer(e *End) *End {
	if e == s.A {
		return s.B
	}
	return s.A
}

// enter starts the end's thread: pinned, in a new network namespace.
func (e *End) enter() (err error) {
	if e.thread, err = netthread.New(e.isolate); err != nil {
		return fmt.Errorf("a network namespace on processor %d: %w (root, or CAP_SYS_ADMIN, is needed)", e.CPU, err)
	}
	return nil
}

// leave ends the end's thread.
func (e *End) leave() {
	if e.thread != nil {
		e.thread.Close()
	}
}

// isolate gives the calling thread its processor, and a view of the system by its network.
func (e *End) isolate() error {
	var one unix.CPUSet
	one.Set(e.CPU)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	// Some programs look interfaces up in sysfs, which shows those of the namespace that it was
	// mounted in.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	// Without IPv6 the kernel has nothing of its own to say, here and on interfaces yet to be made.
	for _, where := range []string{"all", "default"} {
		os.WriteFile("/proc/sys/net/ipv6/conf/"+where+"/disable_ipv6", []byte("1"), 0)
	}
	return unix.Mount("bench", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// Do runs f on the end's thread and waits for it.
func (e *End) Do(f func() error) error { return e.thread.Do(f) }

// join makes the veth pair and gives each end its address; each knows the other's without asking.
func (s *Stage) join(mtu int) error {
	there, err := s.B.thread.Open()
	if err != nil {
		return err
	}
	defer there.Close()
	err = s.A.Do(func() error {
		link := netlink.NewLinkAttrs()
		link.Name, link.MTU, link.HardwareAddr = s.A.Interface, mtu, s.A.MAC
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: link, PeerName: s.B.Interface, PeerMTU: uint32(mtu),
			PeerHardwareAddr: s.B.MAC, PeerNamespace: netlink.NsFd(int(there.Fd()))})
	})
	if err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	for _, e := range []*End{s.A, s.B} {
		if err := e.Do(func() error { return e.configure(s.Peer(e)) }); err != nil {
			return fmt.Errorf("%s: %w", e.Interface, err)
		}
	}
	return settle(s.A, s.B)
}

// settle waits until the kernel has noticed that the cables of some ends are plugged in. Until one
// of its workers has, which may take a second, an interface loses what it is given.
func settle(ends ...*End) error {
	const plugged = unix.IFF_UP | unix.IFF_LOWER_UP
	waits := func(l netlink.Link) bool {
		return l.Attrs().RawFlags&plugged == plugged && l.Attrs().OperState == netlink.OperDown
	}
	for _, e := range ends {
		for {
			var links []netlink.Link
			err := e.Do(func() (err error) {
				links, err = netlink.LinkList()
				return err
			})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(links, waits) {
				break
			}
			time.Sleep(time.Millisecond) // the worker wants the lock that a look takes
		}
	}
	return nil
}

// up has the end's interfaces up, and returns the one that leads to the others. It runs in the
// end's namespace.
func (e *End) up() (link netlink.Link, err error) {
	for _, name := range []string{"lo", e.Interface} {
		if link, err = netlink.LinkByName(name); err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return nil, fmt.Errorf("%s up: %w", name, err)
		}
	}
	return link, nil
}

func (e *End) configure(peer *End) error {
	link, err := e.up()
	if err != nil {
		return err
	}
	network := &net.IPNet{IP: e.Addr.AsSlice(), Mask: net.CIDRMask(prefixBits, 32)}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network}); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: peer.Addr.AsSlice(), HardwareAddr: peer.MAC})
}
