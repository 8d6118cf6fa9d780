package transport

// How a port is opened.

import "github.com/goroce/goroce/wire"

// MaxRun is the longest run of packets that any kernel takes as one message.
const MaxRun = 128

// Options say how a port is opened. The zero value is right for nearly everybody.
type Options struct {
	// UDPPort is the UDP port to bind and to send to; 0 means 4791. With any other one, only
	// devices that use the same one can talk to each other: the frames still say 4791, and so does
	// what their ICRC covers.
	UDPPort int

	// RecvBuffer is how many bytes the kernel should hold for us between two turns; 0 means 64 MiB,
	// of which xdp ports take 16 at most, and packet ports 16 for long packets and runs. Those take
	// half as much, 8 MiB at most, for packets that come alone. Info.RecvBuffer tells what was
	// granted: without CAP_NET_ADMIN udp ports are limited by net.core.rmem_max.
	RecvBuffer int
	// SendBuffer is the same for sending; 0 means 4 MiB.
	SendBuffer int

	// MaxRun limits how many packets may travel through the kernel as one message (UDP_SEGMENT and
	// UDP_GRO); 0 means as many as the kernel takes, 1 turns both off.
	//
	// Over IPv4 a run needs whoever cuts it up, the kernel or the NIC, to count the Identification
	// up from packet to packet, as the ICRC covers it. The kernel does. Whether a NIC that cuts
	// runs itself does cannot be seen from the host that sends. If it does not, the first packet of
	// each run arrives, and hardware, rxe and our packet and xdp ports drop the others: the
	// receiver counts ICRC errors (rx_icrc_errors here, rx_icrc_encapsulated of mlx5), and long
	// messages crawl, a packet a round trip. Our udp ports solve for the Identification and notice
	// nothing. Then set MaxRun to 1, or keep the NIC from it: ethtool -K INTERFACE
	// tx-udp-segmentation off.
	MaxRun int

	// ZeroChecksum sends UDP checksum 0 as RoCE hardware does. The kernel can not do that to runs,
	// so it implies MaxRun 1 for sending. Otherwise the kernel fills in a correct checksum, which
	// every receiver must accept.
	ZeroChecksum bool

	// TrafficClass and HopLimit are those that most packets will have: any other value costs a
	// little per message. HopLimit 0 means 64.
	TrafficClass, HopLimit uint8

	// QueueLen is how many packets a pipe holds for its receiver; 0 means 1024.
	QueueLen int

	// OwnThread says that whoever waits for completions has a thread of its own, as a call from C
	// has and a goroutine that is locked to one: it then sleeps in the kernel instead of the
	// runtime's poller, from which another thread would have to wake it, and waits for a turn of
	// the stack without giving its processor of Go's away, of which there should be two. Linux.
	OwnThread bool

	// Why is why this kind of port was chosen, for Info.Why. It is for whoever chooses: Open of
	// package ports sets it.
	Why string
}

// WithDefaults returns o with the values that its zero fields stand for.
func (o Options) WithDefaults() Options {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.UDPPort, wire.UDPPort)
	set(&o.RecvBuffer, 64<<20)
	set(&o.SendBuffer, 4<<20)
	set(&o.MaxRun, MaxRun)
	set(&o.QueueLen, 1024)
	if o.HopLimit == 0 {
		o.HopLimit = 64
	}
	return o
}
