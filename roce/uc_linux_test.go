package roce

// Where messages of UC go that do not arrive: UC repeats nothing and slows nobody down, so a sender
// without a break is faster than what the system holds for a receiver.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const floodSize, floods = 64 << 10, 1000

// flood sends messages as ib_send_bw does, 128 under way and 512 receives for them, and then one of
// RC, which arrives behind all of them. It returns how many have arrived.
func flood(t *testing.T, buffer int) (a, b Stats, arrived int) {
	const depth, receives = 128, 512
	name := udpNames()
	open := func(i int) (e *end, uc *QP) {
		// packets one by one: the system counts those that it drops, and not runs of them
		d, err := Open(name(i), &Config{Transport: transport.Options{MaxRun: 1, RecvBuffer: buffer}})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		e = newEnd(t, d, RC, floodSize)
		uc, err = e.pd.CreateQP(QPInitAttr{Type: UC, SendCQ: e.cq, SQSigAll: true,
			Cap: QPCap{MaxSendWR: depth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(t, err)
		t.Cleanup(func() { must(t, uc.Close()) })
		return e, uc
	}
	x, from := open(0)
	y, to := open(1)
	patient := DefaultConnectOptions()
	patient.Timeout = 20 // 4 s: all that waits in front of its packet is to be taken in first
	must(t, x.qp.Connect(bg, y.qp.Endpoint(), &patient))
	must(t, y.qp.Connect(bg, x.qp.Endpoint(), nil))
	must(t, from.Connect(bg, to.Endpoint(), nil))
	must(t, to.Connect(bg, from.Endpoint(), nil))
	receive := RecvWR{SGL: []SGE{y.mr.SGE(0, floodSize)}}
	for range receives {
		must(t, to.PostRecv(receive))
	}
	y.recv(0)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for posted, done := 0, 0; done < floods; done++ {
			for ; posted < floods && posted-done < depth; posted++ {
				if err := from.PostSend(SendWR{Opcode: WRSend, SGL: []SGE{x.mr.SGE(0, floodSize)}}); err != nil {
					t.Error(err)
					return
				}
			}
			x.poll()
		}
		x.post(SendWR{Opcode: WRSend})
		x.poll()
	}()
	for wc := y.poll(); wc.QPN == to.QPN(); wc = y.poll() {
		arrived++
		must(t, to.PostRecv(receive))
	}
	<-sent
	return x.dev.Stats(), y.dev.Stats(), arrived
}

// TestUCFlood: what does not arrive was lost in the receive buffer, which counts it.
func TestUCFlood(t *testing.T) {
	// what an ordinary user is granted, and the default
	for _, buffer := range []int{212992, 64 << 20} {
		t.Run(fmt.Sprint(buffer), func(t *testing.T) {
			a, b, arrived := flood(t, buffer)
			t.Logf("%d of %d messages arrived; of %d packets %d were lost in the receive buffer",
				arrived, floods, a.Port.SendFrames, b.Port.RecvOverflow)
			if buffer < 128*floodSize && b.Port.RecvOverflow == 0 || b.Port.RecvOverflow > 0 && arrived == floods {
				t.Errorf("%d messages arrived: %+v", arrived, b.Port)
			}
			if n := b.Engine.Drops[wire.DropNoRecv] + b.Engine.Drops[wire.DropICRC] + b.Engine.Drops[wire.DropMalformed] +
				b.Port.RecvBad; n > 0 {
				t.Errorf("%d packets were lost elsewhere: %+v", n, b.Engine.Drops)
			}
		})
	}
}
