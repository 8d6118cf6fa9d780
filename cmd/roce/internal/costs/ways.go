package costs

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/cmd/roce/internal/session"
)

// Table is a list of ways that are measured one after the other.
type Table struct {
	Name  string
	Title string
	Half  bool // half of a round trip is what counts: from the post to the moment it is noticed
	kinds []string
	ways  []way
}

// way is a way to have a message answered. Both ends take it in the same way, so that a round trip
// is twice the same thing and no clocks need to agree.
type way struct {
	Name  string `json:"way"`
	Waits string `json:"waits"` // how an end waits for what comes
	kind  int    // of Table.kinds
	open  func(*side, way) (end, error)

	notice notice // RDMA: how the receiver learns
}

// How an end waits.
const (
	polling = "polling" // it looks again and again, on a processor of its own
	events  = "events"  // it sleeps until something comes
)

// side is what all ends of a run share: the device and the addresses.
type side struct {
	session       *session.Session
	local, remote string // IP addresses
	size          int
	client        bool
	apart         bool // the other end is on this machine
}

// maxDatagram is how many bytes an IPv4 packet has for those behind its own header and that of UDP
// or ICMP. IPv6 has 20 more.
const maxDatagram = 65535 - 20 - 8

// fitsDatagram says why a message cannot be one datagram.
func (s *side) fitsDatagram() error {
	if s.size > maxDatagram {
		return fmt.Errorf("a datagram has %d bytes at most", maxDatagram)
	}
	return nil
}

// end is one side of a way.
type end interface {
	// own is what the peer must know of this end.
	own() place
	// meet connects to the peer's.
	meet(ctx context.Context, peer place) error
	// ask sends question i and waits for the answer; lost says that none came and it may be asked
	// again.
	ask(ctx context.Context, i int) (lost bool, err error)
	// answer answers questions until the context ends, which is no error.
	answer(ctx context.Context) error
	close() error
}

// Sockets are messages over what every machine has, beside messages over RDMA.
var Sockets = Table{Name: "sockets", Title: "a message and its answer", kinds: []string{"kernel alone", "sockets",
	"RDMA"}, ways: []way{
	{Name: "ping (ICMP)", Waits: events, kind: 0, open: openPing},
	{Name: "UDP socket", Waits: events, kind: 1, open: openUDP},
	{Name: "UDP socket", Waits: polling, kind: 1, open: openUDP},
	{Name: "TCP socket", Waits: events, kind: 1, open: openTCP},
	{Name: "TCP socket", Waits: polling, kind: 1, open: openTCP},
	{Name: "SEND/RECV", Waits: events, kind: 2, open: openRDMA, notice: bySend},
	{Name: "SEND/RECV", Waits: polling, kind: 2, open: openRDMA, notice: bySend},
	{Name: "RDMA WRITE with immediate", Waits: events, kind: 2, open: openRDMA, notice: byImmediate},
	{Name: "RDMA WRITE", Waits: polling, kind: 2, open: openRDMA, notice: byMemory},
}}

// Notify are the ways by which the remote side learns of a WRITE.
var Notify = Table{Name: "notify", Title: "from the post of a WRITE until the other side notices", Half: true,
	kinds: []string{"looks at memory", "takes a completion"}, ways: []way{
		{Name: "memory: the last byte", Waits: polling, kind: 0, open: openRDMA, notice: byMemory},
		{Name: "atomic flag behind it", Waits: polling, kind: 0, open: openRDMA, notice: byFlag},
		{Name: "WRITE with immediate", Waits: polling, kind: 1, open: openRDMA, notice: byImmediate},
		{Name: "WRITE with immediate", Waits: events, kind: 1, open: openRDMA, notice: byImmediate},
		{Name: "trailing SEND", Waits: polling, kind: 1, open: openRDMA, notice: byTrailing},
		{Name: "trailing SEND", Waits: events, kind: 1, open: openRDMA, notice: byTrailing},
	}}

// find returns the table of a name, "sockets" or "notify".
func find(name string) (*Table, error) {
	for _, t := range []*Table{&Sockets, &Notify} {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the client measures %q, which this end does not know: is it of the same version?", name)
}
