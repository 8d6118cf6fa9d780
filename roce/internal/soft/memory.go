package soft

// What a protection domain holds beside queue pairs: regions, windows and address handles.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/pin"
	"github.com/goroce/goroce/roce/internal/storage"
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
	if access&mr.FlushPersistent != 0 && !storage.Works {
		return nil, fmt.Errorf("FLUSH to storage: %w on this system", errors.ErrUnsupported)
	}
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

// MW is a memory window.
type MW struct {
	*mr.Window
	dev *Device

	binds  sync.Mutex    // of type 1: one at a time chooses a key
	posted atomic.Uint32 // type 1: the key of the last bind
}

// AllocMW makes a window.
func (p *PD) AllocMW(typ mr.WindowType) (*MW, error) {
	w, err := p.dev.mem.AllocWindow(p.handle, typ)
	if err != nil {
		return nil, err
	}
	mw := &MW{Window: w, dev: p.dev}
	mw.posted.Store(w.RKey())
	return mw, nil
}

// RKey is the present key: of type 1 that of the last bind that was posted, of type 2 that of the
// last one that was executed.
func (w *MW) RKey() uint32 {
	if w.Type() == mr.Window1 {
		return w.posted.Load()
	}
	return w.Window.RKey()
}

// Bind posts a bind of a window of type 1 to a queue pair of its domain, under the next key.
func (w *MW) Bind(q *QP, wrid uint64, flags qp.SendFlags, b qp.BindInfo) error {
	if w.Type() != mr.Window1 {
		return fmt.Errorf("%w: the window is of type 2, which WRBindMW binds", qp.ErrInvalid)
	}
	w.binds.Lock()
	defer w.binds.Unlock()
	b.WindowKey = w.posted.Load()
	b.NewKey = b.WindowKey&^0xff | (b.WindowKey+1)&0xff
	if err := q.bindMW(wrid, flags, b); err != nil {
		return err
	}
	w.posted.Store(b.NewKey)
	return nil
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
