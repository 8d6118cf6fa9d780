package sniff

// What is captured, and how much of it, on a cable between two namespaces, on which anything can be
// sent.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// cable is a Sniffer at one end, and at the other a raw socket or an ordinary one.
type cable struct {
	*netns.Wire
	raw  int
	conn net.PacketConn
}

func newCable(t *testing.T) *cable {
	c := &cable{Wire: netns.NewWire(t, 9000)}
	var err error
	c.Left.Do(func() {
		var ifi *net.Interface
		if ifi, err = net.InterfaceByName("wire"); err != nil {
			return
		}
		if c.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		if err = unix.Bind(c.raw, &unix.SockaddrLinklayer{Ifindex: ifi.Index}); err != nil {
			return
		}
		c.conn, err = net.ListenPacket("udp4", "10.77.0.1:0")
	})
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(c.raw); c.conn.Close() })
	return c
}

func (c *cable) open(t *testing.T, o *Options) (s *Sniffer) {
	var err error
	c.Right.Do(func() { s, err = Open("wire", o) })
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// frame sends bytes that begin with Ethernet.
func (c *cable) frame(t *testing.T, frame []byte) {
	require.NoError(t, unix.Send(c.raw, frame, 0))
}

// datagram sends one to port 4791.
func (c *cable) datagram(t *testing.T, body []byte) {
	_, err := c.conn.WriteTo(body, &net.UDPAddr{IP: net.IPv4(10, 77, 0, 2), Port: wire.UDPPort})
	require.NoError(t, err)
}

// rest ends the capture, and reads what there is.
func rest(t *testing.T, s *Sniffer) (all []trace.Record) {
	require.NoError(t, s.End())
	for rec := (trace.Record{}); ; {
		if err := s.Next(&rec); err != nil {
			require.ErrorIs(t, err, os.ErrClosed)
			return all
		}
		all = append(all, rec)
		all[len(all)-1].Data = bytes.Clone(rec.Data)
	}
}

// ether is an Ethernet frame to nobody, behind whose addresses are these bytes, and zeros.
func ether(what ...[]byte) []byte {
	frame := append([]byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8}, bytes.Join(what, nil)...)
	return append(frame, make([]byte, 200)...)
}

// ip4 is an IPv4 header with an EtherType, and the two ports behind it.
func ip4(words int, protocol byte, port uint16) []byte {
	h := make([]byte, 2+4*words+4)
	h[0], h[2], h[11] = 8, byte(0x40|words), protocol
	binary.BigEndian.PutUint16(h[len(h)-2:], port)
	return h
}

// ip6 is the same of IPv6.
func ip6(next byte, port uint16) []byte {
	h := make([]byte, 2+40+4)
	h[0], h[1], h[2], h[8] = 0x86, 0xdd, 0x60, next
	binary.BigEndian.PutUint16(h[len(h)-2:], port)
	return h
}

var bothFilters = map[string]*Options{"classic": nil, "for snap": {Snap: 300}}

// TestFilters sends every kind of frame through both of the filters.
func TestFilters(t *testing.T) {
	c := newCable(t)
	frames := []struct {
		name string
		data []byte
		pass bool
	}{
		{"IPv4", ip4(5, unix.IPPROTO_UDP, wire.UDPPort), true},
		{"IPv4 with options", ip4(8, unix.IPPROTO_UDP, wire.UDPPort), true},
		{"IPv4 to another port", ip4(5, unix.IPPROTO_UDP, 4790), false},
		{"IPv4 TCP", ip4(5, unix.IPPROTO_TCP, wire.UDPPort), false},
		{"IPv6", ip6(unix.IPPROTO_UDP, wire.UDPPort), true},
		{"IPv6 to another port", ip6(unix.IPPROTO_UDP, 4790), false},
		{"IPv6 TCP", ip6(unix.IPPROTO_TCP, wire.UDPPort), false},
		{"RoCEv1", []byte{0x89, 0x15}, true},
		{"ARP", []byte{8, 6}, false},
		{"a tag", append([]byte{0x81, 0, 0x60, 0x64}, ip4(5, unix.IPPROTO_UDP, wire.UDPPort)...), true},
		{"two tags", append([]byte{0x88, 0xa8, 0, 7, 0x81, 0, 0x60, 0x64}, ip4(5, unix.IPPROTO_UDP, wire.UDPPort)...), true},
	}
	for name, o := range bothFilters {
		t.Run(name, func(t *testing.T) {
			s := c.open(t, o)
			var want [][]byte
			for _, f := range frames {
				c.frame(t, ether(f.data))
				if f.pass {
					want = append(want, ether(f.data))
				}
			}
			got := rest(t, s)
			require.Len(t, got, len(want))
			for i, rec := range got {
				require.Equal(t, want[i], rec.Data)
				require.Len(t, rec.Data, rec.Length)
				require.Equal(t, i+1, rec.Number)
				require.Equal(t, trace.DirReceived, rec.Direction)
			}
		})
	}
}

