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

	mu  sync.Mutex // calls that change it
	buf []byte     // what is pinned, if the device pins
}

// RegMR registers buf under the address iova with the given rights.
func (p *PD) RegMR(buf []byte, iova uint64, access mr.Access) (*MR, error) {
	d := p.dev
	if err := d.supports(access); err != nil {
		return nil, err
	}
	if err := d.pin(buf); err != nil {
		return nil, err
	}
	region, err := d.mem.Register(p.handle, buf, iova, access)
	if err != nil {
		d.unpin(buf)
		return nil, err
	}
	return &MR{Region: region, dev: d, buf: buf}, nil
}

// RegAll registers the address space of the process. Nothing of it is pinned.
func (p *PD) RegAll(access mr.Access) (*MR, error) {
	if err := p.dev.supports(access); err != nil {
		return nil, err
	}
	region, err := p.dev.mem.RegisterAll(p.handle, access)
	if err != nil {
		return nil, err
	}
	return &MR{Region: region, dev: p.dev}, nil
}

// AllocNullMR makes a region where nothing is: what is read there is zeros.
func (p *PD) AllocNullMR() (*MR, error) {
	region, err := p.dev.mem.RegisterNull(p.handle)
	if err != nil {
		return nil, err
	}
	return &MR{Region: region, dev: p.dev}, nil
}

// supports is an error if the device cannot do what a right promises.
func (d *Device) supports(access mr.Access) error {
	if access&mr.FlushPersistent != 0 && !storage.Works {
		return fmt.Errorf("FLUSH to storage: %w on this system", errors.ErrUnsupported)
	}
	return nil
}

// pin keeps memory from being paged out, if the device does that.
func (d *Device) pin(buf []byte) error {
	if !d.cfg.PinMemory {
		return nil
	}
	err := pin.Lock(buf)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", qp.ErrLimit, err)
	}
	return err
}

// unpin undoes pin.
func (d *Device) unpin(buf []byte) {
	if d.cfg.PinMemory {
		pin.Unlock(buf)
	}
}

// Rereg changes what c names; pd, buf and iova, and access mean something only then. If it fails
// nothing has changed.
func (m *MR) Rereg(c mr.Change, pd *PD, buf []byte, iova uint64, access mr.Access) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, to := m.dev, mr.Registration{Mem: buf, IOVA: iova, Access: access}
	if c&mr.ChangePD != 0 {
		to.PD = pd.handle
	}
	if c&mr.ChangeAccess != 0 {
		if err := d.supports(access); err != nil {
			return err
		}
	}
	moves := c&mr.ChangeTranslation != 0
	if moves {
		if err := d.pin(buf); err != nil {
			return err
		}
	}
	err := d.mem.Reregister(m.Region, c, to)
	switch {
	case moves && err != nil:
		d.unpin(buf)
	case moves:
		d.unpin(m.buf)
		m.buf = buf
	}
	return err
}

// Close deregisters the region. When it returns, no lane touches the memory any more.
func (m *MR) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.dev.mem.Deregister(m.Region); err != nil {
		return err
	}
	m.dev.unpin(m.buf)
	return nil
}

// MW is a memory window.
type MW struct {
	*mr.Window
	dev *Device

	binds  sync.Mutex    // of type 1: one at a time chooses a key
	serial uint32        // of the last of them
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
	b.NewKey = mr.IncRKey(b.WindowKey)
	if err := q.bindMW(wrid, flags, b, w.serial+1); err != nil {
		return err
	}
	w.serial++
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
