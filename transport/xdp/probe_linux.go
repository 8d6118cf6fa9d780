package xdp

// Why AF_XDP does not work here: every step of opening a port can fail for reasons that people can
// do something about.
//
//	capabilities       asked for beforehand, so that all that are missing are named at once
//	kernel             no AF_XDP at all, no bpf_link for XDP
//	interface          another program is attached, another process has the queue
//	memory             RLIMIT_MEMLOCK
//
// probe goes as far as is possible without touching the interface: attaching a program makes some
// drivers take the link down for a second.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
)

// missingCapabilities names what this process lacks, "" if nothing.
func missingCapabilities() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // bits 0 to 31, and the others
	if unix.Capget(&header, &data[0]) != nil {
		return ""
	}
	has := func(c int) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	var missing []string
	if !has(unix.CAP_NET_RAW) {
		missing = append(missing, "CAP_NET_RAW")
	}
	if !has(unix.CAP_NET_ADMIN) {
		missing = append(missing, "CAP_NET_ADMIN")
	}
	if !has(unix.CAP_BPF) && !has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_BPF")
	}
	return strings.Join(missing, ", ")
}

// allowed checks what can be checked before anything is opened.
func (p *port) allowed() error {
	if missing := missingCapabilities(); missing != "" {
		return p.Fail(fmt.Sprintf("AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; missing: %s. Run as "+
			"root, do `setcap "+
			"cap_net_raw,cap_net_admin,cap_bpf+ep` to the program, or use udp:%v, which needs nothing", missing,
			p.Addr), unix.EPERM)
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		return unix.Close(fd)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return p.Fail(fmt.Sprintf("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS, since Linux 4.18): use "+
			"packet:%v or udp:%v", p.Addr, p.Addr), err)
	}
	return p.Fail("the system gives no AF_XDP socket", err)
}

// noHook says why there is no program on the interface.
func (p *port) noHook(iface string, err error) error {
	instead := "use packet:" + p.Addr.String()
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return p.Fail(fmt.Sprintf("interface %s has an XDP program already (%s), and an interface has only "+
			"one: detach it "+
			"(`ip link set dev %s xdp off`, or end the process that holds it), or %s", iface, describeProgram(iface),
			iface, instead), err)
	case errors.Is(err, unix.EPERM):
		return p.Fail("the kernel refuses BPF to this process although it has the capabilities, as in a "+
			"container with a user "+
			"namespace of its own: "+instead, err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return p.Fail("this kernel can not attach XDP programs by bpf_link (since Linux 5.9): "+instead, err)
	}
	return p.Fail("an XDP program can not be attached to interface "+iface+": "+instead, err)
}

// describeProgram names the program on an interface as well as it can.
func describeProgram(iface string) string {
	l, err := netlink.LinkByName(iface)
	if err != nil || l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		return "it can not be seen from here"
	}
	id := l.Attrs().Xdp.ProgId
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return fmt.Sprintf("id %d", id)
	}
	defer p.Close()
	if info, err := p.Info(); err == nil && info.Name != "" {
		return fmt.Sprintf("%q, id %d", info.Name, id)
	}
	return fmt.Sprintf("id %d", id)
}

// noQueues says why the sockets could not be bound.
func (p *port) noQueues(iface string, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return p.Fail(fmt.Sprintf("a queue of interface %s has an AF_XDP socket already, of another process: "+
			"end that, or use "+
			"packet:%v", iface, p.Addr), err)
	case errors.Is(err, unix.ENOBUFS):
		return p.Fail(fmt.Sprintf("%d MiB of packet memory is more than this process may lock: raise the limit "+
			"(`ulimit -l`), "+
			"give CAP_IPC_LOCK, or ask for less with Options.RecvBuffer", len(p.memory.area)>>20), err)
	case errors.Is(err, unix.EINVAL) && p.queue > 0:
		return p.Fail(fmt.Sprintf("interface %s has no queue %d; `ethtool -l %s` shows how many it has",
			iface, p.queue, iface), err)
	}
	return p.Fail("AF_XDP sockets can not be bound to interface "+iface, err)
}

// probe finds out whether a port could be opened, as far as is possible without touching the
// interface. nil: nothing is known to be in the way.
func probe(name, where string, o transport.Options) error {
	p := &port{queue: -1}
	if err := p.Init("xdp", name, where, o); err != nil {
		return err
	}
	defer p.release()
	iface, err := p.prepare()
	if err != nil {
		return err
	}
	h := &hook{}
	defer h.detach()
	if err := h.load(); err != nil {
		return p.noHook(iface.Name, err)
	}
	l, err := netlink.LinkByIndex(iface.Index)
	if err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
		return p.noHook(iface.Name, unix.EBUSY)
	}
	return nil
}
