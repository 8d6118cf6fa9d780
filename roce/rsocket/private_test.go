package rsocket

// What is the application's alone, and what the other end can take from it: bytes that were read,
// calls that want to end, the word of Close.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// put has the peer of a write text to the beginning of a's receive buffer, and say so or not.
func put(t *testing.T, a, peer *Conn, text string, says bool) {
	t.Helper()
	wr := roce.SendWR{Opcode: roce.WRWrite, Inline: []byte(text), Flags: roce.SendInline | roce.SendSignaled,
		RemoteAddr: a.exposed.Addr(), RKey: a.exposed.RKey()}
	if says {
		wr.Opcode, wr.Imm = roce.WRWriteWithImm, uint32(len(text))
	}
	require.NoError(t, peer.qp.PostSend(wr))
	var wcs [1]roce.WC
	_, err := peer.cq.Wait(t.Context(), wcs[:])
	require.NoError(t, err)
	require.Equal(t, roce.WCSuccess, wcs[0].Status)
}

// TestCopyIsPrivate: a peer that changes what it has written, while io.Copy hands it to a hash and
// to a file, changes neither.
func TestCopyIsPrivate(t *testing.T) {
	a, b := mute(t, &Config{Linger: 10 * time.Millisecond}) // b answers nothing
	put(t, a, b, "pay 10 euro", true)
	end := roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 7<<29 | 2} // shutdown
	require.NoError(t, b.qp.PostSend(end))
	hash := sha256.New()
	var file bytes.Buffer
	slow := badWriter(func(p []byte) (int, error) { // a network file system, say
		put(t, a, b, "pay 99 euro", false)
		return len(p), nil
	})
	n, err := io.Copy(io.MultiWriter(hash, slow, &file), a)
	require.NoError(t, err)
	require.EqualValues(t, 11, n)
	sum := sha256.Sum256(file.Bytes())
	require.Equal(t, hash.Sum(nil), sum[:], "the hash that io.Copy computed is not that of the file that it wrote: %q", file.String())
	require.Equal(t, "pay 10 euro", file.String())
}

// TestSharedIsNot: what PeekShared shows is the other end's to change, as its name says.
func TestSharedIsNot(t *testing.T) {
	a, b := mute(t, &Config{Linger: 10 * time.Millisecond}) // b answers nothing
	put(t, a, b, "pay 10 euro", true)
	p, err := a.PeekShared()
	require.NoError(t, err)
	require.Equal(t, "pay 10 euro", string(p))
	put(t, a, b, "pay 99 euro", false)
	require.Equal(t, "pay 99 euro", string(p))
}

// exposes has the peer of a expose ten bytes of its receive buffer under offset 0.
func exposes(t *testing.T, a, peer *Conn) {
	t.Helper()
	entry := binary.NativeEndian.AppendUint64(make([]byte, 8), peer.exposed.Addr())
	entry = binary.NativeEndian.AppendUint32(entry, peer.exposed.RKey())
	entry = binary.NativeEndian.AppendUint32(entry, 10)
	require.NoError(t, peer.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 6 << 29, Inline: entry, Flags: roce.SendInline,
		RemoteAddr: a.exposed.Addr() + uint64(len(a.receive)) + stream.Entries*stream.SGESize, RKey: a.exposed.RKey()},
		roce.SendWR{
			Opcode:     roce.WRWriteWithImm,
			Imm:        1,
			Inline:     []byte("x"),
			Flags:      roce.SendInline,
			RemoteAddr: a.exposed.Addr(),
			RKey:       a.exposed.RKey(),
		}))
	_, err := a.Read(make([]byte, 1)) // the entry came before
	require.NoError(t, err)
}

// TestBufferDeadline: a write deadline also ends a call whose memory the device still reads, and
// the connection with it, as nothing else makes the device stop.
func TestBufferDeadline(t *testing.T) {
	for name, write := range map[string]func(a *Conn, buf *Buffer) (int, error){
		"WriteBuffer":   func(a *Conn, buf *Buffer) (int, error) { return a.WriteBuffer(buf, 0, 10) },
		"WriteBufferAt": func(a *Conn, buf *Buffer) (int, error) { return a.WriteBufferAt(buf, 0, 10, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			// b has posted no receives
			a, b := mute(t, &Config{Linger: 10 * time.Millisecond, Maps: 2})
			buf, err := a.Alloc(10)
			require.NoError(t, err)
			if name == "WriteBufferAt" { // b has memory for it, but not for what is before it
				exposes(t, a, b)
				_, err := a.Write([]byte("x"))
				require.NoError(t, err)
			}
			begun := a.end.Begun()
			done := make(chan error, 1)
			go func() {
				n, err := write(a, buf)
				if n != 0 {
					err = errors.Join(err, errors.New("bytes are said to have been written"))
				}
				done <- err
			}()
			for posted := false; !posted; runtime.Gosched() {
				a.mu.Lock()
				posted = a.end.Begun() > begun
				a.mu.Unlock()
			}
			require.NoError(t, a.SetWriteDeadline(time.Now()))
			require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
			require.Equal(t, roce.StateErr, a.qp.State(), "its device may read the memory")
			require.NoError(t, buf.Close())
			require.NoError(t, b.take(b.qp))
			require.NoError(t, a.SetWriteDeadline(time.Time{}))
			_, err = a.Write([]byte("x"))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		})
	}
}

