package rsocket

// Datagrams, and those who send what is none.

import (
	"fmt"
	"net"
	"net/netip"
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
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// packets are two sockets on devices of their own.
func packets(t *testing.T, cfg Config) (a, b *PacketConn) {
	t.Helper()
	nameA, nameB := wires["udp"]()
	return packetsOn(t, cfg, open(t, nameA), open(t, nameB))
}

// packetsOn are two sockets, one on each of two devices.
func packetsOn(t *testing.T, cfg Config, devices ...*roce.Device) (a, b *PacketConn) {
	t.Helper()
	var two [2]*PacketConn
	for i, dev := range devices {
		p, err := ListenPacket(bg, netip.AddrPortFrom(dev.GIDs()[0].Addr(), 0).String(),
			&Options{Config: cfg, Devices: []*roce.Device{dev}})
		require.NoError(t, err)
		p.again = time.Hour // so that a test knows which way a datagram goes
		t.Cleanup(func() { p.Close() })
		two[i] = p
	}
	return two[0], two[1]
}

// direct says whether one knows the queue pair of another.
func (p *PacketConn) direct(to netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.peers[to]
	return d != nil && d.rail != nil && d.qpn != 0
}

// knows is how many peers it keeps.
func (p *PacketConn) knows() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers)
}

// TestPackets: datagrams to and fro, first by UDP, and soon from queue pair to queue pair.
func TestPackets(t *testing.T) {
	a, b := packets(t, Config{})
	buf := make([]byte, 5000)
	for i := 0; i < 20 || !a.direct(b.local()) || !b.direct(a.local()); i++ {
		text := fmt.Sprintf("datagram %d", i)
		n, err := a.WriteTo([]byte(text), b.LocalAddr())
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		n, from, err := b.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf[:n]))
		require.Equal(t, a.LocalAddr(), from)
		_, err = b.WriteTo(buf[:n], from)
		require.NoError(t, err)
		n, from, err = a.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf[:n]))
		require.Equal(t, b.LocalAddr(), from)
	}
	for range 100 { // an empty one is one
		_, err := a.TryWriteTo(nil, b.local())
		require.NoError(t, err)
		got, err := b.came.Queue().Get(bg)
		require.NoError(t, err)
		require.NotNil(t, got.rail, "it came by UDP")
		require.Zero(t, b.take(buf, got))
	}
}

// TestQP1Elsewhere: connections and datagrams are made by the queue pair 1 that the application has
// for the device.
func TestQP1Elsewhere(t *testing.T) {
	nameA, nameB := wires["udp"]()
	var asked [2]atomic.Int32
	var options [2]Options
	for i, name := range []string{nameA, nameB} {
		options[i] = Options{Devices: []*roce.Device{open(t, name)}, QP1: func(dev *roce.Device) (rdmacm.QP1, error) {
			asked[i].Add(1)
			return rdmacm.OpenQP1(dev)
		}}
	}
	addr := func(i int) string { return netip.AddrPortFrom(options[i].Devices[0].GIDs()[0].Addr(), 0).String() }
	l, err := Listen(bg, addr(0), &options[0])
	require.NoError(t, err)
	defer l.Close()
	c, err := (&Dialer{options[1]}).Dial(bg, l.Addr().String())
	require.NoError(t, err)
	s, err := l.Accept()
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- c.Close() }()
	require.NoError(t, s.Close())
	require.NoError(t, <-done)
	p, err := ListenPacket(bg, addr(0), &options[0])
	require.NoError(t, err)
	defer p.Close()
	for !p.direct(p.local()) { // to itself
		_, err = p.WriteTo([]byte("me"), p.LocalAddr())
		require.NoError(t, err)
		_, _, err = p.ReadFrom(nil)
		require.NoError(t, err)
	}
	for i := range asked {
		require.EqualValues(t, 1, asked[i].Load())
	}
}

