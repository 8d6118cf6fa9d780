package wire

import (
	"math/rand/v2"
	"syscall"
	"testing"
)

// TestICRCReadsNothingElse puts heads and bodies against pages that must not be read, before and
// behind.
func TestICRCReadsNothingElse(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		page := syscall.Getpagesize()
		rnd := rand.New(rand.NewPCG(17, 18))
		fenced := func() []byte {
			m, err := syscall.Mmap(-1, 0, 4*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Munmap(m) })
			for _, at := range []int{0, 3 * page} {
				if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
					t.Fatal(err)
				}
			}
			inside := m[page : 3*page]
			fill(rnd, inside)
			return inside
		}
		heads, bodies := fenced(), fenced()
		for n := MinBody; n <= FullBody; n++ {
			for _, head := range []int{Head4Len, Head6Len} {
				first := Frame{Head: heads[:head], Body: bodies[:n]}
				last := Frame{Head: heads[len(heads)-head:], Body: bodies[len(bodies)-n:]}
				checkICRC(t, &first)
				checkICRC(t, &last)
			}
		}
	})
}
