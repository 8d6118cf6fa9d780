package rsocket

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// TestCloseIsTheEnd: when Close returns all is given back, whatever calls were inside: the device
// can be closed.
func TestCloseIsTheEnd(t *testing.T) {
	for range 100 {
		nameA, nameB := wires["pipe"]()
		a, err := roce.Open(nameA, nil)
		require.NoError(t, err)
		c, d := pair(t, a, open(t, nameB), nil)
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		wrote := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, err = c.Write(make([]byte, 64<<10))
			}
			wrote <- err
		}()
		_, err = io.ReadFull(d, make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, d.Close())
		c.Close() // not all has arrived
		require.NoError(t, a.Close())
		<-read
		<-wrote
	}
}

// TestCloseInWriter: Close does not wait for an application's Writer, which may be what calls it.
func TestCloseInWriter(t *testing.T) {
	c, d := connected(t, "pipe")
	_, err := d.Write([]byte("x"))
	require.NoError(t, err)
	_, err = c.WriteTo(closer{t, c})
	require.ErrorIs(t, err, net.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, freed, c.life)
}

// closer is a Writer that closes a connection.
type closer struct {
	t *testing.T
	c *Conn
}

func (w closer) Write(p []byte) (int, error) {
	require.NoError(w.t, w.c.Close())
	return len(p), nil
}

// TestPeekedMemory: what PeekShared has returned is nobody else's when the connection is closed.
func TestPeekedMemory(t *testing.T) {
	for discards, kept := range []bool{true, false} {
		c, d := connected(t, "pipe", &Config{SendBuffer: 1 << 13, ReceiveBuffer: 1 << 14})
		_, err := d.Write([]byte("x"))
		require.NoError(t, err)
		_, err = c.PeekShared()
		require.NoError(t, err)
		for range discards {
			_, err = c.Discard(1)
			require.NoError(t, err)
		}
		require.Equal(t, kept, c.peeked)
		require.NoError(t, c.Close())
	}
}