// TestPacketErrors: what UDP says too.
func TestPacketErrors(t *testing.T) {
	a, b := packets(t, Config{})
	_, _, err := a.TryReadFrom(nil)
	require.Equal(t, syscall.EAGAIN, err)
	require.NoError(t, a.SetReadDeadline(time.Now()))
	_, _, err = a.ReadFrom(nil)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, a.SetReadDeadline(time.Time{}))

	for err = nil; err == nil; { // until the way is known
		_, err = a.WriteTo(make([]byte, 5000), b.LocalAddr())
		runtime.Gosched()
	}
	require.ErrorIs(t, err, syscall.EMSGSIZE)
	for err = nil; err == nil; {
		_, err = a.WriteTo(nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.77:9")))
		runtime.Gosched()
	}
	require.ErrorIs(t, err, roce.ErrUnreachable)
	_, err = a.WriteTo(nil, text("host"))
	require.ErrorIs(t, err, roce.ErrInvalid)

	read := make(chan error)
	go func() { _, _, err := a.ReadFrom(nil); read <- err }()
	require.NoError(t, a.Close())
	require.ErrorIs(t, <-read, net.ErrClosed)
	require.ErrorIs(t, a.Close(), net.ErrClosed)
	_, err = a.WriteTo(nil, b.LocalAddr())
	require.ErrorIs(t, err, net.ErrClosed)
	_, _, err = a.TryReadFrom(nil)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = ListenPacket(bg, b.LocalAddr().String(), nil)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

// TestPacketLast: what was written before Close has left, also the first to somebody.
func TestPacketLast(t *testing.T) {
	a, b := packets(t, Config{})
	_, err := a.WriteTo([]byte("the only one"), b.LocalAddr())
	require.NoError(t, err)
	require.NoError(t, a.Close())
	buf := make([]byte, 100)
	require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := b.ReadFrom(buf)
	require.NoError(t, err)
	require.Equal(t, "the only one", string(buf[:n]))

	a, _ = packets(t, Config{Linger: time.Nanosecond}) // who does not want to wait does not
	_, err = a.WriteTo(nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.77:9")))
	require.NoError(t, err)
	require.NoError(t, a.Close())
}

// TestPacketDeadlineMoves: who waits hears of a deadline that is set meanwhile.
func TestPacketDeadlineMoves(t *testing.T) {
	a, _ := packets(t, Config{})
	require.NoError(t, a.SetReadDeadline(time.Now().Add(time.Hour)))
	read := make(chan error)
	go func() { _, _, err := a.ReadFrom(nil); read <- err }()
	for waits := false; !waits; runtime.Gosched() {
		stack := make([]byte, 1<<20)
		for _, g := range strings.Split(string(stack[:runtime.Stack(stack, true)]), "\n\n") {
			waits = waits || asleep.MatchString(g) && strings.Contains(g, "(*PacketConn).ReadFrom(")
		}
	}
	require.NoError(t, a.SetReadDeadline(time.Now()))
	require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)
}

// TestPacketStrangers: whoever is no rsocket, or lies, is not heard, and makes this end keep
// nothing.
func TestPacketStrangers(t *testing.T) {
	a, b := packets(t, Config{})
	liar, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(b.local()))
	require.NoError(t, err)
	defer liar.Close()
	good := stream.Ask{Data: true, QPN: 7, Addr: netip.MustParseAddr("127.0.0.1")}.Append(nil)
	for _, said := range [][]byte{nil, []byte("x"), good[:15], append([]byte{0x54}, good[1:]...),
		make([]byte, maxDatagram+100), stream.Ask{QPN: 7, Addr: netip.MustParseAddr("::1")}.Append(nil)} {
		_, err = liar.Write(said)
		require.NoError(t, err)
	}
	for range 4 * maxAsked {
		_, err = liar.Write(append(good, "flood"...))
		require.NoError(t, err)
		answer := make([]byte, 100)
		n, err := liar.Read(answer) // so that none is lost
		require.NoError(t, err)
		ask, _, ok := stream.ParseAsk(answer[:n])
		require.True(t, ok && !ask.Data && ask.QPN != 0 && ask.Addr == b.local().Addr())
	}
	require.Zero(t, b.knows())
	buf := make([]byte, 100)
	for range maxAsked {
		n, from, err := b.TryReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "flood", string(buf[:n]))
		require.Equal(t, liar.LocalAddr().(*net.UDPAddr).AddrPort(), from)
	}
	_, _, err = b.TryReadFrom(buf)
	require.Equal(t, syscall.EAGAIN, err, "more than there is room for")

	// a queue pair that says its datagram is somebody else's, or says nothing
	for !a.direct(b.local()) {
		_, err = a.WriteTo([]byte("true"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(buf)
		require.NoError(t, err)
	}
	a.mu.Lock()
	r, d := a.rails[a.local().Addr()], *a.peers[b.local()]
	a.mu.Unlock()
	for _, said := range [][]byte{{}, {4, 8, 1}, stream.AppendHeader(nil, netip.MustParseAddrPort("192.0.2.1:1")),
		stream.AppendHeader(nil, a.local())} {
		require.NoError(t, r.qp.PostSend(roce.SendWR{WRID: uint64(<-r.free), Opcode: roce.WRSend, AH: d.ah, RemoteQPN: d.qpn,
			RemoteQKey: rdmacm.UDPQKey, Flags: roce.SendInline, Inline: said}))
	}
	for n := 1; n > 0; { // what came by UDP before may still come
		var from net.Addr
		n, from, err = b.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, a.LocalAddr(), from)
	}
}

