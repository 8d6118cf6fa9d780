package trace

// A capture of a loopback interface that nobody else uses, which needs root.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// TestCaptureSnap: the file has the beginnings of packets, those in runs too, and all of what the
// connection manager is told.
func TestCaptureSnap(t *testing.T) {
	ns := netns.New(t)
	from := sender(t, ns)
	defer from.Close()
	out, notes := &bytes.Buffer{}, &bytes.Buffer{}
	done := make(chan error, 1)
	o := CaptureOptions{Write: "-", Count: 12}
	o.Snap = 128
	ready := make(chan struct{})
	go ns.Do(func() {
		done <- Capture(t.Context(), &firstWrite{w: out, ready: ready}, notes, "lo", o)
	})
	<-ready
	put := func(data []byte) {
		_, err := from.WriteTo(data, &net.UDPAddr{IP: net.IPv4(127, 91, 4, 2), Port: wire.UDPPort})
		require.NoError(t, err)
	}
	raw, err := from.(*net.UDPConn).SyscallConn()
	require.NoError(t, err)
	set := func(level, option, value int) {
		require.NoError(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) }))
		require.NoError(t, err)
	}
	set(unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO) // so it numbers packets from 0 on
	put(seen(t, from, 0, 7))
	put(seen(t, from, 0, wire.GSIQPN))
	size := len(seen(t, from, 0, 7))
	set(unix.SOL_UDP, unix.UDP_SEGMENT, size)
	var run []byte
	for psn := range wire.PSN(10) {
		run = append(run, seen(t, from, psn, 7)...)
	}
	put(run)
	require.NoError(t, <-done)
	require.Equal(t, "12 packets captured, 0 lost\n", notes.String())
	src, err := trace.NewSource(out)
	require.NoError(t, err)
	const headers = 14 + wire.Head4Len
	for n := range 12 {
		p, err := src.Next()
		require.NoError(t, err)
		require.True(t, p.Parsed, p.Problem)
		require.Equal(t, headers+size, p.Length)
		if n == 1 {
			require.Zero(t, p.Cut)
			continue
		}
		require.Equal(t, trace.ICRCUnchecked, p.ICRC)
		require.Equal(t, headers+size-128, p.Cut)
		require.Equal(t, wire.PSN(max(n-2, 0)), p.Wire.BTH.PSN())
		require.Equal(t, uint32(4096), p.Wire.RETH().DMALen())
	}
}

// seen is a WRITE as it will be seen on the wire from this socket, which numbers its packets.
func seen(t *testing.T, from net.PacketConn, psn wire.PSN, qp uint32) []byte {
	data := packet(t, nil, 1, qp, wire.RCWriteOnly, psn, 500, 0)
	f, drop := wire.SplitFrame(data)
	require.Equal(t, wire.DropNone, drop)
	path, err := wire.NewPath(wire.GID{10: 0xff, 11: 0xff, 12: 127, 13: 91, 14: 4, 15: 1}, wire.GID{
		10: 0xff,
		11: 0xff,
		12: 127,
		13: 91,
		14: 4,
		15: 2,
	},
		uint16(from.LocalAddr().(*net.UDPAddr).Port), 0, 64, 0)
	require.NoError(t, err)
	path.PutHead(f.Head, len(f.Body), uint16(psn))
	wire.Seal(&f)
	return f.Body
}

// firstWrite tells when it is first written to.
type firstWrite struct {
	w     io.Writer
	once  sync.Once
	ready chan struct{}
}

func (f *firstWrite) Write(b []byte) (int, error) {
	f.once.Do(func() { close(f.ready) })
	return f.w.Write(b)
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

// TestDecodeAsItComes: what a pipe has brought is shown, before there is more.
func TestDecodeAsItComes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	shown, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Decode(t.Context(), out, name, DecodeOptions{}) }()
	pipe, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	w := trace.NewWriter(pipe)
	lines := bufio.NewReader(shown)
	for psn := range wire.PSN(3) {
		data := packet(t, nil, 1, 7, wire.RCWriteOnly, psn, 100, 0)
		require.NoError(t, w.Write(&trace.Record{Link: trace.LinkRaw, Data: data, Length: len(data)}))
		require.NoError(t, w.Flush())
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, fmt.Sprintf("psn %d", psn))
	}
	require.NoError(t, pipe.Close())
	require.NoError(t, <-done)
}
