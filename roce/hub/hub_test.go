//go:build linux

package hub

// A hub in the test's own process, and devices at it, which could be those of others.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/wire"
)

// house is a hub that serves, until end.
type house struct {
	*Hub
	end func()
}

// begin starts a hub in the test's folder.
func begin(t *testing.T, cfg Config) *house {
	t.Helper()
	cfg.Log = func(format string, args ...any) { t.Logf("hub: "+format, args...) }
	h, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(end)
	return &house{h, end}
}

// alone gives the test a folder of its own, and starts no hub by itself. It returns an address.
func alone(t *testing.T) string {
	t.Setenv(FolderVar, filepath.Join(t.TempDir(), "hub"))
	t.Setenv(ProgramVar, "none")
	return netip.AddrFrom4([4]byte{127, 82, byte(os.Getpid() >> 8), byte(os.Getpid())}).String()
}

// at opens a device at the hub.
func at(t *testing.T, where string, cfg *roce.Config) *roce.Device {
	t.Helper()
	d, err := roce.Open("hub:"+where, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func on(d *roce.Device) rdmacm.ConnConfig {
	return rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{d}}}
}

func listen(t *testing.T, d *roce.Device, where string, port int) *rdmacm.Listener {
	t.Helper()
	l, err := rdmacm.Listen(t.Context(), net.JoinHostPort(where, fmt.Sprint(port)), &rdmacm.ListenConfig{ConnConfig: on(d)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// meet connects from a device to a listener, and returns both ends.
func meet(t *testing.T, l *rdmacm.Listener, from *roce.Device) (ends [2]*rdmacm.Conn) {
	t.Helper()
	cfg := on(from)
	dialed := make(chan error, 1)
	go func() {
		var err error
		ends[0], err = rdmacm.Dial(t.Context(), l.Addr().String(), &cfg)
		dialed <- err
	}()
	var err error
	ends[1], err = l.Accept(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-dialed)
	return ends
}

// part has one end leave, and the other notice.
func leave(t *testing.T, first, second *rdmacm.Conn) {
	t.Helper()
	gone := make(chan error, 1)
	go func() {
		<-second.Done()
		gone <- second.Close(context.Background())
	}()
	require.NoError(t, first.Close(t.Context()))
	require.NoError(t, <-gone)
}

// TestShare: devices of one address listen and dial, among themselves and with one that has another
// address; with IPv6, an interface, and several lanes.
func TestShare(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	for _, c := range []struct {
		where, addr string
		lanes       int
	}{{own, own, 1}, {"::1", "::1", 2}, {"lo", "127.0.0.1", 4}} {
		t.Run(fmt.Sprintf("%s with %d lanes", c.where, c.lanes), func(t *testing.T) {
			cfg := &roce.Config{Lanes: c.lanes}
			if c.addr != own {
				cfg.Transport.UDPPort = ownPort
			}
			one, two := at(t, c.where, cfg), at(t, c.where, cfg)
			l, m := listen(t, one, c.addr, 7400), listen(t, two, c.addr, 7401)
			for _, pair := range [][2]*rdmacm.Conn{meet(t, l, two), meet(t, m, two), meet(t, l, one), meet(t, m, one)} {
				leave(t, pair[0], pair[1])
			}
			if c.addr != own {
				return
			}
			other, err := roce.Open("udp:"+strings.Replace(own, "127.82.", "127.83.", 1), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Close()) }()
			pair := meet(t, m, other)
			leave(t, pair[1], pair[0])
		})
	}
}

// ownPort is a UDP port of the test's, where it has no address of its own: other tests have the
// loopback's.
var ownPort = 20_000 + os.Getpid()%10_000

// TestUnnamed: who names no device, or has it chosen, joins the processes that share the address.
func TestUnnamed(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	require.False(t, Has(t.Context(), own, wire.UDPPort))
	at(t, own, nil)
	require.True(t, Has(t.Context(), own, wire.UDPPort))
	require.False(t, Has(t.Context(), own, wire.UDPPort+1))
	chosen, err := roce.Open("auto:"+own, nil)
	require.NoError(t, err)
	require.Contains(t, chosen.PortInfo().Why, "share")
	require.NoError(t, chosen.Close())
	l, err := rsocket.Listen(t.Context(), own+":7400", nil)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	c, err := rsocket.Dial(t.Context(), own+":7400")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Len(t, here(t, 2).Addresses, 1)
}

// TestRefused: what cannot be says why.
func TestRefused(t *testing.T) {
	own := alone(t)
	_, err := roce.Open("hub:"+own, nil)
	require.ErrorIs(t, err, hub.ErrNoHub)
	_, _, err = Ask(t.Context())
	require.ErrorContains(t, err, "no hub of this user runs")
	h := begin(t, Config{Processes: 3})
	_, err = New(Config{})
	require.ErrorIs(t, err, ErrRunning)
	_, err = New(Config{Processes: 4})
	require.ErrorContains(t, err, "one less than a power of two")
	one, _, _ := at(t, own, nil), at(t, own, nil), at(t, own, nil)
	_, err = roce.Open("hub:"+own, nil)
	require.ErrorContains(t, err, "3 of "+own+", as many as a hub is told to have")
	_, err = roce.Open("hub:"+own, &roce.Config{Lanes: 2})
	require.ErrorContains(t, err, "has 1 lanes")
	_, err = roce.Open("hub:192.0.2.77", nil)
	require.ErrorContains(t, err, "192.0.2.77 is not an address of this machine")
	_, err = roce.Open("hub:", nil)
	require.ErrorContains(t, err, "what follows the colon is missing")
	_, err = roce.Open("udp:"+own, nil)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.NoError(t, one.Close())
	at(t, own, nil)
	h.end()
	_, err = roce.Open("hub:"+own, nil)
	require.ErrorIs(t, err, hub.ErrNoHub)
}

// TestTaken: two processes cannot listen on one service of an address, and the second is told who
// does; afterwards it may, and beside it on what says less of the address.
func TestTaken(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 3})
	one, two := hub.Of(at(t, own, nil)), hub.Of(at(t, own, nil))
	s := Service{ID: 77, Address: roce.GID(netip.MustParseAddr(own).As16())}
	listens := func(c *hub.Client, s Service, want string) {
		t.Helper()
		taken, err := c.Listen(s)
		require.Equal(t, want != "", taken)
		if want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err)
		}
	}
	listens(one, s, "")
	listens(two, s, fmt.Sprintf("process %d (%s) listens on service 0x4d of %s", os.Getpid(),
		filepath.Base(os.Args[0]), own))
	listens(two, Service{ID: 77}, "")
	listens(one, Service{ID: 77}, "listens on")
	one.Unlisten(s)
	listens(two, s, "")
}

