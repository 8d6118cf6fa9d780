package roce

// The protection domain: regions, windows, address handles and queue pairs of one domain work together and with no others.

import (
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
)

// PD is a protection domain (ibv_pd). All methods may be called from any goroutine.
type PD struct {
	dev    *Device
	handle mr.PD
	closed bool // under dev.mu
}

func (p *PD) kind() string   { return "PD" }
func (p *PD) label() string  { return "" }
func (p *PD) needs(any) bool { return false }

// Device returns the device that the domain is on.
func (p *PD) Device() *Device { return p.dev }

// create runs f under the device's control lock unless the domain is closed.
func (p *PD) create(op string, f func() error) error {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed {
		return d.fail(op, fmt.Errorf("PD: %w", ErrClosed))
	}
	return d.fail(op, f())
}

// Close frees the domain (ibv_dealloc_pd). While queue pairs, regions, windows or address handles of it exist the error is
// ErrBusy and says which. A second Close does nothing.
func (p *PD) Close() error {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed {
		return nil
	}
	if err := d.objects.busy("PD", p); err != nil {
		return d.fail("Close", err)
	}
	if err := d.mem.FreePD(p.handle); err != nil {
		return d.fail("Close", err)
	}
	p.closed = true
	d.objects.remove(p)
	return nil
}

// CreateAH makes an address handle for datagrams (ibv_create_ah): put it into SendWR.AH of UD queue pairs of this domain.
// ErrInvalid names the attribute that is wrong. As QP.Modify it waits until the port can send to the destination, at most
// 2 s; ErrUnreachable if it can not.
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	if err := p.dev.lanes[0].reach(attr.DGID); err != nil {
		return nil, p.dev.fail("CreateAH", err)
	}
	var ah *AH
	err := p.create("CreateAH", func() error {
		err := p.dev.eachLane(func(e *qp.Engine) (err error) {
			if ah != nil {
				return e.AdoptAH(ah)
			}
			ah, err = e.CreateAH(p.handle, attr)
			return err
		})
		switch {
		case err == nil:
			p.dev.objects.add(handle{ah, p})
		case ah != nil: // some lanes have it
			p.dev.eachLane(func(e *qp.Engine) error { e.DestroyAH(ah); return nil })
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ah, nil
}

// DestroyAH ends an address handle (ibv_destroy_ah). Requests posted with it and not sent yet fail with WCLocQPOpErr.
// ErrInvalid if it is not of this domain, or destroyed already.
func (p *PD) DestroyAH(ah *AH) error {
	return p.create("DestroyAH", func() error {
		if _, ok := p.dev.objects[handle{ah, p}]; !ok {
			return fmt.Errorf("%w: the address handle is not of this PD, or destroyed", ErrInvalid)
		}
		p.dev.objects.remove(handle{ah, p})
		return p.dev.eachLane(func(e *qp.Engine) error { return e.DestroyAH(ah) })
	})
}

// handle is an address handle in the list of objects.
type handle struct {
	ah *AH
	pd *PD
}

func (h handle) kind() string     { return "AH" }
func (h handle) label() string    { return "" }
func (h handle) needs(x any) bool { return x == any(h.pd) }
