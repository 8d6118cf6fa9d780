package rsocket

// What a rail of datagrams does when its device cannot send.

import (
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// TestPacketGoesOn: a datagram that the device cannot send, as its MTU has become smaller, is not
// the last one.
func TestPacketGoesOn(t *testing.T) {
	a, b := packets(t, Config{})
	buf := make([]byte, 100)
	for !a.direct(b.local()) {
		_, err := a.WriteTo([]byte("first"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(buf)
		require.NoError(t, err)
	}
	a.mu.Lock()
	r, d := a.rails[a.local().Addr()], *a.peers[b.local()]
	a.mu.Unlock()
	require.NoError(t, r.qp.PostSend(roce.SendWR{WRID: uint64(<-r.free), Opcode: roce.WRSend, AH: d.ah, RemoteQPN: d.qpn,
		RemoteQKey: rdmacm.UDPQKey, SGL: []roce.SGE{r.sends.SGE(0, r.slot+1)}}))
	for r.qp.State() != roce.StateSQE { // nobody else looks for what has become of it
		runtime.Gosched()
	}
	for came := false; !came; {
		_, err := a.WriteTo([]byte("next"), b.LocalAddr())
		require.NoError(t, err)
		n, _, err := b.TryReadFrom(buf)
		came = err == nil && string(buf[:n]) == "next"
	}
}

// cloggedPort has no room for what is sent, when told so.
type cloggedPort struct {
	transport.Watched
	clogged atomic.Bool
}

func (p *cloggedPort) Send(b *wire.Batch) (int, error) {
	if p.clogged.Load() {
		return 0, nil
	}
	return p.Watched.Send(b)
}

// TestPacketSleepsForRoom: who waits for datagrams to leave sleeps, and each of several goes on
// when there is room again, or its deadline is set.
func TestPacketSleepsForRoom(t *testing.T) {
	nameA, nameB := wires["udp"]()
	var port *cloggedPort
	dev, err := roce.Open(nameA, &roce.Config{Wrap: func(p transport.Port) transport.Port {
		port = &cloggedPort{Watched: p.(transport.Watched)}
		return port
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	a, b := packetsOn(t, Config{Depth: 16}, dev, open(t, nameB))
	for !a.direct(b.local()) {
		_, err := a.WriteTo([]byte("first"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(nil)
		require.NoError(t, err)
	}
	for _, cleared := range []bool{false, true} {
		port.clogged.Store(true)
		for err = nil; err == nil; {
			_, err = a.TryWriteTo([]byte("x"), b.local())
		}
		require.Equal(t, syscall.EAGAIN, err)
		const writers = 3
		wrote := make(chan error)
		write := func() { _, err := a.WriteTo([]byte("x"), b.LocalAddr()); wrote <- err }
		for range writers {
			go write()
		}
		for sleeps := 0; sleeps < writers; runtime.Gosched() {
			select {
			case err := <-wrote: // what was on its way when the port was clogged has made room
				require.NoError(t, err)
				go write()
			default:
			}
			sleeps = 0
			stack := make([]byte, 1<<20)
			for _, g := range strings.Split(string(stack[:runtime.Stack(stack, true)]), "\n\n") {
				if asleep.MatchString(g) && strings.Contains(g, "(*rail).take(") {
					sleeps++
				}
			}
		}
		want := error(os.ErrDeadlineExceeded)
		if cleared {
			want = nil
			require.NoError(t, a.SetWriteDeadline(time.Time{}))
			port.clogged.Store(false)
			port.Wake()
		} else {
			require.NoError(t, a.SetWriteDeadline(time.Now()))
		}
		for range writers {
			require.ErrorIs(t, <-wrote, want)
		}
		port.clogged.Store(false)
		require.NoError(t, a.SetWriteDeadline(time.Time{}))
	}
}
