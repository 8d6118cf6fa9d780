package transport

import (
	"context"
	"time"

	"github.com/goroce/goroce/wire"
)

// Resolver is a port that must find out a neighbour's link address before it can send to it. Send does so by itself, but
// drops frames until the answer has come; with Resolve a connection starts without that loss.
type Resolver interface {
	// Resolve waits until frames to dst can be sent, at most for the timeout or until ctx ends. The
	// error says why they can not, or is ctx's. It may be called from any goroutine.
	Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error
}

// Resolve resolves dst if p is a Resolver. Other ports are ready to send at once.
func Resolve(ctx context.Context, p Port, dst wire.GID, timeout time.Duration) error {
	if r, ok := p.(Resolver); ok {
		return r.Resolve(ctx, dst, timeout)
	}
	return nil
}
