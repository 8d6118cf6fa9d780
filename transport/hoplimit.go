// Hop limits: what few need to know of a packet, and what udp ports have to ask the kernel for, packet by packet.

package transport

// HopLimiter is a port that tells the hop limit (IPv4: TTL) of what it receives only when it is asked to, and 0 before: it costs 2 % of
// a small packet's way. UD queue pairs need it, whose receives begin with it, and who records packets.
type HopLimiter interface {
	// TellHopLimits makes Recv tell them from now on. A second call changes nothing. It may be called from any goroutine.
	TellHopLimits() error
}

// TellHopLimits asks p if it is a HopLimiter. Other ports tell them in any case, or never (udp ports outside Linux).
func TellHopLimits(p Port) error {
	if h, ok := p.(HopLimiter); ok {
		return h.TellHopLimits()
	}
	return nil
}
