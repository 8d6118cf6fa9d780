// Package lab boots a small Linux guest with a real Soft-RoCE device, rxe0, and runs commands in
// it.
//
// It is for machines whose own kernel has no RDMA, which includes most CI runners and containers:
// the guest runs under QEMU's software emulation and needs neither /dev/kvm nor any module of the
// host. Its speed says nothing about rxe on hardware; its packets are rxe's own.
//
//	l, err := lab.Start(ctx, lab.Config{})
//	defer l.Close()
//	server := l.Command(ctx, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1")
//	...
//	l.WaitListening(ctx, 18515)
//	client := l.Host(ctx, "roce", "pingpong", lab.GuestIPv4)
//
// The server runs in the guest, the client on the host, on the lab's network.
//
// # The network
//
// The host's end is tap0 in a network namespace of its own, 192.0.2.1/24 and 2001:db8::1/64; the
// guest's end is eth0, 192.0.2.2/24 and 2001:db8::2/64, under rxe0. Both have MTU 9000 and know
// each other as permanent neighbours. The namespace has no name: it lives while a process or the
// Lab holds it and leaves nothing to delete.
//
// Netem spoils the network in either direction. It works in the guest for both, because many host
// kernels have no sch_netem: outgoing packets meet it on eth0, incoming ones are led through ifb0
// first.
//
// # Commands
//
// Commands reach the guest through a virtio-serial port and not through the network, so that loss,
// partitions and captures on the network touch RoCE only. The agent in the guest is package
// interop/lab/agent, the protocol interop/lab/link.
//
// # The image
//
// The guest is made of Debian packages that apt downloads and nothing installs; recipe.go lists
// them. It is built once and kept in the user's cache folder. On a host with other apt sources than
// Debian's, let the variable APT_CONFIG name an apt configuration whose Dir::Etc::sourcelist is
// Debian's, and install debian-archive-keyring.
//
// # Nothing is left behind
//
// QEMU and the host-side processes are children of one operating system thread that the Lab owns,
// and are killed by the kernel when that thread ends, however it ends: Close, a panic, os.Exit,
// SIGKILL. The guest's disk is memory.
package lab