// TestPacketFlood: a reader that is slow loses datagrams, and the next ones come.
func TestPacketFlood(t *testing.T) {
	a, b := packets(t, Config{SendBuffer: 8192, ReceiveBuffer: 8192, Depth: 16})
	buf := make([]byte, 100)
	for !a.direct(b.local()) {
		_, err := a.WriteTo([]byte("first"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(buf)
		require.NoError(t, err)
	}
	for i := range 1000 {
		_, err := a.WriteTo([]byte{byte(i)}, b.LocalAddr())
		require.NoError(t, err)
	}
	for err := error(nil); err != syscall.EAGAIN; {
		_, _, err = b.TryReadFrom(buf)
	}
	for n := 0; n != 4 || string(buf[:n]) != "last"; {
		_, err := a.WriteTo([]byte("last"), b.LocalAddr())
		require.NoError(t, err)
		n, _, err = b.ReadFrom(buf)
		require.NoError(t, err)
	}
}

// TestManyPeers: who sends to more addresses than it keeps forgets some, and goes on.
func TestManyPeers(t *testing.T) {
	a, b := packets(t, Config{})
	to := b.local()
	for port := range maxPeers + 100 {
		_, err := a.TryWriteTo(nil, netip.AddrPortFrom(to.Addr(), uint16(1024+port)))
		require.NoError(t, err)
		for known := false; !known; runtime.Gosched() {
			a.mu.Lock()
			d := a.peers[netip.AddrPortFrom(to.Addr(), uint16(1024+port))]
			known = d.rail != nil || d.err != nil
			a.mu.Unlock()
		}
	}
	require.LessOrEqual(t, a.knows(), maxPeers)
	buf := make([]byte, 100)
	for n := 0; n == 0; {
		_, err := a.WriteTo([]byte("x"), b.LocalAddr())
		require.NoError(t, err)
		n, _, err = b.ReadFrom(buf)
		require.NoError(t, err)
	}
}

// TestManySought: who sends to more addresses than it keeps, and to none of them a way is known
// yet, loses what goes to the last ones.
func TestManySought(t *testing.T) {
	goes := make(chan struct{})
	p, err := ListenPacket(bg, "127.0.0.1:0", &Options{Open: func(netip.Addr) (*roce.Device, error) {
		<-goes
		return nil, roce.ErrUnreachable
	}})
	require.NoError(t, err)
	for port := range maxPeers + 100 {
		_, err := p.TryWriteTo(nil, netip.AddrPortFrom(p.local().Addr(), uint16(1024+port)))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, p.knows(), maxPeers)
	close(goes)
	require.NoError(t, p.Close())
}

// TestPacketAnyAddress: a socket at all addresses answers from the one that it was asked at.
func TestPacketAnyAddress(t *testing.T) {
	p, err := ListenPacket(bg, "0.0.0.0:0", &Options{Devices: []*roce.Device{open(t, "udp:127.0.0.1")}})
	require.NoError(t, err)
	defer p.Close()
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), p.local().Port())
	for !p.direct(to) { // to itself
		_, err = p.TryWriteTo([]byte("me"), to)
		require.NoError(t, err)
		buf := make([]byte, 10)
		n, from, err := p.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "me", string(buf[:n]))
		require.Equal(t, to, from.(*Addr).AddrPort())
	}
}

