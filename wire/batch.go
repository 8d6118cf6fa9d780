package wire

// A batch of packets to send: where the engine writes them and a port finds them.
//
//	arena  │ body 0 │ body 1 │ body 2 │ …  back to back, no padding: a run is one contiguous piece
//	heads  │ head 0 . │ head 1 . │ head 2 . │    48-byte slots beside them
//	frames   Head and Body slices into the two
//
// A run is a row of frames to one peer that a port may hand to the kernel as one message for it to
// cut up (UDP_SEGMENT, or a GSO packet): one path, one body length, only the last may be shorter.
// The kernel of the peer may take it as one, too, to where its first frame belongs (Toward).
// The kernel numbers the pieces, so frame i of a run carries IPv4 Identification i, and its ICRC is
// made for that.

// maxRunBytes bounds the bodies of one run: together with a head they are one IP packet.
const maxRunBytes = 65535 - Head4Len

// Batch is filled by one goroutine and emptied by the same: Reserve, fill, Seal, again; then a port
// sends Frames and Drops what it sent; Reset starts over. After NewBatch nothing is allocated.
type Batch struct {
	frames []Frame // all reserved since Reset
	first  int     // frames before this one were dropped
	index  []uint16
	heads  [][HeadMax]byte
	arena  []byte
	used   int
	maxRun int
	toward uint32

	// The run that the next frame may join.
	path     Path // a copy: callers may use one Path for one peer after the other
	runTo    uint32
	runBody  int // body length of its frames; 0: closed
	runCount int
	runBytes int
}

// NewBatch returns an empty batch for maxFrames frames whose bodies are maxBody bytes on average.
// One body may be longer as long as the arena of maxFrames*maxBody bytes has room.
func NewBatch(maxFrames, maxBody int) *Batch {
	return &Batch{
		frames: make([]Frame, 0, maxFrames),
		index:  make([]uint16, maxFrames),
		heads:  make([][HeadMax]byte, maxFrames),
		arena:  make([]byte, maxFrames*maxBody),
		maxRun: 1,
	}
}

// MaxRun sets how many consecutive frames may form a run; 1, the default, makes every frame a run
// of its own with Identification 0. It takes effect with the next frame.
func (b *Batch) MaxRun(n int) {
	b.maxRun = max(n, 1)
	b.runBody = 0
}

// Toward says to whom of those who share the peer's address the next frames go, by any number of
// the caller's: those with different ones are of different runs. 0 at first.
func (b *Batch) Toward(whom uint32) { b.toward = whom }

// Room says whether Reserve would succeed for a body of this length.
func (b *Batch) Room(bodyLen int) bool {
	return len(b.frames) < cap(b.frames) && bodyLen <= len(b.arena)-b.used && uint(bodyLen) <= MaxBody
}

// Full says whether there is no room for even the smallest packet.
func (b *Batch) Full() bool { return !b.Room(MinBody) }

// Reserve adds a frame with a body of bodyLen bytes for the caller to fill and seal. Its head is
// complete. The body holds whatever was there before. It returns nil if the batch is full, or if
// the frame would begin a run that the batch has no room for although it has had it for the run
// before: a few packets cost as much to send as a whole run. The frame stays valid until Reset.
func (b *Batch) Reserve(p *Path, bodyLen int) *Frame {
	if !b.Room(bodyLen) {
		return nil
	}
	i := len(b.frames)
	switch {
	case b.joins(p, bodyLen):
		b.runCount++
		b.runBytes += bodyLen
		if bodyLen < b.runBody {
			b.runBody = 0 // a shorter one ends the run
		}
	case b.goesOn(p, bodyLen) && (cap(b.frames)-i < b.runCount || len(b.arena)-b.used < b.runBytes):
		return nil
	default:
		b.begin(p, bodyLen)
	}
	id := uint16(b.runCount - 1)
	b.index[i] = id
	head := b.heads[i][:]
	n := p.PutHead(head, bodyLen, id)
	return b.push(head[:n:n], bodyLen)
}

// joins says whether a frame may be the next of the current run.
func (b *Batch) joins(p *Path, bodyLen int) bool {
	return b.runBody != 0 && bodyLen <= b.runBody && b.runCount < b.maxRun && b.runBytes+bodyLen <= maxRunBytes &&
		b.toward == b.runTo && p.sameHead(&b.path)
}

// goesOn says whether a frame would be the next of the current run if that were not too long
// already.
func (b *Batch) goesOn(p *Path, bodyLen int) bool {
	return b.runCount > 1 && bodyLen == b.runBody && b.toward == b.runTo && p.sameHead(&b.path)
}

// begin makes a frame the first of a run.
func (b *Batch) begin(p *Path, bodyLen int) {
	b.runBody, b.runCount, b.runBytes = bodyLen, 1, bodyLen
	if b.maxRun > 1 {
		b.path, b.runTo = *p, b.toward
	}
}

// push adds a frame with this head and the next bodyLen bytes of the arena.
func (b *Batch) push(head []byte, bodyLen int) *Frame {
	i, end := len(b.frames), b.used+bodyLen
	b.frames = b.frames[:i+1]
	f := &b.frames[i]
	f.Head = head
	f.Body = b.arena[b.used:end:end]
	f.Flags = 0
	b.used = end
	return f
}

// Append adds a copy of a frame, head and all, as a run of its own. It returns nil if the batch is
// full. It is for what stands between an engine and a port; an IPv4 Identification other than 0 is
// kept.
func (b *Batch) Append(src *Frame) *Frame {
	if !b.Room(len(src.Body)) || len(src.Head) > HeadMax {
		return nil
	}
	i := len(b.frames)
	b.index[i], b.runBody, b.runCount = 0, 0, 0
	n := copy(b.heads[i][:], src.Head)
	f := b.push(b.heads[i][:n:n], len(src.Body))
	copy(f.Body, src.Body)
	f.Flags = src.Flags
	return f
}

// Undo takes back the frame that was reserved last.
func (b *Batch) Undo() {
	i := len(b.frames) - 1
	if i < b.first {
		return
	}
	b.used -= len(b.frames[i].Body)
	b.frames = b.frames[:i]
	b.runBody, b.runCount = 0, 0 // the next frame starts a run
}

// Frames returns the frames in the order they were reserved, without the dropped ones. Valid until
// Reset.
func (b *Batch) Frames() []Frame { return b.frames[b.first:] }

// Len is the number of Frames.
func (b *Batch) Len() int { return len(b.frames) - b.first }

// Run returns how many frames, from Frames()[i] on, are one run: their bodies are contiguous and
// may leave as one message. A port that cannot do that takes frames one by one; what it must not do
// is to send a part of a run as one message that does not start with the run's first frame, because
// the kernel would number it from 0.
func (b *Batch) Run(i int) int {
	at := b.first + i
	n := 1
	for at+n < len(b.frames) && b.index[at+n] == b.index[at]+uint16(n) {
		n++
	}
	return n
}

// Drop forgets the first n frames, which were sent. Their room comes back when all are gone or by
// Reset.
func (b *Batch) Drop(n int) {
	b.first += min(n, b.Len())
	if b.first == len(b.frames) {
		b.Reset()
	}
}

// Reset empties the batch.
func (b *Batch) Reset() {
	b.frames = b.frames[:0]
	b.first, b.used = 0, 0
	b.runBody, b.runCount = 0, 0
}
