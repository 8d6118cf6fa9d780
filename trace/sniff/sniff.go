// Package sniff captures the RoCE packets of a network interface, also those between other machines
// as far as the interface sees them. It answers nothing. Linux only, with CAP_NET_RAW.
package sniff

// DefaultRing is how many bytes of packets may wait for Next, unless Options say otherwise. At 10
// Gbit/s that is what arrives in 50 ms.
const DefaultRing = 64 << 20

// Options are how packets are captured. The zero value is for all of each packet.
type Options struct {
	// Snap is how many bytes of a packet are wanted, from the link's header on; 0: all. What is cut
	// off is not even copied by the kernel, so that the ring holds more packets. Some come whole:
	// messages of the connection manager, and a run (packets that the kernel handles as one
	// datagram), of which only the first packet would be left; trace.Source makes packets of it.
	// All come whole where the kernel does not say which are runs, or only to who has CAP_BPF.
	Snap int

	// Ring is the size in bytes of the memory that the kernel puts packets into until Next reads
	// them; 0: DefaultRing. It is rounded up to 1 MiB, and smaller if there is no memory.
	Ring int
}
