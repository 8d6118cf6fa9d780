//go:build linux

package hub

// Packets that come to another process than their own, as those do that a sender has sent in one
// run for queue pairs of several.

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// datagrams is a queue pair that takes datagrams.
type datagrams struct {
	*roce.QP
	cq *roce.CQ
}

func openDatagrams(t *testing.T, d *roce.Device) *datagrams {
	t.Helper()
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 8})
	require.NoError(t, err)
	q, err := pd.CreateQP(roce.QPInitAttr{Type: roce.UD, SendCQ: cq, RecvCQ: cq, Cap: roce.QPCap{MaxRecvWR: 8, MaxRecvSGE: 1}})
	require.NoError(t, err)
	room := make([]byte, 8*256)
	m, err := pd.RegMR(room, roce.LocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, close := range []func() error{q.Close, m.Close, cq.Close, pd.Close} {
			require.NoError(t, close())
		}
	})
	require.NoError(t, q.Activate(7))
	for i := range 8 {
		require.NoError(t, q.PostRecv(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{m.SGE(i*256, 256)}}))
	}
	return &datagrams{q, cq}
}

// take waits for datagrams of the foreign sender.
func (d *datagrams) take(t *testing.T, n int) {
	t.Helper()
	for range n {
		wcs := make([]roce.WC, 1)
		n, err := d.cq.Wait(t.Context(), wcs)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, roce.WCSuccess, wcs[0].Status)
		require.Equal(t, uint32(99), wcs[0].SrcQP)
	}
}

// sendRun sends datagrams for queue pairs in one run, as a foreign sender may.
func sendRun(t *testing.T, where string, qpns ...uint32) {
	t.Helper()
	from := netip.MustParseAddr(strings.Replace(where, "127.82.", "127.84.", 1))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Port: wire.UDPPort, Addr: from.As4()}))
	to := &unix.SockaddrInet4{Port: wire.UDPPort, Addr: netip.MustParseAddr(where).As4()}
	const size = wire.BTHLen + 8 + 8 + wire.ICRCLen
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, size))
	path, err := wire.NewPath(wire.GIDFrom(from), wire.GIDFrom(netip.MustParseAddr(where)), wire.UDPPort, 0, 64, 0)
	require.NoError(t, err)
	var run []byte
	for i, qpn := range qpns {
		f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, size)}
		path.PutHead(f.Head, size, uint16(i))
		(*wire.BTH)(f.Body).Put(wire.UDSendOnly, 0, 0, wire.DefaultPKey, qpn, wire.PSN(i))
		(*wire.DETH)(f.Body[wire.BTHLen:]).Put(7, 99)
		wire.Seal(&f)
		run = append(run, f.Body...)
	}
	require.NoError(t, unix.Sendto(fd, run, 0, to))
}

// TestStrays: of packets that a foreign sender has sent in one run, those for the second process
// come to the first one, and arrive all the same, as from their sender; and so do those that come
// to the hub itself.
func TestStrays(t *testing.T) {
	where := alone(t)
	begin(t, Config{Processes: 7})
	one, two := openDatagrams(t, at(t, where, nil)), openDatagrams(t, at(t, where, nil))
	sendRun(t, where, one.QPN(), two.QPN(), two.QPN(), one.QPN())
	one.take(t, 2)
	two.take(t, 2)
	s, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2), s.Addresses[0].Frames)
	require.Zero(t, s.Addresses[0].FramesLost)
	require.Equal(t, []uint64{2, 0, 0, 2}, []uint64{all[0].Report.Foreign, all[0].Report.Brought, all[1].Report.Foreign,
		all[1].Report.Brought})
	sendRun(t, where, wire.GSIQPN, one.QPN())
	one.take(t, 1)
	sendRun(t, where, one.QPN(), wire.GSIQPN, two.QPN())
	two.take(t, 1) // behind that for the hub
	s, _, err = Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(5), s.Addresses[0].Frames)
	require.Zero(t, s.Addresses[0].FramesLost)
}

// ack is a packet for a queue pair, of which nothing is checked on its way.
func ack(qpn uint32) *wire.Frame {
	f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.FullBody)}
	(*wire.BTH)(f.Body).Put(wire.RCAcknowledge, 0, 0, wire.DefaultPKey, qpn, 0)
	return &f
}

// TestStraysWithoutEnd: however many there are, each is brought or counted, connections are made,
// and who leaves has left.
func TestStraysWithoutEnd(t *testing.T) {
	const many = 20000
	where := alone(t)
	begin(t, Config{Processes: 7})
	one, two := at(t, where, nil), at(t, where, nil)
	l := listen(t, two, where, 7400)
	third, err := roce.Open("hub:"+where, nil)
	require.NoError(t, err)
	for _, d := range []*roce.Device{one, third} {
		for range many {
			hub.Of(d).Foreign(ack(2 << wire.OwnerShift))
		}
	}
	require.NoError(t, third.Close())
	_, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2, "it has left")
	ends := meet(t, l, one)
	leave(t, ends[0], ends[1])
	s, all, err := Ask(t.Context()) // behind all that was brought
	require.NoError(t, err)
	a, r := s.Addresses[0], all[1].Report
	require.NotZero(t, r.Brought)
	require.Equal(t, a.Frames, r.Brought)
	require.LessOrEqual(t, uint64(many), all[0].Report.ForeignLost+a.Frames+a.FramesLost)
}

// TestStrange: what is no packet, or the sender's own, is not brought.
func TestStrange(t *testing.T) {
	where := alone(t)
	begin(t, Config{Processes: 7})
	d := at(t, where, nil)
	c := hub.Of(d)
	for _, f := range []wire.Frame{
		{},
		{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.MinBody-1)},
		{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.FullBody+1)},
		{Head: make([]byte, wire.Head6Len-1), Body: make([]byte, wire.MinBody)},
	} {
		c.Foreign(&f)
	}
	for _, qpn := range []uint32{1 << wire.OwnerShift, 7 << wire.OwnerShift} { // its own; nobody's
		f := wire.Frame{Head: make([]byte, wire.Head4Len), Body: make([]byte, wire.MinBody)}
		(*wire.BTH)(f.Body).Put(wire.RCAcknowledge, 0, 0, wire.DefaultPKey, qpn, 0)
		c.Foreign(&f)
	}
	l := listen(t, d, where, 7400) // answered after all that
	require.NotNil(t, l)
	s, _, err := Ask(t.Context())
	require.NoError(t, err)
	a := s.Addresses[0]
	require.Equal(t, [3]uint64{0, 1, 1}, [3]uint64{a.Frames, a.FramesLost, a.Strange})
}
