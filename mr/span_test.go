package mr

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Every alignment and length around the words with which Write ends: exactly the range is written.
func TestSpanWriteAndRead(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 96)
	r := mustRegister(t, tab, pd, buf, 0, LocalWrite)
	src := make([]byte, 64)
	for i := range src {
		src[i] = byte(i + 1)
	}
	for start := range 16 {
		for n := range 48 {
			for off := range uint32(3) {
				clear(buf)
				span, s := tab.Local(pd, r.LKey(), uint64(start), uint32(n)+off, LocalWrite)
				if s != OK {
					t.Fatal(s)
				}
				span.Write(src[:n], off)
				want := make([]byte, len(buf))
				copy(want[start+int(off):], src[:n])
				if !bytes.Equal(buf, want) {
					t.Fatalf("start %d, offset %d, %d bytes:\n%v\n%v", start, off, n, buf, want)
				}
				got := make([]byte, n)
				span.Read(got, off)
				if !bytes.Equal(got, src[:n]) {
					t.Fatalf("start %d, offset %d, %d bytes read back wrong", start, off, n)
				}
			}
		}
	}
}

func TestSpanOutsidePanics(t *testing.T) {
	tab, pd := newTestTable(t)
	r := mustRegister(t, tab, pd, make([]byte, 64), 0, LocalWrite)
	span, _ := tab.Local(pd, r.LKey(), 0, 8, LocalWrite)
	for name, f := range map[string]func(){
		"write beyond": func() { span.Write(make([]byte, 8), 1) },
		"read beyond":  func() { span.Read(make([]byte, 9), 0) },
		"huge offset":  func() { span.Write(make([]byte, 1), ^uint32(0)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestAtomics(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 24)
	r := mustRegister(t, tab, pd, buf, 0, LocalWrite|RemoteWrite|RemoteAtomic)
	span, s := tab.Remote(pd, 0, r.RKey(), 8, 8, RemoteAtomic)
	if s != OK || !span.Aligned8() {
		t.Fatal(s, span.Aligned8())
	}
	word := func() uint64 { return binary.NativeEndian.Uint64(buf[8:]) }
	if orig, _ := span.FetchAdd(5); orig != 0 || word() != 5 {
		t.Fatal(orig, word())
	}
	if orig, _ := span.FetchAdd(^uint64(0)); orig != 5 || word() != 4 { // wraps modulo 2^64
		t.Fatal(orig, word())
	}
	if orig, _ := span.CompareSwap(3, 9); orig != 4 || word() != 4 {
		t.Fatal(orig, word())
	}
	if orig, _ := span.CompareSwap(4, 9); orig != 4 || word() != 9 {
		t.Fatal(orig, word())
	}
	span.Store8([8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	if !bytes.Equal(buf, []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Fatal(buf)
	}
	for _, c := range []struct {
		va   uint64
		n    uint32
		want bool
	}{{0, 8, true}, {8, 16, true}, {4, 8, false}, {0, 7, false}, {0, 0, false}} {
		if span, _ := tab.Remote(pd, 0, r.RKey(), c.va, c.n, 0); span.Aligned8() != c.want {
			t.Errorf("va %d, %d bytes: Aligned8 = %v", c.va, c.n, !c.want)
		}
	}
}

// Atomics by a peer and by the CPU on one word lose nothing.
func TestAtomicsAgainstCPU(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 8)
	r := mustRegister(t, tab, pd, buf, 0, LocalWrite|RemoteAtomic)
	const rounds = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for range rounds {
			atomic.AddUint64(word64(buf), 1)
		}
	})
	wg.Go(func() {
		span, _ := tab.Remote(pd, 0, r.RKey(), 0, 8, RemoteAtomic)
		for range rounds {
			span.FetchAdd(1)
		}
	})
	wg.Go(func() {
		span, _ := tab.Remote(pd, 0, r.RKey(), 0, 8, RemoteAtomic)
		for range rounds {
			for old := uint64(0); ; {
				orig, _ := span.CompareSwap(old, old+1)
				if orig == old {
					break
				}
				old = orig
			}
		}
	})
	wg.Wait()
	if got := binary.NativeEndian.Uint64(buf); got != 3*rounds {
		t.Fatalf("%d, want %d", got, 3*rounds)
	}
}

// An application that polls the last word with an atomic load finds the rest of the write in place.
// Under -race this also shows that the pair is synchronised as the Go memory model asks.
func TestPollLastWord(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 4096)
	r := mustRegister(t, tab, pd, buf, 0, LocalWrite|RemoteWrite)
	const rounds = 500
	var done atomic.Uint64 // rounds that the poller has finished with
	go func() {
		src := make([]byte, len(buf))
		for round := uint64(1); round <= rounds; round++ {
			for i := range src {
				src[i] = byte(round)
			}
			binary.NativeEndian.PutUint64(src[len(src)-8:], round)
			span, _ := tab.Remote(pd, 0, r.RKey(), 0, uint32(len(src)), RemoteWrite)
			span.Write(src, 0)
			for done.Load() < round {
				runtime.Gosched()
			}
		}
	}()
	last := word64(buf[len(buf)-8:])
	for round := uint64(1); round <= rounds; round++ {
		for atomic.LoadUint64(last) != round {
			runtime.Gosched()
		}
		for i := range buf[:len(buf)-8] {
			if buf[i] != byte(round) {
				t.Fatalf("round %d: byte %d is %d when the last word is there", round, i, buf[i])
			}
		}
		done.Store(round)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 4096)
	r := mustRegister(t, tab, pd, buf, 0, LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic)
	reader := tab.NewReader()
	payload := make([]byte, 1024)
	if n := testing.AllocsPerRun(100, func() {
		reader.Enter()
		s, _ := tab.Remote(pd, 1, r.RKey(), 64, 1024, RemoteWrite)
		s.Write(payload, 0)
		s, _ = tab.Local(pd, r.LKey(), 64, 1024, 0)
		s.Read(payload, 0)
		s, _ = tab.Remote(pd, 1, r.RKey(), 8, 8, RemoteAtomic)
		s.FetchAdd(1)
		s.CompareSwap(1, 2)
		s.Store8([8]byte{})
		reader.Exit()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkRemote(b *testing.B) {
	tab, pd := newTestTable(b)
	regions := make([]*Region, 1<<14)
	for i := range regions {
		regions[i] = mustRegister(b, tab, pd, make([]byte, 64), 0, RemoteRead)
	}
	rand.Shuffle(len(regions), func(i, j int) { regions[i], regions[j] = regions[j], regions[i] })
	i := 0
	for b.Loop() {
		if _, s := tab.Remote(pd, 1, regions[i%64].RKey(), 0, 64, RemoteRead); s != OK {
			b.Fatal(s)
		}
		i++
	}
}

func BenchmarkTurn(b *testing.B) {
	tab, _ := newTestTable(b)
	r := tab.NewReader()
	for b.Loop() {
		r.Enter()
		r.Exit()
	}
}

func BenchmarkSpanWrite4K(b *testing.B) {
	tab, pd := newTestTable(b)
	r := mustRegister(b, tab, pd, make([]byte, 4096), 0, LocalWrite)
	span, _ := tab.Local(pd, r.LKey(), 0, 4096, LocalWrite)
	src := make([]byte, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		span.Write(src, 0)
	}
}