// TestPacketSix: headers of IPv6, and two sockets at one address.
func TestPacketSix(t *testing.T) {
	has, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Skip("wants IPv6 on the loopback: ", err)
	}
	has.Close()
	dev := open(t, "udp:::1")
	var two [2]*PacketConn
	for i := range two {
		p, err := ListenPacket(bg, "[::1]:0", &Options{Devices: []*roce.Device{dev}})
		require.NoError(t, err)
		defer p.Close()
		two[i] = p
	}
	for buf := make([]byte, 10); !two[0].direct(two[1].local()); {
		_, err := two[0].WriteTo([]byte("six"), two[1].LocalAddr())
		require.NoError(t, err)
		n, from, err := two[1].ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "six", string(buf[:n]))
		require.Equal(t, two[0].LocalAddr(), from)
	}
	for {
		_, err = two[0].WriteTo(nil, two[1].LocalAddr())
		require.NoError(t, err)
		got, err := two[1].came.Queue().Get(bg)
		require.NoError(t, err)
		if two[1].take(nil, got); got.rail != nil {
			require.Equal(t, two[0].local(), got.from)
			return
		}
	}
}

// TestPacketUnread: what had come and nobody has read is gone with the socket.
func TestPacketUnread(t *testing.T) {
	a, b := packets(t, Config{})
	for !a.direct(b.local()) {
		_, err := a.WriteTo([]byte("first"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(nil)
		require.NoError(t, err)
	}
	_, err := a.WriteTo([]byte("unread"), b.LocalAddr())
	require.NoError(t, err)
	<-b.came.Queue().Ready()
	require.NoError(t, b.Close())
	_, _, err = b.TryReadFrom(nil)
	require.ErrorIs(t, err, net.ErrClosed)
	_, _, err = b.ReadFrom(nil)
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestPacketPeerAnew: a peer whose process has ended and begun anew, at the same port and with
// another queue pair, is reached by one who only sends to it.
func TestPacketPeerAnew(t *testing.T) {
	a, b := packets(t, Config{})
	to := b.local()
	for !a.direct(to) {
		_, err := a.WriteTo([]byte("first"), b.LocalAddr())
		require.NoError(t, err)
		_, _, err = b.ReadFrom(nil)
		require.NoError(t, err)
	}
	require.NoError(t, b.Close())
	c, err := ListenPacket(bg, to.String(), &b.options)
	require.NoError(t, err)
	defer c.Close()
	a.again = 0
	for err = syscall.EAGAIN; err == syscall.EAGAIN; _, _, err = c.TryReadFrom(nil) {
		if _, err := a.TryWriteTo([]byte("to another"), to); err != syscall.EAGAIN {
			require.NoError(t, err)
		}
		runtime.Gosched()
	}
	require.NoError(t, err)
}
