package wire

import (
	"math/rand/v2"
	"testing"
)

// reserve adds frames of the given body lengths and seals them.
func reserve(t *testing.T, b *Batch, p *Path, bodies ...int) {
	t.Helper()
	for _, n := range bodies {
		f := b.Reserve(p, n)
		if f == nil {
			t.Fatalf("no room for a body of %d bytes", n)
		}
		if len(f.Body) != n || cap(f.Body) != n || len(f.Head) != p.HeadLen() || cap(f.Head) != p.HeadLen() {
			t.Fatalf("frame of %d+%d bytes for a body of %d", len(f.Head), len(f.Body), n)
		}
		Seal(f)
	}
}

// runs returns the lengths of a batch's runs, and checks that the bodies of each are contiguous,
// numbered from first on and sealed.
func runs(t *testing.T, b *Batch) (lengths []int) {
	t.Helper()
	frames := b.Frames()
	for i := 0; i < len(frames); {
		n := b.Run(i)
		total := 0
		for k := range n {
			f := &frames[i+k]
			if k > 0 && &frames[i+k-1].Body[:1][0] == &f.Body[0] {
				t.Fatal("two bodies in one place")
			}
			if h := f.IPv4(); h != nil && int(h.Identification()) != k {
				t.Fatalf("frame %d of a run has Identification %d", k, h.Identification())
			}
			if k > 0 && k < n-1 && len(f.Body) != len(frames[i].Body) || len(f.Body) > len(frames[i].Body) {
				t.Fatalf("frame %d of a run of %d has %d bytes, the first %d", k, n, len(f.Body), len(frames[i].Body))
			}
			if !Verify(f) || f.Src() != frames[i].Src() || f.Dst() != frames[i].Dst() {
				t.Fatalf("frame %d of a run: %s", k, AppendPacket(nil, f))
			}
			total += len(f.Body)
		}
		if total > maxRunBytes {
			t.Fatalf("a run of %d bytes", total)
		}
		whole := arenaOf(b, &frames[i], total)
		at := 0
		for k := range n {
			if &whole[at] != &frames[i+k].Body[0] {
				t.Fatalf("frame %d of a run is not where the one before it ends", k)
			}
			at += len(frames[i+k].Body)
		}
		lengths = append(lengths, n)
		i += n
	}
	return lengths
}

// arenaOf returns the n bytes of the arena that start with a frame's body.
func arenaOf(b *Batch, f *Frame, n int) []byte {
	for at := range b.arena {
		if &b.arena[at] == &f.Body[0] {
			return b.arena[at : at+n]
		}
	}
	return nil
}

