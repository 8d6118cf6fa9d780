package soft

// What a protection domain holds beside queue pairs: regions, windows and address handles.

import (
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/pin"
)

// PD is a protection domain. All methods may be called from any goroutine.
type PD struct {
	dev    *Device
	handle mr.PD
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	h, err := d.mem.AllocPD()
	if err != nil {
		return nil, err
	}
	return &PD{dev: d, handle: h}, nil
}

// Close frees the domain.
func (p *PD) Close() error { return p.dev.mem.FreePD(p.handle) }

// MR is a memory region.
type MR struct {
	*mr.Region
	dev *Device
	buf []byte
}

// RegMR registers buf under the address iova with the given rights.
func (p *PD) RegMR(buf []byte, iova uint64, access mr.Access) (*MR, error) {
	d := p.dev
	if d.cfg.PinMemory {
		if err := pin.Lock(buf); err != nil {
			if errors.Is(err, errors.ErrUnsupported) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", qp.ErrLimit, err)
		}
	}
	region, err := d.mem.Register(p.handle, buf, iova, access)
	if err != nil {
		if d.cfg.PinMemory {
			pin.Unlock(buf)
		}
		return nil, err
	}
	return &MR{Region: region, dev: d, buf: buf}, nil
}

// Close deregisters the region. When it returns, no lane touches the memory any more.
func (m *MR) Close() error {
	if err := m.dev.mem.Deregister(m.Region); err != nil {
		return err
	}
	if m.dev.cfg.PinMemory {
		pin.Unlock(m.buf)
	}
	return nil
}

// MW is a memory window of type 2.
type MW struct {
	*mr.Window
	dev *Device
}

// AllocMW makes a window.
func (p *PD) AllocMW() (*MW, error) {
	w, err := p.dev.mem.AllocWindow(p.handle)
	if err != nil {
		return nil, err
	}
	return &MW{Window: w, dev: p.dev}, nil
}

// Close frees the window, bound or not.
func (w *MW) Close() error { return w.dev.mem.DeallocWindow(w.Window) }

// CreateAH makes an address handle that every lane knows, once the port can send to its
// destination.
func (p *PD) CreateAH(ctx context.Context, attr qp.AHAttr) (ah *qp.AH, err error) {
	if err := p.dev.lanes[0].reach(ctx, attr.DGID); err != nil {
		return nil, err
	}
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	err = p.dev.eachLane(func(e *qp.Engine) (err error) {
		if ah != nil {
			return e.AdoptAH(ah)
		}
		ah, err = e.CreateAH(p.handle, attr)
		return err
	})
	if err == nil {
		return ah, nil
	}
	if ah != nil { // some lanes have it
		p.dev.eachLane(func(e *qp.Engine) error { e.DestroyAH(ah); return nil })
	}
	return nil, err
}

// DestroyAH ends an address handle of the domain.
func (p *PD) DestroyAH(ah *qp.AH) error {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	return p.dev.eachLane(func(e *qp.Engine) error { return e.DestroyAH(ah) })
}
