package lab

// What a lab is told at its start, and the constants of its network.

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// Addresses of the lab's network. The guest's are those of rxe0.
const (
	HostIPv4  = "192.0.2.1"
	GuestIPv4 = "192.0.2.2"
	HostIPv6  = "2001:db8::1"
	GuestIPv6 = "2001:db8::2"

	prefixIPv4 = "/24"
	prefixIPv6 = "/64"

	HostMAC  = "02:00:5e:00:02:01" // of the tap device
	GuestMAC = "02:00:5e:00:02:02" // of eth0 in the guest

	Tap        = "tap0" // the host's end, in the lab's network namespace
	GuestLink  = "eth0" // the guest's end
	WireA      = "eth1" // with Config.Wire: the ends of a wire that begins and ends in the guest
	WireB      = "eth2"
	Device     = "rxe0" // the guest's RDMA device
	DefaultMTU = 9000
)

// Config describes a guest. The zero value is a good one.
type Config struct {
	// Kernel is the series of the guest's kernel, such as "6.1", or NewestKernel. Empty, it is
	// 6.12, or 6.1 where the apt sources have no 6.12.
	Kernel string
	// Suite is a suite of Debian to look for kernels in too, such as "trixie-backports". Empty,
	// only what the apt sources name counts.
	Suite string
	// Wire puts two more network cards into the guest, WireA and WireB, which are joined and have a
	// queue for each processor. They are down and have no addresses.
	Wire   bool
	Python bool // add python3 with pyverbs (42 MB more to load)
	MTU    int  // of both ends; 0: 9000
	CPUs   int  // 0: 2, or 1 with NewestKernel
	Memory int  // MiB; 0: 1024, or 3072 with Wire

	Files       map[string]string // files for the guest: path there to path here; modes are kept
	BootTimeout time.Duration     // 0: 3 minutes
	Log         io.Writer         // progress of building and booting; nil: none
	Console     io.Writer         // a copy of the guest's console; nil: only error messages
}

// NewestKernel as Config.Kernel is the newest that the apt sources have; several kernels may be
// named, as "7.3,newest", of which the first that is there is taken. With it there is one processor
// unless CPUs says otherwise, and those that it asks for take turns on one of the host's: Linux 7.3
// does not survive how QEMU 7.2 (Debian 12) emulates several at once.
const NewestKernel = "newest"

// accelEnv chooses QEMU's accelerator. Emulation is the default because it works everywhere: inside
// a virtual machine /dev/kvm may exist and yet not boot a kernel.
const accelEnv = "GOROCE_LAB_ACCEL"

// wireMemory is that of guests with a Wire, in MiB. virtio_net of Linux 7.3, if it is a module,
// tells the card for every packet that AF_XDP sends without a copy that its header is at an address
// which the guest has no memory at, unless it has as much as this. QEMU mostly makes do, as it
// ignores that header here, but now and then it declares the card broken ("bogus descriptor or out
// of resources").
const wireMemory = 3072

func (c Config) withDefaults() (Config, error) {
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.CPUs == 0 {
		c.CPUs = 2
		if c.newest() {
			c.CPUs = 1
		}
	}
	if c.Memory == 0 {
		c.Memory = 1024
		if c.Wire {
			c.Memory = wireMemory
		}
	}
	if c.BootTimeout == 0 {
		c.BootTimeout = 3 * time.Minute
	}
	switch {
	case c.MTU < 1280 || c.MTU > 65521:
		return c, fmt.Errorf("Config.MTU is %d: 1280 (the least for IPv6) to 65521 is right", c.MTU)
	case c.CPUs < 1 || c.CPUs > 64:
		return c, fmt.Errorf("Config.CPUs is %d: 1 to 64 is right", c.CPUs)
	case c.Memory < 256:
		return c, fmt.Errorf("Config.Memory is %d MiB: at least 256 is right", c.Memory)
	}
	return c, nil
}

func (c Config) say(format string, args ...any) {
	if c.Log != nil {
		fmt.Fprintf(c.Log, "rxelab: "+format+"\n", args...)
	}
}

func (c Config) newest() bool { return slices.Contains(strings.Split(c.Kernel, ","), NewestKernel) }

func accelerator(cfg Config) (string, error) {
	switch name := os.Getenv(accelEnv); name {
	case "", "tcg":
		if cfg.newest() {
			return "tcg,thread=single", nil
		}
		return "tcg,thread=multi", nil
	case "kvm":
		return "kvm", nil
	default:
		return "", fmt.Errorf("%s is %q: tcg or kvm is right", accelEnv, name)
	}
}

// A GID is one entry of the GID table of rxe0.
type GID struct {
	Index int        // what programs take as -g or -x
	Addr  netip.Addr // an IPv4 address stands as itself, not mapped into IPv6
	Type  string     // "RoCE v2"
}
