package roce

// What the API costs. Both devices are in this process; over UDP the packets still go through the
// kernel. For figures between two processes, and against other stacks, see the bench directory.

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// poll polls until there is a completion.
func (e *end) poll() WC {
	var wcs [1]WC
	for {
		n, err := e.cq.Poll(wcs[:])
		if err != nil || n == 1 && wcs[0].Status != WCSuccess {
			e.t.Error(err, wcs[0].Status)
			return WC{}
		}
		if n == 1 {
			return wcs[0]
		}
	}
}

// hear arms, polls and waits for an event until there is a completion.
func (e *end) hear(event func(context.Context) (*CQ, error)) WC {
	var wcs [1]WC
	for {
		must(e.t, e.cq.ReqNotify(false))
		n, err := e.cq.Poll(wcs[:])
		must(e.t, err)
		if n == 1 {
			return wcs[0]
		}
		_, err = event(bg)
		must(e.t, err)
		if n, err = e.cq.Poll(wcs[:]); n == 1 {
			return wcs[0]
		}
		must(e.t, err)
	}
}

// BenchmarkPingPong is the round trip of a 64-byte SEND, both sides polling, or both waiting: in
// CQ.Wait, or for an event of their channels, by the channel's Wait, or by its Get, which the
// background has to wake.
func BenchmarkPingPong(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name+"/poll", func(b *testing.B) { pingPong(b, w, (*end).poll) })
		b.Run(w.name+"/wait", func(b *testing.B) { pingPong(b, w, (*end).wait) })
		b.Run(w.name+"/channel", func(b *testing.B) { pingPong(b, w, func(e *end) WC { return e.hear(e.ch.Wait) }) })
		b.Run(w.name+"/get", func(b *testing.B) { pingPong(b, w, func(e *end) WC { return e.hear(e.ch.Get) }) })
	}
}

func pingPong(b *testing.B, w wire2, next func(*end) WC) {
	x, y := connected(b, w, RC, 4096)
	ends := []*end{x, y}
	for _, e := range ends {
		e.recv(0, e.mr.SGE(0, 64))
	}
	turn := func(e *end) {
		for next(e).Opcode != WCRecv {
		}
		e.recv(0, e.mr.SGE(0, 64))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			turn(y)
			y.post(SendWR{Opcode: WRSend, SGL: []SGE{y.mr.SGE(64, 64)}})
		}
	}()
	b.ResetTimer()
	for range b.N {
		x.post(SendWR{Opcode: WRSend, SGL: []SGE{x.mr.SGE(64, 64)}})
		turn(x)
	}
	<-done
}

// BenchmarkVolley is what an 8-byte WRITE costs both its ends without a network between them: one
// goroutine posts it, and runs the stack of the other end until it has arrived. Unlike
// BenchmarkPingPong nobody waits for anybody.
func BenchmarkVolley(b *testing.B) {
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	open := func() *end {
		d, err := Open(segment, &Config{NoBackground: true})
		must(b, err)
		b.Cleanup(func() { must(b, d.Close()) })
		e := newEnd(b, d, RC, 4096)
		must(b, e.qp.Close())
		e.qp, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq}) // not every WRITE has a completion
		must(b, err)
		return e
	}
	x, y := open(), open()
	connect(b, x, y)
	post := []SendWR{{Opcode: WRWrite, Flags: SendInline, Inline: make([]byte, 8)}}
	var wcs [4]WC
	volley := func(i int, x, y *end) {
		post[0].Inline[0], post[0].RemoteAddr, post[0].RKey = byte(i), y.mr.Addr(), y.mr.RKey()
		if post[0].Flags = SendInline; i%32 == 0 {
			post[0].Flags |= SendSignaled
		}
		err := x.qp.PostSend(post...)
		for err == nil && y.buf[0] != byte(i) {
			_, err = y.cq.Poll(wcs[:])
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		volley(i, x, y)
		volley(i, y, x)
	}
}

// BenchmarkRead is the round trip of an 8-byte READ from a target whose application does nothing,
// one right after the other and after pauses, in which the target's background may fall asleep.
func BenchmarkRead(b *testing.B) {
	for _, w := range wires {
		for _, pause := range []time.Duration{0, 40 * time.Microsecond, 300 * time.Microsecond} {
			b.Run(fmt.Sprintf("%s/%v", w.name, pause), func(b *testing.B) {
				x, y := connected(b, w, RC, 64)
				wr := SendWR{Opcode: WRRead, SGL: []SGE{x.mr.SGE(0, 8)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}
				took := time.Duration(0)
				for b.Loop() {
					at := time.Now()
					for time.Since(at) < pause {
					}
					at = time.Now()
					x.post(wr)
					x.poll()
					took += time.Since(at)
				}
				b.ReportMetric(took.Seconds()*1e6/float64(b.N), "us/READ")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkWrite is a stream of WRITEs, up to 64 outstanding, to a target whose application does
// nothing.
func BenchmarkWrite(b *testing.B) {
	for _, w := range wires {
		for _, size := range []int{8, 4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", w.name, size), func(b *testing.B) {
				x, y := connected(b, w, RC, 1<<20)
				wr := SendWR{Opcode: WRWrite, SGL: []SGE{x.mr.SGE(0, size)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}
				b.SetBytes(int64(size))
				var wcs [16]WC
				outstanding := 0
				for b.Loop() {
					for outstanding == 64 {
						n, _ := x.cq.Poll(wcs[:])
						outstanding -= n
					}
					x.post(wr)
					outstanding++
				}
				for ; outstanding > 0; outstanding-- {
					x.poll()
				}
			})
		}
	}
}

// BenchmarkPollEmpty is what a poller pays when there is nothing.
func BenchmarkPollEmpty(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			x, _ := connected(b, w, RC, 64)
			var wcs [1]WC
			for b.Loop() {
				x.cq.Poll(wcs[:])
			}
		})
	}
}

// BenchmarkIdle reports the processor time that two connected devices take per second while nothing
// happens, one of them with an application asleep in Wait.
func BenchmarkIdle(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			x, _ := connected(b, w, RC, 64)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			x.cq.Wait(ctx, make([]WC, 1)) // until all has come to rest
			cancel()
			before := cpuTime()
			ctx, cancel = context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			x.cq.Wait(ctx, make([]WC, 1))
			b.ReportMetric(float64((cpuTime() - before).Microseconds()), "cpu-us/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
