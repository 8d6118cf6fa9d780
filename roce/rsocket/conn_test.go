package rsocket

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/goroce/goroce/roce"
)

// TestConn: the contract of net.Conn, as golang.org/x/net has it.
func TestConn(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		nameA, nameB := wires[wire]()
		a, b := open(t, nameA), open(t, nameB)
		cfgs := []*Config{{SendBuffer: 4096, ReceiveBuffer: 4096, Depth: 16}, nil, {Polling: true}}
		if testing.Short() {
			cfgs = cfgs[:1]
		}
		for _, cfg := range cfgs {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				c1, c2 := pair(t, a, b, cfg)
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		}
	})
}

// TestStream: bytes arrive in their order, in both directions at once, whatever the sizes of
// buffers and calls.
func TestStream(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire, &Config{SendBuffer: 10000, ReceiveBuffer: 20002, Depth: 40},
			&Config{SendBuffer: 70000, ReceiveBuffer: 5000})
		done := make(chan [32]byte, 2)
		for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
			sum, rng := sha256.New(), rand.New(rand.NewPCG(1, 2))
			go func() {
				for range 300 {
					p := make([]byte, rng.IntN(20000))
					for i := range p {
						p[i] = byte(rng.Uint32())
					}
					sum.Write(p)
					n, err := ends[0].Write(p)
					require.NoError(t, err)
					require.Equal(t, len(p), n)
				}
				require.NoError(t, ends[0].CloseWrite())
			}()
			go func() {
				got := sha256.New()
				_, err := io.CopyBuffer(struct{ io.Writer }{got}, struct{ io.Reader }{ends[1]}, make([]byte, 7777))
				require.NoError(t, err)
				require.Equal(t, sum.Sum(nil), got.Sum(nil))
				done <- [32]byte{}
			}()
		}
		<-done
		<-done
	})
}

// TestHalfClose: who has ended writing still reads, who has ended reading still writes, and what
// comes for it does not hold up the other end.
func TestHalfClose(t *testing.T) {
	a, b := connected(t, "pipe", &Config{ReceiveBuffer: 4096})
	_, err := a.Write([]byte("question"))
	require.NoError(t, err)
	require.NoError(t, a.CloseWrite())
	_, err = a.Write([]byte("more"))
	require.ErrorContains(t, err, "broken pipe")
	all, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "question", string(all))
	_, err = b.Write([]byte("answer"))
	require.NoError(t, err)
	require.NoError(t, b.Close())
	all, err = io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "answer", string(all))

	a, b = connected(t, "pipe", &Config{ReceiveBuffer: 4096})
	require.NoError(t, a.CloseRead())
	_, err = a.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	go func() { // a call that waits takes what comes, and forgets it
		a.Write(bytes.Repeat([]byte("x"), 100_000))
	}()
	_, err = io.CopyN(io.Discard, b, 100_000)
	require.NoError(t, err)
	n, err := b.Write(make([]byte, 100_000)) // no call of a is inside: it is forgotten all the same
	require.NoError(t, err)
	require.Equal(t, 100_000, n)
}

// TestHalfClosedPolling: a connection that polls does so for calls, and not for what is forgotten
// after CloseRead.
func TestHalfClosedPolling(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Polling: true, ReceiveBuffer: 4096, SendBuffer: 4096})
	asleep := func(want bool) {
		for is := !want; is != want; runtime.Gosched() {
			a.mu.Lock()
			is = a.wait.leading && a.wait.asleep
			a.mu.Unlock()
		}
	}
	require.NoError(t, a.CloseRead())
	asleep(true)
	for range 3 {
		done := make(chan error)
		go func() {
			_, err := a.Write(make([]byte, 100_000)) // more than fits
			done <- err
		}()
		asleep(false)
		_, err := io.CopyN(io.Discard, b, 100_000)
		require.NoError(t, err)
		require.NoError(t, <-done)
		asleep(true)
	}
}

// TestBufferInUse: memory that the device reads is not given up.
func TestBufferInUse(t *testing.T) {
	a, b := connected(t, "pipe", &Config{ReceiveBuffer: 4096})
	buf, err := a.Alloc(100_000)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := a.WriteBuffer(buf, 0, 100_000)
		done <- err
	}()
	_, err = b.PeekShared() // it has begun, and is far from its end
	require.NoError(t, err)
	require.ErrorIs(t, buf.Close(), roce.ErrBusy)
	_, err = io.CopyN(io.Discard, b, 100_000)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, buf.Close())
	require.NoError(t, buf.Close())
}

