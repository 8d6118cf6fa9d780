package roce

// The protection domain: regions, windows, address handles and queue pairs of one domain work
// together and with no others.

import (
	"context"
	"fmt"
	"slices"

	"github.com/goroce/goroce/qp"
)

// PD is a protection domain (ibv_pd). All methods may be called from any goroutine.
type PD struct {
	dev *Device
	pd  pdProvider
}

func (p *PD) kind() string    { return "PD" }
func (p *PD) label() string   { return "" }
func (p *PD) needs() []object { return nil }

// Device returns the device that the domain is on.
func (p *PD) Device() *Device { return p.dev }

// create runs f, which makes something in the domain, unless the domain is closed.
func (p *PD) create(op string, f func() error) error {
	return p.alone(op, func() error {
		if err := p.dev.faults.verb(op); err != nil {
			return err
		}
		return f()
	})
}

// alone runs f, a step of creating, while nothing else is made or closed, unless the domain is
// closed.
func (p *PD) alone(op string, f func() error) error {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.objects.has(p) {
		return d.fail(op, fmt.Errorf("PD: %w", ErrClosed))
	}
	return d.fail(op, f())
}

// createSlowly is create for what may take long: f runs without the lock, while something of its
// kind keeps the domain and the device from being closed.
func (p *PD) createSlowly(op, kind string, f func() (object, error)) error {
	objects, now := p.dev.objects, &underway{what: kind, pd: p}
	if err := p.create(op, func() error { objects.add(now); return nil }); err != nil {
		return err
	}
	x, err := f()
	return p.alone(op, func() error {
		objects.remove(now)
		if err == nil {
			objects.add(x)
		}
		return err
	})
}

// underway stands in the list of objects for what is being made.
type underway struct {
	what string
	pd   *PD
}

func (u *underway) kind() string    { return u.what }
func (u *underway) label() string   { return "" }
func (u *underway) needs() []object { return []object{u.pd} }

// Close frees the domain (ibv_dealloc_pd). While queue pairs, regions, windows or address handles
// of it exist the error is ErrBusy and says which. A second Close does nothing.
func (p *PD) Close() error { return p.dev.destroy(p, p.pd.close) }

// CreateAH makes an address handle for datagrams (ibv_create_ah): put it into SendWR.AH of UD queue
// pairs of this domain. ErrInvalid names the attribute that is wrong. As QP.Modify it waits until
// the port can send to the destination, at most 2 s or until ctx ends; ErrUnreachable if it can
// not.
func (p *PD) CreateAH(ctx context.Context, attr AHAttr) (ah *AH, err error) {
	err = p.createSlowly("CreateAH", "AH", func() (object, error) {
		ah, err = p.pd.createAH(ctx, attr)
		return handle{ah, p}, err
	})
	if err != nil {
		return nil, err
	}
	return ah, nil
}

// CreateAHFromWC makes the address handle that answers a datagram (ibv_create_ah_from_wc): wc is
// its completion and grh the first GRHSize bytes of its receive buffer. The answer goes to
// wc.SrcQP.
func (p *PD) CreateAHFromWC(ctx context.Context, wc *WC, grh []byte) (*AH, error) {
	attr, err := AHAttrFromWC(wc, grh)
	if err != nil {
		return nil, p.dev.fail("CreateAHFromWC", err)
	}
	attr.SGIDIndex = p.dev.rowFor(attr.DGID, grh)
	return p.CreateAH(ctx, attr)
}

// rowFor is the row of the GID table to answer a datagram from: that of the address to which it was
// sent; or, if that is a group's, the first from where dst can be reached, as far as can be known
// from the two: of the same version, and link-local if the other is.
func (d *Device) rowFor(dst GID, grh []byte) uint8 {
	gids := d.provider.gids()
	if to, ok := qp.GRHDestination(grh); ok && !to.IsZero() {
		if i := slices.Index(gids, to); i >= 0 {
			return uint8(i)
		}
	}
	for _, exact := range []bool{true, false} {
		for i, g := range gids {
			alike := g.Addr().IsLinkLocalUnicast() == dst.Addr().IsLinkLocalUnicast()
			if !g.IsZero() && g.Is4() == dst.Is4() && (alike || !exact) {
				return uint8(i)
			}
		}
	}
	return 0
}

// AHAttrFromWC returns the address vector that answers a datagram (ibv_init_ah_from_wc), as
// CreateAHFromWC uses it. ErrInvalid if wc is no completion of a received datagram, or grh holds no
// header of RoCEv2. SGIDIndex is 0: the row of the address to which it was sent only CreateAHFromWC
// knows.
func AHAttrFromWC(wc *WC, grh []byte) (AHAttr, error) {
	if wc == nil || wc.Flags&WCGRH == 0 {
		return AHAttr{}, fmt.Errorf("%w: a completion without WCGRH says nothing of its sender", ErrInvalid)
	}
	return qp.AHFromGRH(grh)
}

// DestroyAH ends an address handle (ibv_destroy_ah). Requests posted with it and not sent yet fail
// with WCLocQPOpErr. ErrInvalid if it is not of this domain, or destroyed already.
func (p *PD) DestroyAH(ah *AH) error {
	return p.create("DestroyAH", func() error {
		if !p.dev.objects.has(handle{ah, p}) {
			return fmt.Errorf("%w: the address handle is not of this PD, or destroyed", ErrInvalid)
		}
		p.dev.objects.remove(handle{ah, p})
		return p.pd.destroyAH(ah)
	})
}

// handle is an address handle in the list of objects.
type handle struct {
	ah *AH
	pd *PD
}

func (h handle) kind() string    { return "AH" }
func (h handle) label() string   { return "" }
func (h handle) needs() []object { return []object{h.pd} }