// TestLook: what has completed by the time that a deadline passes is in time, also if nobody has
// looked yet.
func TestLook(t *testing.T) {
	a, _ := connected(t, "pipe")
	_, err := a.Write([]byte("words"))
	require.NoError(t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end.KeepAlive() // whose completion is also that of the words
	a.flush()
	for a.end.Finished() < a.end.Begun() { // nobody else looks
		a.look(owning)
		runtime.Gosched()
	}
	require.Equal(t, stream.Open, a.end.State())
}

// TestLookBeside: that is so too if another call leads, which has looked before, and leads on.
func TestLookBeside(t *testing.T) {
	a, _ := connected(t, "pipe")
	_, err := a.Write([]byte("words"))
	require.NoError(t, err)
	a.mu.Lock()
	a.end.KeepAlive()
	a.flush()
	a.wait.leading = true
	a.mu.Unlock()
	arrived := make(chan bool, 1)
	go func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.look(owning)
		arrived <- a.end.Finished() == a.end.Begun()
	}()
	for waits := false; !waits && len(arrived) == 0; runtime.Gosched() {
		a.mu.Lock()
		waits = a.wait.beside[owning]
		a.mu.Unlock()
	}
	for a.cq.Len() < 3 { // of the first update of each end, and of the sign of life
		runtime.Gosched()
	}
	a.mu.Lock()
	a.wait.leading = false
	a.wait.turns++
	a.tellBeside()
	a.lead(reading, false)
	a.mu.Unlock()
	require.True(t, <-arrived)
}

// TestCloseInTime: an acknowledgement that has come when Close has no more time is in time.
func TestCloseInTime(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Linger: time.Nanosecond})
	a.mu.Lock()
	a.end.EndBoth()
	a.flush()
	a.mu.Unlock()
	_, err := b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	for a.cq.Len() < 3 { // of the first update of each end, and of the disconnect or its answer
		runtime.Gosched()
	}
	require.NoError(t, a.Close())
}

// TestCloseAfterDeadline: a deadline that has ended the connection does not say so: Close still
// tells of what was written before and has not arrived.
func TestCloseAfterDeadline(t *testing.T) {
	a, _ := mute(t, nil)
	_, err := a.Write([]byte("words"))
	require.NoError(t, err)
	buf, err := a.Alloc(10)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := a.WriteBuffer(buf, 0, 10)
		done <- err
	}()
	for posted := false; !posted; runtime.Gosched() {
		a.mu.Lock()
		posted = a.end.Begun() > 1
		a.mu.Unlock()
	}
	require.NoError(t, a.SetWriteDeadline(time.Now()))
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	require.ErrorContains(t, a.Close(), "it is not known whether all that was written has arrived")
}

// TestLateWriter: of a connection that is over below a peer may send for ever; who writes and has
// no time left does not take in what comes.
func TestLateWriter(t *testing.T) {
	a, b := mute(t, nil)
	put(t, a, b, "more", true)
	require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
	a.mu.Lock()
	a.life.on(goesBelow)
	a.mu.Unlock()
	_, err := a.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	a.mu.Lock()
	defer a.mu.Unlock()
	require.False(t, a.over())
}

// TestReadBesideCopy: while io.Copy is in a Writer that is stuck, others may read, and Close ends
// all that wait.
func TestReadBesideCopy(t *testing.T) {
	a, b := connected(t, "pipe")
	_, err := b.Write([]byte("x"))
	require.NoError(t, err)
	in, out := make(chan struct{}), make(chan struct{})
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(badWriter(func(p []byte) (int, error) { close(in); <-out; return len(p), nil }), a)
		copied <- err
	}()
	<-in
	_, err = b.Write([]byte("y"))
	require.NoError(t, err)
	p := make([]byte, 1)
	_, err = a.Read(p)
	require.NoError(t, err)
	require.Equal(t, "y", string(p))
	read := make(chan error, 1)
	go func() { _, err := a.Read(p); read <- err }()
	require.NoError(t, a.Close())
	require.ErrorIs(t, <-read, net.ErrClosed)
	close(out)
	require.ErrorIs(t, <-copied, net.ErrClosed)
}

// TestCloseSaysWhatArrived: if the connection below ends while Close waits, nil would say that all
// has arrived. It is nil if the other end has closed too, as then nobody would read it.
func TestCloseSaysWhatArrived(t *testing.T) {
	for _, closes := range []bool{false, true} {
		a, b := mute(t, nil) // b's device takes nothing that says something
		_, err := a.Write([]byte("words"))
		require.NoError(t, err)
		closed := make(chan error, 1)
		go func() { closed <- a.Close() }()
		for waits := false; !waits; runtime.Gosched() {
			a.mu.Lock()
			waits = a.life.closed() && a.wait.leading
			a.mu.Unlock()
		}
		if closes {
			end := roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 7 << 29} // disconnect
			require.NoError(t, b.qp.PostSend(end))
			require.NoError(t, <-closed)
			continue
		}
		a.mu.Lock() // as ended does, when the peer's DREQ has come
		a.life.on(goesBelow)
		a.wakeAll()
		a.mu.Unlock()
		require.ErrorIs(t, <-closed, syscall.ECONNRESET)
		require.NotEqual(t, "words", string(b.receive[:5]))
	}
}

// TestListenErrors: a program that tries the next port, or the next address, can tell by TCP's
// errors.
func TestListenErrors(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		_, name := wires[wire]()
		dev := open(t, name)
		options := &Options{Devices: []*roce.Device{dev}}
		l, err := Listen(bg, netip.AddrPortFrom(dev.GIDs()[0].Addr(), 0).String(), options)
		require.NoError(t, err)
		defer l.Close()
		_, err = Listen(bg, l.Addr().String(), options)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.ErrorIs(t, err, roce.ErrBusy)
		var as *net.OpError
		require.ErrorAs(t, err, &as)
		require.Equal(t, "listen", as.Op)
		_, err = Listen(bg, "192.0.2.77:7000", options)
		require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	})
	_, err := Listen(bg, "192.0.2.77:7000", nil) // without a device of the caller's
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
}
