package trace

// A capture of a loopback interface that nobody else uses, which needs root.

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// TestCaptureIsWhole: at any moment the file can be read to its end; the header is there at once, a
// packet when none is waiting behind it. The end says how many there were.
func TestCaptureIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	ctx, stop := context.WithCancel(t.Context())
	var notes bytes.Buffer
	done := make(chan error, 1)
	ns := netns.New(t) // the lo of others has so much that some of it is lost
	from := sender(t, ns)
	defer from.Close()
	go ns.Do(func() { done <- Capture(ctx, io.Discard, &notes, "lo", CaptureOptions{Write: name}) })
	for want := range 4 {
		for seen := -1; seen < want; {
			select {
			case err := <-done:
				t.Fatal("the capture has ended: ", err)
			case <-time.After(time.Millisecond): // between two looks
				seen = ours(t, name)
			}
		}
		data := packet(t, nil, 1, 7, wire.RCWriteOnly, wire.PSN(want), 100, 0)[wire.Head4Len:]
		_, err := from.WriteTo(data, &net.UDPAddr{IP: net.IPv4(127, 91, 4, 2), Port: wire.UDPPort})
		require.NoError(t, err)
	}
	stop()
	require.NoError(t, <-done)
	require.Equal(t, 4, ours(t, name))
	require.Regexp(t, `^\d+ packets captured, 0 lost\n$`, notes.String())
}

// sender is a socket in a namespace.
func sender(t *testing.T, ns *netns.Namespace) (conn net.PacketConn) {
	var err error
	ns.Do(func() { conn, err = net.ListenPacket("udp4", "127.91.4.1:0") })
	require.NoError(t, err)
	return conn
}

// ours counts our packets in a file that is being written; -1: there is none yet.
func ours(t *testing.T, name string) int {
	file, err := os.ReadFile(name)
	if err != nil || len(file) == 0 {
		return -1
	}
	src, err := trace.NewSource(bytes.NewReader(file))
	require.NoError(t, err)
	for n := 0; ; {
		p, err := src.Next()
		if err == io.EOF {
			return n
		}
		require.NoError(t, err)
		if p.Kind == trace.RoCEv2 && p.Frame.Src().Addr().Unmap().String() == "127.91.4.1" {
			n++
		}
	}
}

// TestCaptureDiskFull: a capture that cannot be written ends, and says once why.
func TestCaptureDiskFull(t *testing.T) {
	ns := netns.New(t)
	from := sender(t, ns)
	defer from.Close()
	done := make(chan error, 1)
	go ns.Do(func() { done <- Capture(t.Context(), io.Discard, io.Discard, "lo", CaptureOptions{Write: "/dev/full"}) })
	for {
		_, err := from.WriteTo(make([]byte, 16), &net.UDPAddr{IP: net.IPv4(127, 91, 4, 2), Port: wire.UDPPort})
		require.NoError(t, err)
		select {
		case err := <-done:
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, 1, strings.Count(err.Error(), "no space left"), err)
			return
		case <-time.After(time.Millisecond): // between two packets
		}
	}
}
