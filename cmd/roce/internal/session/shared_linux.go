package session

import (
	"context"
	"net/netip"

	"github.com/goroce/goroce/roce/hub"
	"github.com/goroce/goroce/wire"
)

// shared tells whether processes share an address by a hub.
func shared(addr netip.Addr) bool { return hub.Has(context.Background(), addr.String(), wire.UDPPort) }