// TestWithoutCopies: the zero-copy ways carry the same bytes.
func TestWithoutCopies(t *testing.T) {
	a, b := connected(t, "udp", &Config{Maps: 2})
	buf, err := a.Alloc(1 << 20)
	require.NoError(t, err)
	rng := rand.NewChaCha8([32]byte{})
	rng.Read(buf.Bytes())
	go func() {
		n, err := a.WriteBuffer(buf, 100, 1<<20-100)
		require.NoError(t, err)
		require.Equal(t, 1<<20-100, n)
		a.CloseWrite()
	}()
	var got bytes.Buffer
	n, err := b.WriteTo(&got)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20-100, n)
	require.True(t, bytes.Equal(buf.Bytes()[100:], got.Bytes()))

	_, err = a.WriteBuffer(buf, 0, 10)
	require.ErrorContains(t, err, "broken pipe")
	_, err = a.WriteBuffer(buf, 1<<20, 1)
	require.ErrorIs(t, err, roce.ErrInvalid)

	go func() {
		n, err := b.ReadFrom(bytes.NewReader(got.Bytes()))
		require.NoError(t, err)
		require.EqualValues(t, got.Len(), n)
		pieces := net.Buffers{[]byte("many "), nil, []byte("small "), []byte("pieces")}
		n, err = b.WriteBuffers(&pieces)
		require.NoError(t, err)
		require.EqualValues(t, 17, n)
		require.Empty(t, pieces)
		b.CloseWrite()
	}()
	var again []byte
	for {
		there, err := a.PeekShared()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		again = append(again, there...)
		n, err := a.Discard(len(there))
		require.NoError(t, err)
		require.Equal(t, len(there), n)
	}
	require.True(t, bytes.Equal(append(got.Bytes(), "many small pieces"...), again))
}

// TestExposed: memory of one application that the other one writes directly.
func TestExposed(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Maps: 2})
	target, err := a.Alloc(1000)
	require.NoError(t, err)
	require.NoError(t, a.Expose(target, 5000))
	_, err = a.Write([]byte("exposed"))
	require.NoError(t, err)
	_, err = io.ReadFull(b, make([]byte, 7))
	require.NoError(t, err)

	source, err := b.Alloc(100)
	require.NoError(t, err)
	copy(source.Bytes(), "written directly")
	_, err = b.WriteBufferAt(source, 0, 16, 5100)
	require.NoError(t, err)
	_, err = b.Write([]byte("!"))
	require.NoError(t, err)
	_, err = a.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, "written directly", string(target.Bytes()[100:116]))

	_, err = b.WriteBufferAt(source, 0, 16, 4999)
	require.ErrorContains(t, err, "not exposed")
	_, err = b.WriteAt([]byte("x"), 4999)
	require.ErrorIs(t, err, roce.ErrInvalid)
	n, err := b.WriteAt(make([]byte, 16), 5990)
	require.ErrorIs(t, err, roce.ErrInvalid)
	require.Equal(t, 10, n, "as many as there is memory for")
	n, err = b.TryWriteAt([]byte("tried it"), 5000)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	require.NoError(t, a.PollUntil(t.Context(), func() bool {
		return atomic.LoadUint64((*uint64)(unsafe.Pointer(&target.Bytes()[0]))) != 0
	}))
	_, err = b.Write([]byte("!"))
	require.NoError(t, err)
	_, err = a.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, "tried it", string(target.Bytes()[:8]))
	require.NoError(t, a.Expose(target, 0))
	require.ErrorIs(t, a.Expose(target, 0), roce.ErrLimit)
}

// TestDirect: what is written directly, from memory that is the caller's again at once, is there
// whole and in order when what was written to the stream behind it is, whatever is exposed in how
// many pieces, and however little room for it the sender has.
func TestDirect(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire, &Config{Maps: 2, SendBuffer: 4096, Depth: 16})
		const half = 100_000
		memory := make([]byte, 2*half) // of the application's own
		for i := range 2 {
			piece, err := a.Register(memory[i*half:][:half])
			require.NoError(t, err)
			require.NoError(t, a.Expose(piece, uint64(i*half)-half)) // of 64 bits: the last, and 0
		}
		_, err := a.Write([]byte("!"))
		require.NoError(t, err)
		_, err = b.Read(make([]byte, 1))
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(1, 1))
		want := make([]byte, 2*half)
		for round := range 20 {
			at, n := rng.IntN(half), rng.IntN(half)
			for i := range n {
				want[at+i] = byte(rng.Uint32())
			}
			for done := 0; done < n; { // in turn all of it, and pieces that do not wait
				var k int
				if round%2 == 0 {
					k, err = b.WriteAt(want[at:][done:n], int64(at+done-half))
				} else if k, err = b.TryWriteAt(want[at:][done:n], int64(at+done-half)); err == syscall.EAGAIN {
					err = nil
				}
				require.NoError(t, err)
				done += k
			}
			_, err = b.Write([]byte("!"))
			require.NoError(t, err)
			_, err = a.Read(make([]byte, 1))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, memory), "round %d", round)
		}
	})
}

// TestUnmapped: memory that is not registered any more is not written: the connection fails.
func TestUnmapped(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Maps: 1})
	memory := make([]byte, 8)
	piece, err := a.Register(memory)
	require.NoError(t, err)
	require.NoError(t, a.Expose(piece, 0))
	_, err = a.Write([]byte("!"))
	require.NoError(t, err)
	_, err = b.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, piece.Close())
	_, err = b.WriteAt([]byte("late"), 0)
	require.NoError(t, err, "it is on its way")
	_, err = b.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Zero(t, memory[0])
}
