package stream

// What is told the other end beside the data: that there is room again, and that it ends. A few
// such messages may be under way; what is owed beyond that waits for a completion.

// control is what is owed.
type control struct {
	spare   int // control messages that may still be sent
	peerSGL SGE // of the other end: address, key, entries
	owed    owed
	alive   bool // a keepalive is asked for
}

// KeepAlive asks for a sign of life of the other end's device.
func (e *End) KeepAlive() { e.alive = true }

// Owes says whether Control has something to send that waits for a completion, or was not asked
// for.
func (e *End) Owes() bool {
	return !e.state.Over() && (e.control.owed != nothing || e.owesUpdate())
}

// owesUpdate: half of the buffer or half of the credits (section 3.3).
func (e *End) owesUpdate() bool {
	if e.state.Over() || e.state == Closing {
		return false
	}
	return e.read >= e.half || int(e.seq16-e.told) >= e.cfg.Credits/2
}

// Control makes the next control message, if one is owed and may be sent. Call it until it returns
// false.
func (e *End) Control(r *Request) bool {
	if e.spare == 0 || e.state.Over() && (e.state == Failed || e.control.owed != disconnect) {
		return false
	}
	*r = Request{From: -1, HasImm: true}
	kind := controlSent
	switch {
	case e.owesUpdate():
		e.update(r)
	case e.control.owed == shutdown:
		r.Imm = opControl.with(sayShutdown)
		e.control.owed = nothing
	case e.control.owed == disconnect:
		r.Imm, kind = opControl.with(sayDisconnect), disconnectSent
		e.control.owed = nothing
	case e.alive:
		e.alive, r.HasImm = false, false
	default:
		return false
	}
	e.spare--
	r.signAs(e, kind)
	return true
}

// update tells of credits, and of the half that has been read, if one has.
func (e *End) update(r *Request) {
	e.told = e.seq16
	r.Imm = opUpdate.with(uint32(e.seq16) + uint32(e.cfg.Credits))
	if e.read < e.half {
		return
	}
	half := e.cfg.BufferAt
	half.Length = uint32(e.half)
	if e.tell == 0 {
		half.Addr += uint64(e.half)
	}
	e.tell ^= 1
	e.read -= e.half
	e.open += e.half
	half.put(e.peer, r.entry[:])
	r.Inline = r.entry[:SGESize]
	r.To, r.RKey = e.peerSGL.Addr+uint64(e.slot)*SGESize, e.peerSGL.Key
	if e.slot++; e.slot == e.peerSGL.Length {
		e.slot = 0
	}
}
