package doctor

// The record of facts: what was seen, without what it means.

import (
	"net/netip"

	"github.com/goroce/goroce/internal/route"
	"github.com/goroce/goroce/roce"
)

// facts are what is known about the way to a peer.
type facts struct {
	peer netip.Addr

	route   route.Route
	noRoute error // why there is none

	device string // that was opened, or should have been
	noOpen error  // why it could not be; the text names who has the port
	gids   []roce.GID
	linkUp bool
	active roce.MTU // the largest path MTU that the device takes; 0: none is open

	neighbour neighbour
	cut       cut

	// Probes by plain datagrams, which a machine refuses by ICMP when nobody has their port.
	host probe // a small one to a port that nobody has
	full probe // one as long as the route's MTU; silent: small ones behind it were answered
	port probe // to UDP port 4791: a packet for nobody

	cm cmAnswer
}

// neighbour is what the kernel knows of the next hop's Ethernet address.
type neighbour int

const (
	neighbourUnknown neighbour = iota // it was not asked for, or the system does not tell
	neighbourNone                     // the interface has no such thing
	neighbourFound
	neighbourSilent // it was asked for, and nobody has answered
)

// cut says who divides runs of packets that leave as one message (UDP_SEGMENT).
type cut int

const (
	cutUnknown  cut = iota
	cutByKernel     // which counts the Identification up, as the ICRC needs it
	cutByNIC        // of which that is not known
)

// probe is what came of a datagram.
type probe struct {
	answer probeAnswer
	by     netip.Addr // of probeBarred: who says so
	err    error      // of probeBarred and probeFailed
}

// known says whether anything came.
func (p probe) known() bool { return p.answer != probeNone && p.answer != probeSilent }

// arrived says whether it did.
func (p probe) arrived(peer netip.Addr) bool {
	return p.answer == probeRefused || p.answer == probeBarred && p.by == peer.WithZone("")
}

type probeAnswer int

const (
	probeNone    probeAnswer = iota // it was not sent
	probeRefused                    // ICMP: the peer refuses the port. So the packet has arrived.
	probeBarred                     // ICMP: the peer, or somebody on the way, lets it not pass
	probeSilent                     // nothing came
	probeTooLong                    // a packet of this size does not fit the path
	probeFailed                     // it could not be sent
)

// cmAnswer is what came of a connection request for a port that nobody should have.
type cmAnswer struct {
	answer cmKind
	err    error // of cmFailed, and what cmRejected said
}

type cmKind int

const (
	cmNone     cmKind = iota // nobody was asked
	cmRejected               // REJ: a connection manager is there
	cmAccepted               // REP: even somebody who listens there
	cmSilent
	cmFailed // it could not be asked
)
