package rsocket

// Any call at any time, from several goroutines at both ends, until both are closed: nothing hangs,
// nothing is left behind, and each error is one that a net.Conn has.

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hands are the goroutines at each end.
const hands = 5

// deeds are what a hand may do with its end; every connection has a Buffer.
var deeds = []func(*Conn, *Buffer, *rand.Rand) error{
	func(c *Conn, _ *Buffer, r *rand.Rand) error { _, err := c.Read(make([]byte, r.IntN(9000))); return err },
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.Write(make([]byte, r.IntN(9000)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.WriteBuffers(&net.Buffers{make([]byte, r.IntN(100)), nil, make([]byte, r.IntN(9000))})
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error { return c.SetReadDeadline(soon(r)) },
	func(c *Conn, _ *Buffer, r *rand.Rand) error { return c.SetWriteDeadline(soon(r)) },
	func(c *Conn, _ *Buffer, _ *rand.Rand) error { return c.SetDeadline(time.Time{}) },
	func(c *Conn, b *Buffer, r *rand.Rand) error {
		_, err := c.WriteBuffer(b, r.IntN(10000), r.IntN(10000))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		p, err := c.PeekShared()
		if err == nil {
			c.Discard(r.IntN(len(p) + 1)) // another hand may have taken them
		}
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		return c.SetKeepAlive(time.Duration(r.IntN(1000)) * time.Microsecond)
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error { return seldom(r, c.CloseWrite) },
	func(c *Conn, _ *Buffer, r *rand.Rand) error { return seldom(r, c.CloseRead) },
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		left := r.IntN(5)
		_, err := c.WriteTo(badWriter(func(p []byte) (int, error) {
			if left--; left < 0 {
				return len(p) / 2, io.ErrClosedPipe
			}
			return len(p), nil
		}))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.ReadFrom(io.LimitReader(rand.NewChaCha8([32]byte{}), int64(r.IntN(10000))))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.TryRead(make([]byte, r.IntN(9000)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.TryPeek(make([]byte, r.IntN(9000)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.TryWrite(make([]byte, r.IntN(100)), nil, make([]byte, r.IntN(9000)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.TryWriteAt(make([]byte, r.IntN(9000)), int64(r.IntN(4096)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		_, err := c.WriteAt(make([]byte, r.IntN(9000)), int64(r.IntN(4096)))
		return err
	},
	func(c *Conn, _ *Buffer, r *rand.Rand) error {
		c.Readiness()
		return seldom(r, func() error { _, err := c.FD(); return err })
	},
}

func soon(r *rand.Rand) time.Time {
	return time.Now().Add(time.Duration(r.IntN(2000)-500) * time.Microsecond)
}

func seldom(r *rand.Rand, f func() error) error {
	if r.IntN(20) > 0 {
		return nil
	}
	return f()
}

// expected are the errors of calls on a connection whose ends do as they like.
func expected(err error) bool {
	return isOne(err, nil, io.EOF, io.ErrClosedPipe, os.ErrDeadlineExceeded, syscall.EPIPE, syscall.ECONNRESET,
		syscall.EAGAIN, errNotExposed)
}

func isOne(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(is error) bool { return errors.Is(err, is) })
}

// wasCut says that a deadline has ended the connection, as a device was still reading from a
// Buffer.
func wasCut(ends ...*Conn) bool {
	return slices.ContainsFunc(ends, func(c *Conn) bool {
		return c.end.Err() != nil && strings.Contains(c.end.Err().Error(), "given up")
	})
}

// TestAnyTime: see above.
func TestAnyTime(t *testing.T) {
	nameA, nameB := wires["pipe"]()
	devA, devB := open(t, nameA), open(t, nameB)
	worlds := uint64(200)
	if testing.Short() {
		worlds = 50
	}
	for seed := range worlds {
		rng := rand.New(rand.NewPCG(seed, 7))
		a, b := pair(t, devA, devB, &Config{SendBuffer: 4096, ReceiveBuffer: 4096, Depth: 16 + rng.IntN(20),
			Polling: rng.IntN(4) == 0, Linger: time.Minute})
		var both sync.WaitGroup
		var mu sync.Mutex
		var wrong []error // but of a connection that was cut
		for _, c := range []*Conn{a, b} {
			buf, err := c.Alloc(20000)
			require.NoError(t, err)
			for range hands {
				r := rand.New(rand.NewPCG(rng.Uint64(), 7))
				both.Go(func() {
					for {
						switch err := deeds[r.IntN(len(deeds))](c, buf, r); {
						case errors.Is(err, net.ErrClosed):
							return
						case !expected(err):
							mu.Lock()
							wrong = append(wrong, err)
							mu.Unlock()
						}
					}
				})
			}
			wait := rng.IntN(3000)
			both.Go(func() {
				for range wait {
					runtime.Gosched()
				}
				if err := c.Close(); err != nil {
					mu.Lock()
					wrong = append(wrong, err)
					mu.Unlock()
				}
			})
		}
		both.Wait()
		for _, err := range wrong {
			if !wasCut(a, b) || !isOne(err, syscall.ECONNRESET, syscall.ETIMEDOUT) {
				t.Error("seed ", seed, ": ", err)
			}
		}
	}
}