// TestNewHub: what was there when a hub ends goes on, and is known to the next one: connections can
// be made and ended, listeners are found, slots are whose they were.
func TestNewHub(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 7})
	one, two := at(t, own, nil), at(t, own, nil)
	l := listen(t, one, own, 7400)
	before := meet(t, l, two)
	// One whose messages go through no hub would hear an untimely end.
	other, err := roce.Open("udp:"+strings.Replace(own, "127.82.", "127.83.", 1), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	apart := meet(t, l, other)
	h.end()
	h = begin(t, Config{Processes: 15}) // the address has 7, as it was made
	three := at(t, own, nil)
	during := meet(t, l, three)
	leave(t, before[0], before[1])
	leave(t, during[1], during[0])
	for _, c := range apart {
		select {
		case <-c.Done():
			t.Error("a connection has ended with the hub:", c.Err())
		default:
		}
	}
	leave(t, apart[1], apart[0])
	s, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, s.Addresses[0].Slots)
	require.Len(t, all, 3)
	for i, p := range all {
		require.Equal(t, i+1, p.Slot)
		require.Equal(t, os.Getpid(), p.PID)
		require.NotNil(t, p.Report)
	}
	require.Len(t, all[0].Services, 1)
	h.end()
	require.NoError(t, three.Close(), "a device is closed while there is no hub")
}

// TestKilled: the peers of a process that is killed hear of it from the hub, and its listener is
// gone.
func TestKilled(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	p := start(t, lone(own, firstPort))
	p.says(t, "begins")
	t.Cleanup(p.kill)
	d := &rsocket.Dialer{Options: rsocket.Options{Devices: []*roce.Device{at(t, own, nil)}}}
	c, err := d.Dial(t.Context(), net.JoinHostPort(own, fmt.Sprint(firstPort)))
	require.NoError(t, err)
	p.kill()
	_, err = c.Read(make([]byte, 1)) // without a hub it would wait 25 s for signs of life
	require.Error(t, err)
	c.Close()
	_, err = d.Dial(t.Context(), net.JoinHostPort(own, fmt.Sprint(firstPort)))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	s, _, err := Ask(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Addresses[0].Inherited, uint64(1))
}

// TestIdle: a hub that was started for a process ends some time after the last one, and gives the
// address up before.
func TestIdle(t *testing.T) {
	own := alone(t)
	h, err := New(Config{Idle: time.Second})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- h.Serve(t.Context()) }()
	d, err := roce.Open("hub:"+own, nil)
	require.NoError(t, err)
	require.False(t, h.idle(), "it is used")
	require.NoError(t, d.Close())
	require.NoError(t, <-done)
	d, err = roce.Open("udp:"+own, nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// TestOthers: another user's process gets nothing, and a program that is started by one that has a
// slot gets none of its descriptors.
func TestOthers(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 3})
	at(t, own, nil)
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "socket:")
	require.NotContains(t, string(out), "deck")
	if os.Geteuid() != 0 {
		t.Log("that of another user is not tried: it needs root")
		return
	}
	info, err := os.Stat(filepath.Dir(h.Path()))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	copied, err := nobody.Copies(os.Args[0])
	require.NoError(t, err)
	defer os.RemoveAll(copied)
	other := exec.Command(filepath.Join(copied, filepath.Base(os.Args[0])))
	other.Env = append(os.Environ(), partVar+"="+lone(own, firstPort))
	nobody.Runs(t, other)
	said, err := other.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "permission denied")
}
