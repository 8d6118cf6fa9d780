package rsocket

// What the stream costs above the verbs below it: throughput beside RDMA WRITE, latency beside
// SEND, between two devices of this process.

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// BenchmarkStream is how fast bytes go one way.
func BenchmarkStream(b *testing.B) {
	for _, cfg := range []Config{{Polling: true}, {}} {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("polling=%v/size=%d", cfg.Polling, size), func(b *testing.B) {
				from, to := connected(b, "udp", &cfg)
				b.SetBytes(int64(size))
				done := make(chan error)
				go func() {
					_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{to}, make([]byte, size))
					done <- err
				}()
				p := make([]byte, size)
				for b.Loop() {
					_, err := from.Write(p)
					require.NoError(b, err)
				}
				require.NoError(b, from.CloseWrite())
				require.NoError(b, <-done)
			})
		}
	}
}

// BenchmarkWrite is RDMA WRITE of the same.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			from, to := connected(b, "udp", &Config{Polling: true, SendBuffer: 1 << 20, ReceiveBuffer: 1 << 20})
			b.SetBytes(int64(size))
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() { // polls, as the reader of a stream does
				for ctx.Err() == nil {
					to.cq.Poll(to.wait.wcs[:])
				}
				close(done)
			}()
			under := 0
			for b.Loop() {
				for ; under >= max(1<<18/size, 2); under -= poll(b, from) {
				}
				require.NoError(b, from.qp.PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled,
					SGL: []roce.SGE{from.own.SGE(0, size)}, RemoteAddr: to.exposed.Addr(), RKey: to.exposed.RKey()}))
				under++
			}
			for ; under > 0; under -= poll(b, from) {
			}
			stop()
			<-done
		})
	}
}

// poll takes completions of sends.
func poll(b *testing.B, c *Conn) (n int) {
	k, err := c.cq.Poll(c.wait.wcs[:])
	require.NoError(b, err)
	for _, wc := range c.wait.wcs[:k] {
		require.Equal(b, roce.WCSuccess, wc.Status)
		if wc.WRID&receiveID == 0 {
			n++
		}
	}
	return n
}

// BenchmarkLatency is half a round trip of a small message on the stream.
func BenchmarkLatency(b *testing.B) {
	for _, polling := range []bool{true, false} {
		b.Run(fmt.Sprintf("polling=%v", polling), func(b *testing.B) {
			from, to := connected(b, "udp", &Config{Polling: polling})
			go func() {
				p := make([]byte, 64)
				for {
					n, err := to.Read(p)
					if err != nil {
						return
					}
					to.Write(p[:n])
				}
			}()
			p := make([]byte, 64)
			for i := 0; b.Loop(); i++ {
				if i%2 == 1 { // an iteration is one way
					continue
				}
				_, err := from.Write(p)
				require.NoError(b, err)
				_, err = io.ReadFull(from, p)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkSend is the same with SEND.
func BenchmarkSend(b *testing.B) {
	nameA, nameB := wires["udp"]()
	from, to := newBare(b, open(b, nameA)), newBare(b, open(b, nameB))
	require.NoError(b, from.qp.Connect(context.Background(), to.qp.Endpoint(), nil))
	require.NoError(b, to.qp.Connect(context.Background(), from.qp.Endpoint(), nil))
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		for to.receive(ctx) {
			to.send()
		}
		close(done)
	}()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			from.send()
			from.receive(ctx)
		}
	}
	stop()
	<-done
}

// bare is a queue pair with 64 bytes.
type bare struct {
	b  *testing.B
	cq *roce.CQ
	qp *roce.QP
	mr *roce.MR
}

func newBare(b *testing.B, dev *roce.Device) *bare {
	pd, err := dev.AllocPD()
	require.NoError(b, err)
	cq, err := dev.CreateCQ(roce.CQInitAttr{CQE: 64})
	require.NoError(b, err)
	qp, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	require.NoError(b, err)
	mr, err := pd.RegMR(make([]byte, 128), roce.LocalWrite)
	require.NoError(b, err)
	b.Cleanup(func() {
		for _, c := range []io.Closer{qp, mr, cq, pd} {
			require.NoError(b, c.Close())
		}
	})
	require.NoError(b, qp.Init(nil))
	e := &bare{b, cq, qp, mr}
	e.post()
	return e
}

func (e *bare) post() {
	require.NoError(e.b, e.qp.PostRecv(roce.RecvWR{WRID: receiveID, SGL: []roce.SGE{e.mr.SGE(0, 64)}}))
}

func (e *bare) send() {
	require.NoError(e.b, e.qp.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: []roce.SGE{e.mr.SGE(64, 64)}}))
}

// receive waits for a message, and says whether one came before ctx ended.
func (e *bare) receive(ctx context.Context) bool {
	var wcs [8]roce.WC
	for ctx.Err() == nil {
		n, err := e.cq.Poll(wcs[:])
		require.NoError(e.b, err)
		came := false
		for _, wc := range wcs[:n] {
			came = came || wc.WRID&receiveID != 0
		}
		if came {
			e.post()
			return true
		}
	}
	return false
}

// BenchmarkDial is a connection that is set up, and closed by the side that has taken it.
func BenchmarkDial(b *testing.B) {
	l, d := listening(b, "udp")
	keep, err := d.Dial(b.Context(), l.Addr().String())
	require.NoError(b, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		first, err := l.Accept()
		for err == nil {
			var c net.Conn
			if c, err = l.Accept(); err == nil {
				c.Close()
			}
		}
		first.Close()
	}()
	b.ReportAllocs()
	for b.Loop() {
		c, err := d.Dial(b.Context(), l.Addr().String())
		require.NoError(b, err)
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(b, err, io.EOF)
		require.NoError(b, c.Close())
	}
	b.StopTimer()
	require.NoError(b, keep.Close())
	require.NoError(b, l.Close())
	<-over
}
