package mr

// Registering again (ibv_rereg_mr): a region gets other memory, another domain, other rights, in
// one step: no lane sees a mixture, and who may still use what was before has left its turn when
// the call returns.
//
// What changes the memory or the domain changes the key, too: a peer that was given the old one has
// not been given what is there now.

import "fmt"

// Change is a set of what Reregister changes (ibv_rereg_mr_flags).
type Change uint8

// What can be changed.
const (
	ChangeTranslation Change = 1 << 0 // memory, and the address of its first byte
	ChangePD          Change = 1 << 1
	ChangeAccess      Change = 1 << 2

	allChanges = ChangeTranslation | ChangePD | ChangeAccess
)

// Registration is what a region is made of.
type Registration struct {
	PD     PD
	Mem    []byte
	IOVA   uint64 // the address that keys use for the first byte
	Access Access
}

// Reregister changes what c names of r to what to says; the rest of to means nothing. It must not
// be called from inside a lane's turn, which it would wait for. The error is ErrInvalid for a
// broken rule of registration, an empty or unknown c, or a region that was deregistered; ErrBusy
// while windows are bound to it. Then nothing has changed.
func (t *Table) Reregister(r *Region, c Change, to Registration) error {
	if err := t.reregister(r, c, to); err != nil {
		return fmt.Errorf("mr: register key %#08x again: %w", r.LKey(), err)
	}
	t.quiesce()
	return nil
}

func (t *Table) reregister(r *Region, c Change, to Registration) error {
	if c == 0 || c&^allChanges != 0 {
		return fmt.Errorf("changes %#x: want a set of 1, 2 and 4: %w", uint8(c), ErrInvalid)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := r.entry
	if err := t.checkIdle(r); err != nil {
		return err
	}
	if old.null {
		return fmt.Errorf("a null region has neither memory nor rights to change: %w", ErrInvalid)
	}
	e := &entry{
		key:     old.key,
		pd:      old.pd,
		kind:    kindRegion,
		access:  old.access,
		base:    old.base,
		mem:     old.mem,
		whole:   old.whole,
		mapping: old.mapping,
		region:  r,
	}
	if c&ChangePD != 0 {
		e.pd = to.PD
	}
	if c&ChangeTranslation != 0 {
		e.mem, e.base, e.whole = to.Mem, to.IOVA, false
		e.mapping = new(Mapping)
	}
	if c&ChangeAccess != 0 {
		e.access = to.Access
	}
	if (e.access^old.access)&ZeroBased != 0 && c&ChangeTranslation == 0 {
		return fmt.Errorf("access %v: ZeroBased changes addresses, and only ChangeTranslation does that: %w",
			to.Access, ErrInvalid)
	}
	if err := checkRegister(e); err != nil {
		return err
	}
	use, err := t.use(e.pd)
	if err != nil {
		return err
	}
	t.pds[old.pd].regions--
	use.regions++
	if c == ChangeAccess {
		t.slots.Load().slot(e.key).Store(e)
	} else {
		t.insert(e)
		t.remove(old)
	}
	r.means(e)
	if e.mapping != old.mapping {
		old.mapping.gone.Store(true)
	}
	return nil
}