// TestRawInterface: one whose packets begin with IP.
func TestRawInterface(t *testing.T) {
	ns := netns.New(t, "tuntap add mode tun name tun")
	for name, o := range bothFilters {
		t.Run(name, func(t *testing.T) {
			var tun *os.File
			var s *Sniffer
			var err error
			ns.Do(func() {
				if tun, err = os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
					return
				}
				req, _ := unix.NewIfreq("tun") // the name is short enough
				req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
				err = unix.IoctlIfreq(int(tun.Fd()), unix.TUNSETIFF, req)
			})
			if errors.Is(err, os.ErrNotExist) {
				netns.Lacks(t, "there is no /dev/net/tun: %v", err)
			}
			require.NoError(t, err)
			defer tun.Close()
			ns.IP(t, "link set tun up")
			ns.Do(func() { s, err = Open("tun", o) })
			require.NoError(t, err)
			defer s.Close()
			var want [][]byte
			for _, p := range [][]byte{ip4(5, unix.IPPROTO_UDP, wire.UDPPort), ip4(5, unix.IPPROTO_UDP, 53),
				ip6(unix.IPPROTO_UDP, wire.UDPPort), ip6(unix.IPPROTO_TCP, wire.UDPPort)} {
				data := append(p[2:], make([]byte, 20)...)
				_, err := tun.Write(data)
				require.NoError(t, err)
				if len(want) == 0 || p[0] == 0x86 && len(want) == 1 {
					want = append(want, data)
				}
			}
			got := rest(t, s)
			require.Len(t, got, len(want))
			for i, rec := range got {
				require.Equal(t, want[i], rec.Data)
				require.Equal(t, trace.LinkRaw, rec.Link)
			}
		})
	}
}

// TestSnap: of a packet so much is there; all is there of a run, so that it can be cut, and of what
// goes to the connection manager.
func TestSnap(t *testing.T) {
	c := newCable(t)
	s := c.open(t, &Options{Snap: 80})
	const packets, each = 20, 100
	var run []byte
	for range packets {
		run = append(run, bytes.Repeat([]byte{7}, each)...)
	}
	c.datagram(t, run[:each])
	c.datagram(t, run[:1])
	c.datagram(t, append([]byte{4: 0xff, 7: 1}, run[:each]...)) // to queue pair 1
	raw, err := c.conn.(*net.UDPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, each) }))
	require.NoError(t, err)
	c.datagram(t, run)
	got := rest(t, s)
	require.Len(t, got, 4)
	const headers = etherLen + wire.Head4Len
	require.Equal(t, headers+each, got[0].Length)
	require.Len(t, got[0].Data, 80)
	for i, whole := range [...]int{1, 8 + each, len(run)} {
		require.Equal(t, headers+whole, got[i+1].Length)
		require.Len(t, got[i+1].Data, headers+whole)
	}
}

// TestRound: a ring that is smaller than what comes, which is read in time.
func TestRound(t *testing.T) {
	c := newCable(t)
	s := c.open(t, &Options{Ring: 1})
	require.Len(t, s.ring.mem, 2*blockSize)
	big := make([]byte, 8000)
	var rec trace.Record
	for i := range 600 { // 5 MB
		binary.BigEndian.PutUint32(big, uint32(i))
		c.datagram(t, big)
		if i%100 == 99 {
			for k := i - 99; k <= i; k++ {
				require.NoError(t, s.Next(&rec))
				require.Equal(t, uint32(k), binary.BigEndian.Uint32(rec.Data[etherLen+wire.Head4Len:]))
				require.Equal(t, k+1, rec.Number)
			}
		}
	}
	lost, err := s.Lost()
	require.NoError(t, err)
	require.Zero(t, lost)
}

// TestLost: what nobody reads in time is lost and counted; the rest can be read, and so can what
// comes when there is room again.
func TestLost(t *testing.T) {
	c := newCable(t)
	s := c.open(t, &Options{Ring: 1})
	big := make([]byte, 8000)
	const sent = 600
	for range sent {
		c.datagram(t, big)
	}
	lost, err := s.Lost()
	require.NoError(t, err)
	require.NotZero(t, lost)
	var rec trace.Record
	for range sent - lost {
		require.NoError(t, s.Next(&rec))
	}
	c.datagram(t, []byte("the last one"))
	got := rest(t, s)
	require.Len(t, got, 1)
	require.Equal(t, "the last one", string(got[0].Data[etherLen+wire.Head4Len:]))
	again, err := s.Lost()
	require.NoError(t, err)
	require.Equal(t, lost, again)
}

// TestNextAllocates: nothing, for a packet that is there.
func TestNextAllocates(t *testing.T) {
	c := newCable(t)
	s := c.open(t, nil)
	for range 2000 {
		c.datagram(t, []byte("some bytes"))
	}
	var rec trace.Record
	require.NoError(t, s.End())
	require.NoError(t, s.Next(&rec))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if err := s.Next(&rec); err != nil {
			panic(err)
		}
	}))
}

// TestInterfaceDown: it is said, and not waited for.
func TestInterfaceDown(t *testing.T) {
	c := newCable(t)
	s := c.open(t, nil)
	ended := make(chan error)
	go func() { ended <- s.Next(&trace.Record{}) }()
	c.Right.IP(t, "link set wire down")
	require.ErrorIs(t, <-ended, unix.ENETDOWN)
}
