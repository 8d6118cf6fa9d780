package mr

// The check of one access, as the engine makes it for each packet and each scatter/gather entry:
// key, domain, state, right, range (sections 7.1 to 7.3). All of it is for use inside
// Reader.Enter/Exit, takes no lock and allocates nothing.

// Local checks n bytes at addr under the lkey of a scatter/gather entry: need is LocalWrite when
// bytes will be written there, 0 when they will be read. Windows can not be used locally. n 0 is
// checked like any other length; verbs wants no check at all for empty entries, and it is the
// engine that leaves it out.
func (t *Table) Local(pd PD, lkey uint32, addr uint64, n uint32, need Access) (Span, Status) {
	e := t.lookup(lkey)
	if e == nil || e.kind != kindRegion {
		return Span{}, BadKey
	}
	span, s := e.span(pd, addr, n, need)
	if s == BadRange && e.whole {
		return e.everywhere(addr, n)
	}
	return span, s
}

// Remote checks n bytes at va under an rkey from a packet that arrived for the QP qpn of domain pd;
// need is the right that the operation asks for (RemoteWrite, RemoteRead and so on). The key
// may be a region's or a window's; a window of type 2B obeys only the QP it was bound through.
func (t *Table) Remote(pd PD, qpn uint32, rkey uint32, va uint64, n uint32, need Access) (Span, Status) {
	e := t.lookup(rkey)
	if e == nil {
		return Span{}, BadKey
	}
	if e.kind != kindRegion {
		if s := e.checkWindow(pd, qpn); s != OK {
			return Span{}, s
		}
	}
	span, s := e.span(pd, va, n, need)
	if s == BadRange && e.whole {
		return anywhere(va, n)
	}
	if e.kind == kindBoundWindow && e.window.typ == Window1 {
		span.by = e
	}
	return span, s
}

// RemoteAll is Remote for all bytes that a key opens.
func (t *Table) RemoteAll(pd PD, qpn uint32, rkey uint32, need Access) (Span, Status) {
	all := t.lookup(rkey)
	if all == nil {
		return Span{}, BadKey
	}
	if all.kind != kindRegion {
		if s := all.checkWindow(pd, qpn); s != OK {
			return Span{}, s
		}
	}
	if s := all.allows(pd, need); s != OK {
		return Span{}, s
	}
	if all.whole { // nobody can mean that
		return Span{}, BadRange
	}
	return Span{mem: all.mem}, OK
}

// MappingOf is the memory that a key opens, nil if it opens none. A Span that is checked afterwards
// under the same key is of this mapping, or this mapping is gone.
func (t *Table) MappingOf(key uint32) *Mapping {
	if e := t.lookup(key); e != nil {
		return e.mapping
	}
	return nil
}

// allows holds domain and rights, which regions and windows have alike, against an access.
func (e *entry) allows(pd PD, need Access) Status {
	if e.pd != pd {
		return BadPD
	}
	if e.access&need != need {
		return BadAccess
	}
	return OK
}

// span is the part of the check that regions and windows share.
func (e *entry) span(pd PD, addr uint64, n uint32, need Access) (Span, Status) {
	if s := e.allows(pd, need); s != OK {
		return Span{}, s
	}
	// An address below base wraps to an offset that is larger than any length: registration saw to
	// it that base+length does not wrap. So these two comparisons also cover overflow of addr+n.
	offset, size := addr-e.base, uint64(len(e.mem))
	if offset > size || uint64(n) > size-offset {
		return Span{}, BadRange
	}
	return Span{mem: e.mem[offset : offset+uint64(n) : offset+uint64(n)]}, OK
}

// everywhere is n bytes of a region that has all addresses.
func (e *entry) everywhere(addr uint64, n uint32) (Span, Status) {
	switch {
	case !e.null:
		return anywhere(addr, n)
	case addr+uint64(n) < addr:
		return Span{}, BadRange
	}
	return Span{by: &nowhere}, OK
}

// anywhere is n bytes of the address space of the process.
func anywhere(addr uint64, n uint32) (Span, Status) {
	if addr < lowest || addr+uint64(n) < addr || addr+uint64(n) > highest {
		return Span{}, BadRange
	}
	return Span{mem: bytesAt(addr, n)}, OK
}