func equal(a []int, b ...int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestBatchRuns(t *testing.T) {
	a, sameAsA, c, v6 := testPath(t, false), testPath(t, false), testPath(t, false), testPath(t, true)
	other, err := NewPath(c.Src, c.Dst, 0xc124, 0, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		maxRun int
		fill   func(b *Batch)
		want   []int
	}{
		"default":         {1, func(b *Batch) { reserve(t, b, a, 100, 100, 100) }, []int{1, 1, 1}},
		"equal":           {64, func(b *Batch) { reserve(t, b, a, 100, 100, 100) }, []int{3}},
		"equal paths":     {64, func(b *Batch) { reserve(t, b, a, 100); reserve(t, b, sameAsA, 100) }, []int{2}},
		"other path":      {64, func(b *Batch) { reserve(t, b, a, 100, 100); reserve(t, b, &other, 100) }, []int{2, 1}},
		"one Path reused": {64, func(b *Batch) { p := *a; reserve(t, b, &p, 100); p = other; reserve(t, b, &p, 100) }, []int{1, 1}},
		"IPv6":            {64, func(b *Batch) { reserve(t, b, v6, 100, 100); reserve(t, b, a, 100, 100) }, []int{2, 2}},
		"limit":           {2, func(b *Batch) { reserve(t, b, a, 100, 100, 100, 100, 100) }, []int{2, 2, 1}},
		"shorter ends it": {64, func(b *Batch) { reserve(t, b, a, 100, 100, 60, 60, 60) }, []int{3, 2}},
		"longer starts":   {64, func(b *Batch) { reserve(t, b, a, 60, 100, 100, 104) }, []int{1, 2, 1}},
		"64 KiB":          {64, func(b *Batch) { reserve(t, b, a, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000) }, []int{7, 1}},
		"undone":          {64, func(b *Batch) { reserve(t, b, a, 100, 100, 100); b.Undo(); reserve(t, b, a, 100) }, []int{2, 1}},
		"appended": {64, func(b *Batch) {
			reserve(t, b, a, 100, 100)
			b.Append(&b.Frames()[0])
			reserve(t, b, a, 100)
		}, []int{2, 1, 1}},
		"toward others": {64, func(b *Batch) {
			b.Toward(1)
			reserve(t, b, a, 100, 100)
			b.Toward(2)
			reserve(t, b, a, 100)
			b.Toward(1)
			reserve(t, b, a, 100)
			b.Toward(1)
			reserve(t, b, a, 100)
		}, []int{2, 1, 2}},
		"dropped":     {64, func(b *Batch) { reserve(t, b, a, 80, 100, 100); b.Drop(1) }, []int{2}},
		"dropped all": {64, func(b *Batch) { reserve(t, b, a, 80, 80); b.Drop(2); reserve(t, b, a, 80, 80) }, []int{2}},
	} {
		b := NewBatch(16, 8192)
		b.MaxRun(x.maxRun)
		x.fill(b)
		if got := runs(t, b); !equal(got, x.want...) {
			t.Errorf("%s: runs of %v, want %v", name, got, x.want)
		}
	}
}

func TestBatchRoom(t *testing.T) {
	p := testPath(t, false)
	b := NewBatch(3, 100)
	if b.Full() || !b.Room(300) || b.Room(301) || b.Len() != 0 {
		t.Error("an empty batch")
	}
	reserve(t, b, p, 200, 50)
	if !b.Room(50) || b.Room(51) || b.Reserve(p, 51) != nil || b.Len() != 2 {
		t.Error("50 bytes left")
	}
	reserve(t, b, p, 20)
	if b.Room(16) || !b.Full() || b.Reserve(p, 16) != nil {
		t.Error("three frames of three")
	}
	b.Drop(2)
	if b.Len() != 1 || !b.Full() || len(b.Frames()[0].Body) != 20 {
		t.Error("two of three dropped")
	}
	b.Undo()
	b.Undo() // what was dropped cannot be undone
	if b.Len() != 0 || b.Room(16) && b.first == 0 {
		t.Error("undone what was dropped")
	}
	b.Reset()
	if b.Len() != 0 || !b.Room(300) || b.Full() {
		t.Error("after Reset")
	}
	big := NewBatch(1, 70000)
	if big.Reserve(p, MaxBody+1) != nil || big.Reserve(p, -1) != nil || big.Reserve(p, MaxBody) == nil {
		t.Error("the longest body")
	}
}

func TestBatchAppend(t *testing.T) {
	from, to := NewBatch(2, 100), NewBatch(2, 100)
	from.MaxRun(2)
	reserve(t, from, testPath(t, false), 60, 60)
	for i := range from.Frames() {
		src := &from.Frames()[i]
		f := to.Append(src)
		if f == nil || string(AppendFrame(nil, f)) != string(AppendFrame(nil, src)) || !Verify(f) || &f.Body[0] == &src.Body[0] {
			t.Fatalf("frame %d is no copy", i)
		}
	}
	if to.Append(&from.Frames()[0]) != nil || to.Run(0) != 1 || to.Run(1) != 1 {
		t.Error("append to a full batch, or runs of copies")
	}
}

// noWholeRun says whether the last run has bodies of n bytes, and there is no room for another one
// like it.
func noWholeRun(b *Batch, n int) bool {
	i := len(b.frames) - 1
	count := int(b.index[i]) + 1
	return len(b.frames[i].Body) == n && count == b.maxRun &&
		(cap(b.frames)-i-1 < count || len(b.arena)-b.used < count*n)
}

// TestWholeRuns: a stream fills a batch with whole runs, and leaves what would be a piece of one to
// the next batch; what is not of the stream still goes in.
func TestWholeRuns(t *testing.T) {
	p, other := testPath(t, false), testPath(t, true)
	b := NewBatch(10, 100)
	b.MaxRun(4)
	for i := range 8 {
		if b.Reserve(p, 60) == nil {
			t.Fatalf("frame %d of two runs of 4", i)
		}
	}
	if b.Reserve(p, 60) != nil {
		t.Error("a run of 2 was begun behind runs of 4")
	}
	if b.Reserve(p, 40) == nil || b.Reserve(other, 60) == nil {
		t.Error("there is room for other packets")
	}
	b.Reset()
	if b.Reserve(p, 60) == nil {
		t.Error("an empty batch")
	}
}

// TestBatchRandom does anything in any order; runs checks the rules after each step.
func TestBatchRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	paths := []*Path{testPath(t, false), testPath(t, true), randomPath(t, rnd, false)}
	b := NewBatch(12, 60)
	model := []int{} // body lengths
	for step := range 20000 {
		switch rnd.IntN(12) {
		case 0:
			b.Reset()
			model = model[:0]
		case 1:
			n := rnd.IntN(len(model) + 1)
			b.Drop(n)
			model = model[n:]
		case 2:
			if b.Undo(); len(model) > 0 {
				model = model[:len(model)-1]
			}
		case 3:
			b.MaxRun(1 + rnd.IntN(5))
		default:
			n := MinBody + 4*rnd.IntN(3)
			room := b.Room(n)
			f := b.Reserve(paths[rnd.IntN(8)%3*rnd.IntN(2)], n)
			if (f != nil) != room && !(room && noWholeRun(b, n)) {
				t.Fatalf("step %d: Room %v, Reserve %v", step, room, f)
			}
			if f != nil {
				fill(rnd, f.Body)
				Seal(f)
				model = append(model, n)
			}
		}
		if len(model) != b.Len() {
			t.Fatalf("step %d: %d frames, want %d", step, b.Len(), len(model))
		}
		for i, n := range model {
			if len(b.Frames()[i].Body) != n {
				t.Fatalf("step %d: frame %d has %d bytes, want %d", step, i, len(b.Frames()[i].Body), n)
			}
		}
		if step%7 == 0 && (b.first == 0 || b.index[b.first] == 0) {
			runs(t, b)
		}
	}
}
