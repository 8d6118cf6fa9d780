//go:build unix

package learn

// Memory that is unmapped while it is registered: only a system that has such memory can show it.

import (
	"syscall"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

func init() {
	unmapped.Scenario = func(w *world.World) {
		a, b := connected(w, qp.RC)
		bytes, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return // no memory: the claims say what is missing
		}
		mapping := b.RegMRIn(b.PD, "mapping", bytes, all)
		for i := range 2 {
			wr := a.write(uint64(i+1), 32, b, 0)
			wr.RemoteAddr, wr.RKey = mapping.Addr(0), mapping.RKey()
			_ = a.QP.PostSend(wr)
			w.Run()
			if i == 0 {
				// munmap would leave the addresses to whatever this process maps next
				_ = mapping.Unmap("mprotect(PROT_NONE)", func() error {
					return syscall.Mprotect(bytes, syscall.PROT_NONE)
				})
			}
		}
		finish(w, a, b)
		_ = syscall.Munmap(bytes)
	}
	unmapped.Claims = []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "NAK remote access error"),
		completes("A", qp.WCSuccess, qp.WCRemAccessErr), event("B", qp.EventQPAccessErr),
		holds("B", "mapping", 0, "A", "buf", 0, 32)}
}
