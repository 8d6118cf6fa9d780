package stream

// Memory that is written directly: entries that this end tells the other of, and those that it was
// told (section 4.4).

import (
	"fmt"
	"slices"
)

// maps are the tables of both ends.
type maps struct {
	theirs []Map // what the other end has told of
	ours   []our // the entries of the other end's table
}

// our is an entry of the other end's table: whether it leads to memory of this end, by which key.
type our struct {
	told bool
	key  uint32
}

// mapped is told that the other end has written an entry.
func (e *End) mapped(index uint32) error {
	if int(index) >= len(e.theirs) {
		return fmt.Errorf("%w: entry %d of an iomap table of %d", ErrProtocol, index, len(e.theirs))
	}
	e.seq16++
	e.theirs[index] = readMap(e.order, e.cfg.Tables[Entries*SGESize+int(index)*MapSize:])
	return nil
}

// MapsLeft is how many more entries the other end takes.
func (e *End) MapsLeft() (n int) {
	for _, o := range e.ours {
		if !o.told {
			n++
		}
	}
	return n
}

// Tell makes the message that tells the other end of memory of this one. false: it has to wait.
func (e *End) Tell(m Map, r *Request) bool {
	at := slices.IndexFunc(e.ours, func(o our) bool { return !o.told })
	if !e.canSendMessage() || at < 0 {
		return false
	}
	*r = Request{From: -1, HasImm: true, Imm: opIOMap.with(uint32(at)), RKey: e.peerSGL.Key}
	r.To = e.peerSGL.Addr + uint64(e.peerSGL.Length)*SGESize + uint64(at)*MapSize
	m.put(e.peer, r.entry[:])
	r.Inline = r.entry[:]
	e.ours[at] = our{true, m.Key}
	e.count()
	r.sign(e, e.due())
	return true
}

// Untell says that the memory of a key is no more. The other end, which is not told, has entries
// that lead nowhere until others are written there.
func (e *End) Untell(key uint32) {
	for i, o := range e.ours {
		if o.key == key {
			e.ours[i] = our{}
		}
	}
}

// Find says where the byte at an offset is, and how many follow it in the same piece of memory; 0
// bytes if the other end has told of no such offset.
func (e *End) Find(offset uint64) SGE {
	for _, m := range e.theirs {
		if offset >= m.Offset && offset-m.Offset < uint64(m.Length) {
			into := uint32(offset - m.Offset)
			return SGE{m.Addr + uint64(into), m.Key, m.Length - into}
		}
	}
	return SGE{}
}

// CanSendAt says whether SendAt would write something of so many bytes.
func (e *End) CanSendAt(want int) bool { return e.CanWriteAt() && e.hasBuffer(want) }

// SendAt is WriteAt from the send buffer, to which the caller copies the bytes before it posts r.
func (e *End) SendAt(offset uint64, want int, r *Request) int {
	at := e.Find(offset)
	if !e.CanSendAt(want) || at.Length == 0 {
		return 0
	}
	n := min(want, e.free, int(min(at.Length, MaxTransfer)))
	*r = Request{From: e.buffer(n), Length: n, To: at.Addr, RKey: at.Key}
	e.countDirect()
	r.sign(e, e.due())
	return n
}

// CanWriteAt says whether WriteAt would write.
func (e *End) CanWriteAt() bool { return e.state.MayWrite() && e.slots > 0 }

// WriteAt makes a direct write of up to want bytes of the application's memory to an offset. It
// returns how many: 0 if it has to wait, or the offset is not known (Find).
func (e *End) WriteAt(offset uint64, want int, r *Request) int {
	at := e.Find(offset)
	if !e.CanWriteAt() || at.Length == 0 {
		return 0
	}
	n := min(want, int(min(at.Length, MaxOwn)))
	*r = Request{From: -1, Length: n, To: at.Addr, RKey: at.Key}
	e.countDirect()
	r.sign(e, true)
	return n
}
