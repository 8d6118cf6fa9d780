package roce

import (
	"testing"
)

// poll polls until there is a completion.
func (e *end) poll() WC {
	var wcs [1]WC
	for {
		n, err := e.cq.Poll(wcs[:])
		if err != nil {
			e.t.Error(err)
			return WC{}
		}
		if n == 1 {
			if wcs[0].Status != WCSuccess {
				e.t.Errorf("%v: %v", wcs[0].Opcode, wcs[0].Status)
			}
			return wcs[0]
		}
	}
}

func BenchmarkPingPong(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			x, y := connected(b, w, RC, 4096)
			x.recv(0, x.mr.SGE(0, 64))
			y.recv(0, y.mr.SGE(0, 64))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range b.N {
					for y.poll().Opcode != WCRecv {
					}
					y.recv(0, y.mr.SGE(0, 64))
					y.post(SendWR{Opcode: WRSend, SGL: []SGE{y.mr.SGE(64, 64)}})
				}
			}()
			b.ResetTimer()
			for range b.N {
				x.post(SendWR{Opcode: WRSend, SGL: []SGE{x.mr.SGE(64, 64)}})
				for x.poll().Opcode != WCRecv {
				}
				x.recv(0, x.mr.SGE(0, 64))
			}
			<-done
		})
	}
}
