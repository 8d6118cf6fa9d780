package roce

// Destinations that the port must find first.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/wire"
)

// askingPort is a port with neighbours to resolve.
type askingPort struct {
	transport.Port
	asked  []GID
	answer func(dst GID) error
}

func (p *askingPort) Resolve(_ context.Context, dst GID, _ time.Duration) error {
	p.asked = append(p.asked, dst)
	return p.answer(dst)
}

func openAsking(t *testing.T) (d *Device, p *askingPort) {
	p = &askingPort{answer: func(GID) error { return nil }}
	d = openDevice(t, "pipe:asking", func(inner transport.Port) transport.Port {
		p.Port = inner
		return capture.Wrap(fault.Wrap(p, fault.Config{}), capture.Func(func(capture.Direction, time.Time, *wire.Frame) {}))
	})
	return d, p
}

func TestResolvesAddressVectors(t *testing.T) {
	for _, typ := range []QPType{RC, UC} {
		d, port := openAsking(t)
		e := newEnd(t, d, typ, 64)
		remote := Endpoint{GID: d.GIDs()[0], QPN: 77}
		// While the port looks for the neighbour, the queue pair, its device and its memory work
		// on.
		port.answer = func(dst GID) error {
			other, err := d.AllocPD()
			must(t, err)
			must(t, other.Close())
			if a, err := e.qp.Query(); err != nil || a.State != StateInit {
				t.Errorf("%v: while resolving: %v, %v", typ, a.State, err)
			}
			return nil
		}
		must(t, e.qp.Connect(bg, remote, nil))
		if len(port.asked) != 1 || port.asked[0] != remote.GID {
			t.Errorf("%v: the port was asked for %v", typ, port.asked)
		}
	}
}

func TestUnreachable(t *testing.T) {
	cable := errors.New("nobody answers")
	for _, typ := range []QPType{RC, UC} {
		d, port := openAsking(t)
		e := newEnd(t, d, typ, 64)
		remote := Endpoint{GID: d.GIDs()[0], QPN: 77}
		port.answer = func(GID) error { return cable }
		if err := e.qp.Connect(bg, remote, nil); !errors.Is(err, ErrUnreachable) || !errors.Is(err, cable) || e.qp.State() != StateInit {
			t.Errorf("%v: %v in %v", typ, err, e.qp.State())
		}
		port.answer = func(GID) error { return nil }
		must(t, e.qp.Connect(bg, remote, nil))
	}

	d, port := openAsking(t)
	e := newEnd(t, d, UD, 64)
	must(t, e.qp.Activate(1))
	if len(port.asked) > 0 {
		t.Errorf("a UD queue pair goes nowhere, and yet the port was asked for %v", port.asked)
	}
	port.answer = func(GID) error { return cable }
	to := AHAttr{DGID: d.GIDs()[0]}
	if _, err := e.pd.CreateAH(bg, to); !errors.Is(err, ErrUnreachable) || !errors.Is(err, cable) {
		t.Errorf("CreateAH: %v", err)
	}
	port.answer = func(GID) error { return nil }
	ah, err := e.pd.CreateAH(bg, to)
	must(t, err)
	must(t, e.pd.DestroyAH(ah))
}

// What breaks a rule is told at once, as ever, and a closed queue pair is closed.
func TestNothingToResolve(t *testing.T) {
	d, port := openAsking(t)
	e := newEnd(t, d, RC, 64)
	port.answer = func(dst GID) error { return errors.New("asked for " + dst.String()) }
	to := QPAttr{State: StateRTR, AV: AHAttr{DGID: d.GIDs()[0]}, PathMTU: MTU1024}
	// RESET does not go to RTR
	if err := e.qp.Modify(bg, &to, AttrState|AttrAV); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	must(t, e.qp.Init(nil))
	// no destination
	if err := e.qp.Modify(bg, &QPAttr{State: StateRTR}, AttrState|AttrAV); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := e.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState); err != nil {
		t.Error(err)
	}
	if _, err := e.pd.CreateAH(bg, AHAttr{}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestReachEndsWithContext: who waits for a neighbour's answer stops when its context ends, and
// nothing has changed.
func TestReachEndsWithContext(t *testing.T) {
	d := openDevice(t, "pipe:silent", func(p transport.Port) transport.Port { return silentPort{p} })
	e := newEnd(t, d, RC, 8)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err := e.pd.CreateAH(ctx, AHAttr{DGID: d.GIDs()[0]}); !errors.Is(err, context.Canceled) {
		t.Errorf("CreateAH: %v", err)
	}
	if err := e.qp.Connect(ctx, e.qp.Endpoint(), nil); !errors.Is(err, context.Canceled) || e.qp.State() != StateInit {
		t.Errorf("Connect: %v, in %v", err, e.qp.State())
	}
}

// silentPort is one whose neighbours never answer.
type silentPort struct{ transport.Port }

func (silentPort) Resolve(ctx context.Context, _ GID, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestCloseWhileUnderWay: while a call waits for a neighbour's answer its domain and device cannot
// be closed under it, and afterwards they can.
func TestCloseWhileUnderWay(t *testing.T) {
	asked := make(chan struct{})
	d, err := Open("pipe:underway", &Config{Wrap: func(p transport.Port) transport.Port { return waitingPort{p, asked} }})
	must(t, err)
	pd, err := d.AllocPD()
	must(t, err)
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error)
	go func() {
		_, err := pd.CreateAH(ctx, AHAttr{DGID: d.GIDs()[0]})
		ended <- err
	}()
	<-asked
	refused(t, pd.Close(), ErrBusy, "1 AH")
	refused(t, d.Close(), ErrBusy, "1 AH, 1 PD")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("CreateAH: %v", err)
	}
	must(t, pd.Close())
	must(t, d.Close())
	_, err = pd.CreateAH(bg, AHAttr{})
	refused(t, err, ErrClosed)
	_, err = pd.RegMR(nil, LocalWrite)
	refused(t, err, ErrClosed)
}

// waitingPort says that it is asked, and waits.
type waitingPort struct {
	transport.Port
	asked chan struct{}
}

func (p waitingPort) Resolve(ctx context.Context, _ GID, _ time.Duration) error {
	close(p.asked)
	<-ctx.Done()
	return ctx.Err()
}
