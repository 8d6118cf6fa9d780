//go:build linux

package hub

// What processes at a hub cannot do to each other by mistake, and what other users and children of
// processes get, which is nothing.
//
// Stages: another user, who gets as far as the socket; children; keys; queue pairs; communication
// IDs.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// beStranger calls a hub by its socket, whose folder it has not looked at, and asks it for an
// address and for what it knows. It prints what comes.
func beStranger(path, where string) error {
	for _, ask := range []struct {
		kind hub.Kind
		what any
	}{{hub.KindJoin, hub.Join{Version: hub.Version, Where: where, Lanes: 1, UDPPort: 4791}}, {hub.KindStatus, nil}} {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			return err
		}
		conn := hub.NewConn(c)
		conn.Say(ask.kind, ask.what) // the hub may have refused already
		for {
			h, err := conn.Hear()
			if err != nil {
				break
			}
			fmt.Printf("%c: %d files: %s\n", h.Kind, len(h.Files), h.Body)
			h.Close()
		}
		conn.Close()
	}
	return nil
}

// TestStranger: another user's process gets nothing, even where the folder and the socket are open
// to it by somebody's mistake: the hub asks the kernel who calls.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user too")
	}
	own := alone(t)
	h := begin(t, Config{Processes: 3})
	at(t, own, nil)
	folder := filepath.Dir(h.Path())
	for at := folder; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	require.NoError(t, os.Chmod(h.Path(), 0o777))
	copied, err := nobody.Copies(os.Args[0])
	require.NoError(t, err)
	defer os.RemoveAll(copied)
	other := exec.Command(filepath.Join(copied, filepath.Base(os.Args[0])))
	other.Env = append(os.Environ(), partVar+"=stranger "+h.Path()+" "+own)
	nobody.Runs(t, other)
	said, err := other.CombinedOutput()
	require.NoError(t, err, "%s", said)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	require.Len(t, lines, 2, "%s", said)
	for _, line := range lines {
		require.Contains(t, line, "J: 0 files: ")
		require.Contains(t, line, fmt.Sprintf("is user %d's, and this is user 0's hub", nobody.ID))
	}
	require.NoError(t, os.Chmod(folder, 0o700)) // for who calls again
}

// kept are the descriptors of this process that a program would have which takes its place.
func kept(t *testing.T) (list []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range all {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestChildren: no descriptor of a hub, and none of a process at it, is left to a program that it
// starts, however it does that; nor where the process has them from an earlier hub.
func TestChildren(t *testing.T) {
	own := alone(t)
	before := kept(t)
	h := begin(t, Config{Processes: 3})
	d := at(t, own, &roce.Config{Lanes: 2})
	listen(t, d, own, 7400)
	require.Equal(t, before, kept(t))
	h.end()
	begin(t, Config{Processes: 3})
	here(t, 1)
	require.Equal(t, before, kept(t))
}

// party is a process's part of what follows: a queue pair, and memory that peers may write.
type party struct {
	qp     *roce.QP
	mr     *roce.MR
	memory []byte
}

// partyAt makes one at the hub, as its own process would.
func partyAt(t *testing.T, where string) *party {
	t.Helper()
	d := at(t, where, nil)
	m := &party{memory: make([]byte, 64)}
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(roce.CQInitAttr{CQE: 16})
	require.NoError(t, err)
	m.qp, err = pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	require.NoError(t, err)
	m.mr, err = pd.RegMR(m.memory, roce.LocalWrite|roce.RemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{m.qp, m.mr, cq, pd} {
			require.NoError(t, c.Close())
		}
	})
	return m
}

// joined are two of them whose queue pairs are connected.
func joined(t *testing.T, where string) (a, b *party) {
	t.Helper()
	a, b = partyAt(t, where), partyAt(t, where)
	a.connect(t, b)
	b.connect(t, a)
	return a, b
}

// connect connects a queue pair to that of another, who need not know. It does not wait long for
// answers.
func (m *party) connect(t *testing.T, to *party) {
	t.Helper()
	o := roce.DefaultConnectOptions()
	o.Timeout, o.RetryCnt = 10, 2
	require.NoError(t, m.qp.Connect(t.Context(), to.qp.Endpoint(), &o))
}

// write writes some bytes by the keys of regions, and returns how that ended.
func (m *party) write(t *testing.T, from roce.SGE, to, key *party) roce.WCStatus {
	t.Helper()
	require.NoError(t, m.qp.PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled, SGL: []roce.SGE{from},
		RemoteAddr: to.mr.Addr(), RKey: key.mr.RKey()}))
	var wcs [1]roce.WC
	_, err := m.qp.SendCQ().Wait(context.Background(), wcs[:])
	require.NoError(t, err)
	return wcs[0].Status
}

// TestKeys: a key opens nothing at another process of the address, neither for a peer nor for the
// process that names it as its own.
func TestKeys(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	a, b := joined(t, own)
	third := partyAt(t, own)
	copy(a.memory, "what is meant for b")
	require.Equal(t, roce.WCSuccess, a.write(t, a.mr.SGE(0, 64), b, b))
	require.Equal(t, a.memory, b.memory)
	require.Equal(t, roce.WCRemAccessErr, a.write(t, a.mr.SGE(0, 64), third, third))
	require.Equal(t, make([]byte, 64), third.memory)

	c, d := joined(t, own)
	wrong := c.mr.SGE(0, 64)
	wrong.LKey = third.mr.LKey()
	require.Equal(t, roce.WCLocProtErr, c.write(t, wrong, d, d))
	require.Equal(t, make([]byte, 64), d.memory)
}

// TestQueuePairs: numbers are of the process's slot, and who sends to the queue pair of a connection
// that is another's changes nothing there, though it has the same address as the peer, and the key.
func TestQueuePairs(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	a, b := joined(t, own)
	third := partyAt(t, own)
	_, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, p := range all {
		require.Len(t, p.Report.QueuePairs, 1)
		require.True(t, wire.QPNSpace{}.Owner(p.Slot, 8).Owns(p.Report.QueuePairs[0].QPN))
	}
	copy(third.memory, "what b should not have")
	third.connect(t, b)
	require.Equal(t, roce.WCRetryExcErr, third.write(t, third.mr.SGE(0, 64), b, b))
	require.Equal(t, make([]byte, 64), b.memory)
	copy(a.memory, "what is meant for b")
	require.Equal(t, roce.WCSuccess, a.write(t, a.mr.SGE(0, 64), b, b))
	require.Equal(t, a.memory, b.memory)
}

// TestCommIDs: the hub sends nothing that a process says with another's communication ID, or from
// an address that it has not.
func TestCommIDs(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 3})
	at(t, own, nil)
	two := hub.QP1{Client: hub.Of(at(t, own, nil))}
	here := roce.GID(netip.MustParseAddr(own).As16())
	for i, c := range []struct {
		id   uint32
		from roce.GID
	}{{hub.CommIDOf(1)(77), here}, {hub.CommIDOf(0)(77), here}, {two.CommID(77), roce.GID{15: 1}}} {
		m := new(wire.MAD)
		wire.PutCM(m, 1, &wire.CMDreq{LocalCommID: c.id, RemoteCommID: 5})
		two.Send(cm.Path{Local: c.from, Remote: here}, m)
		for { // it is said, and not answered
			s, _, err := Ask(t.Context())
			require.NoError(t, err)
			require.Zero(t, s.Addresses[0].Out)
			if s.Addresses[0].Strange == uint64(i+1) {
				break
			}
		}
	}
}
