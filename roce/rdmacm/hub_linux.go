package rdmacm

// A device whose process is at a hub (package roce/hub): its queue pair 1 is the hub's, which has
// to know who listens on what.

import (
	"fmt"
	"syscall"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
)

// atHub is the hub's queue pair 1. All methods do nothing of nil.
type atHub struct{ hub.QP1 }

// hubOf is that of a device; nil if it has one of its own.
func hubOf(dev *roce.Device) *atHub {
	if c := hub.Of(dev); c != nil {
		return &atHub{hub.QP1{Client: c}}
	}
	return nil
}

// commID makes communication IDs the process's own; nil: all are.
func (h *atHub) commID() func(uint32) uint32 {
	if h == nil {
		return nil
	}
	return h.CommID
}

// listen has requests for a service come to this process. ErrBusy if another one listens there.
func (h *atHub) listen(service uint64, o *cm.ListenOptions) error {
	if h == nil {
		return nil
	}
	taken, err := h.Listen(hub.Service{ID: service, Address: o.Address, Only: int(o.Only)})
	switch {
	case taken:
		return addressError{fmt.Errorf("%w: %w", ErrBusy, err), syscall.EADDRINUSE}
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}

// unlisten ends that.
func (h *atHub) unlisten(service uint64, o *cm.ListenOptions) {
	if h != nil {
		h.Unlisten(hub.Service{ID: service, Address: o.Address, Only: int(o.Only)})
	}
}
