package wire

import "testing"

// TestNoAllocation holds the promise of the data path, for both IP versions and with an
// Identification to solve for.
func TestNoAllocation(t *testing.T) { everyWay(t, testNoAllocation) }

func testNoAllocation(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := testPath(t, v6)
		b := NewBatch(4, 2048)
		b.MaxRun(4)
		f := sealed(t, v6, 1024, 0)
		small := sealed(t, v6, 8, 0)
		hidden := sealed(t, v6, 1024, 0xbeef)
		hidden.Flags = FrameSynthHead
		if h := hidden.IPv4(); h != nil {
			h.SetIdentification(0)
		}
		pkt := AppendFrame(nil, f)
		var head [HeadMax]byte
		for name, work := range map[string]func(){
			"Parse": func() {
				var p Packet
				if Parse(f, &p) != DropNone || p.RETH() != nil {
					t.Error("Parse")
				}
			},
			"Seal":    func() { Seal(f); Seal(small) },
			"Verify":  func() { mustVerify(t, f); mustVerify(t, small); mustVerify(t, hidden) },
			"PutHead": func() { p.PutHead(head[:], 100, 7) },
			"Batch": func() {
				for b.Reserve(p, 1000) != nil {
				}
				b.Undo()
				b.Append(small)
				b.Run(0)
				b.Drop(1)
				b.Reset()
			},
			"SplitFrame": func() {
				if g, drop := SplitFrame(pkt); drop != DropNone || g.Src().IsZero() {
					t.Error("SplitFrame")
				}
			},
		} {
			if n := testing.AllocsPerRun(200, work); n != 0 {
				t.Errorf("%s (IPv6 %v): %v allocations", name, v6, n)
			}
		}
	}
}

func mustVerify(t *testing.T, f *Frame) {
	if !Verify(f) {
		t.Error("Verify")
	}
}

// TestNoAllocationOnStack: frames whose bytes are on the stack stay there as far as HeadCRC is
// concerned.
func TestNoAllocationOnStack(t *testing.T) {
	p := testPath(t, false)
	if n := testing.AllocsPerRun(200, func() {
		var head [Head4Len]byte
		var bth BTH
		p.PutHead(head[:], 16, 0)
		bth.Put(RCAcknowledge, 0, 0, DefaultPKey, 1, 2)
		HeadCRC(head[:], &bth)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
