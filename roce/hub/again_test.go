//go:build linux

package hub

// What a review has proved of hubs that come anew: whom they wait for, whom they disturb.

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/udp"
)

// stop has a process stand still, and waits until it does.
func (p *part) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		require.NoError(t, err)
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && rest[0] == 'T' {
			return
		}
	}
}

// here waits until so many processes have called the hub, whose next answer it returns.
func here(t *testing.T, n int) (s Status) {
	t.Helper()
	for {
		s, all, err := Ask(t.Context())
		require.NoError(t, err)
		called := 0
		for _, p := range all {
			if !p.Away {
				called++
			}
		}
		if called >= n {
			return s
		}
	}
}

// TestTwoNames: who has an address by the name of its interface, and who by its own, are together,
// also at the next hub.
func TestTwoNames(t *testing.T) {
	alone(t)
	h := begin(t, Config{Processes: 3})
	cfg := &roce.Config{}
	cfg.Transport.UDPPort = ownPort
	at(t, "lo", cfg)
	at(t, "127.0.0.1", cfg)
	h.end()
	begin(t, Config{Processes: 3})
	require.Len(t, here(t, 2).Addresses, 1)
}

// TestStopped: a process that stands still while hubs come and go keeps its slot, its listener and
// its connections; who calls it waits.
func TestStopped(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 7})
	p := start(t, lone(own, firstPort))
	p.says(t, "begins")
	t.Cleanup(p.kill)
	d := &rsocket.Dialer{Options: rsocket.Options{Devices: []*roce.Device{at(t, own, nil)}}}
	server := net.JoinHostPort(own, "7300")
	before, err := d.Dial(t.Context(), server)
	require.NoError(t, err)
	p.stop(t)
	for range 2 {
		h.end()
		h = begin(t, Config{Processes: 7})
		here(t, 1)
	}
	dialed := make(chan error, 1)
	go func() {
		c, err := d.Dial(t.Context(), server)
		if err == nil {
			c.Close()
		}
		dialed <- err
	}()
	s, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.Addresses[0].Left)
	require.Len(t, all, 2)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	require.NoError(t, <-dialed)
	_, err = before.Write([]byte("x"))
	require.NoError(t, err)
	_, err = before.Read(make([]byte, 1))
	require.NoError(t, err)
	before.Close()
}

// TestPsOfStopped: processes that do not answer keep nobody from being told of the others, and no
// hub from its end.
func TestPsOfStopped(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 7})
	for i := range 3 {
		p := start(t, lone(own, firstPort+i))
		p.says(t, "begins")
		t.Cleanup(p.kill)
		p.stop(t)
	}
	at(t, own, nil)
	for range 2 {
		_, all, err := Ask(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 4)
	}
	h.end()
}

// TestOneStopped: a process that stands still does not hide what those behind it say.
func TestOneStopped(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 7})
	p := start(t, lone(own, firstPort))
	p.says(t, "begins")
	t.Cleanup(p.kill)
	p.stop(t)
	at(t, own, nil)
	_, all, err := Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Nil(t, all[0].Report)
	require.NotNil(t, all[1].Report)
}

// TestUnknown: a process that says what the hub does not understand learns that its call has ended.
func TestUnknown(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 3})
	conn, err := hub.Dial(t.Context(), false)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Say(hub.KindJoin, hub.Join{Version: hub.Version, Where: own, Lanes: 1, UDPPort: 4791}))
	h, err := conn.Hear()
	require.NoError(t, err)
	h.Close()
	require.NoError(t, conn.Say(hub.Kind('Z'), nil))
	_, err = conn.Hear()
	require.Error(t, err)
}

// TestYoung: an automatic choice finds the processes of an address at a hub that they have not
// called yet.
func TestYoung(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 7})
	at(t, own, nil)
	here(t, 1)
	h.end()
	begin(t, Config{Processes: 7})
	d, err := roce.Open("auto:"+own, nil)
	require.NoError(t, err)
	require.Contains(t, d.PortInfo().Why, "share")
	require.NoError(t, d.Close())
}

// TestFirstThreadEnds: a process whose first thread has ended lives, and keeps its slot, whether or
// not it can call.
func TestFirstThreadEnds(t *testing.T) {
	own := alone(t)
	p := start(t, "leader")
	p.says(t, "begins")
	t.Cleanup(p.kill)
	list, err := udp.MakeSlots([]netip.Addr{netip.MustParseAddr(own)}, 2, 1, transport.Options{})
	require.NoError(t, err)
	defer list[0].Close()
	defer list[1].Close()
	_, err = unix.FcntlInt(uintptr(list[1].FDs[0][0]), unix.F_SETOWN, p.Process.Pid)
	require.NoError(t, err)
	for { // it says so before it does
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
		require.NoError(t, err)
		if len(all) == 0 {
			break
		}
	}
	require.True(t, (&process{pid: p.Process.Pid}).uses(&list[1]))
	require.False(t, (&process{pid: p.Process.Pid}).uses(&list[0]))
}

// TestNobodys: a slot that nobody has opened, of a process that lives and has said nothing of its
// end, is given back.
func TestNobodys(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 1})
	conn, err := hub.Dial(t.Context(), false)
	require.NoError(t, err)
	require.NoError(t, conn.Say(hub.KindJoin, hub.Join{Version: hub.Version, Where: own, Lanes: 1, UDPPort: 4791}))
	h, err := conn.Hear()
	require.NoError(t, err)
	h.Close()
	_, err = roce.Open("hub:"+own, nil)
	require.ErrorContains(t, err, "1 of "+own)
	require.NoError(t, conn.Close()) // without a word
	for {
		d, err := roce.Open("hub:"+own, nil)
		if err == nil {
			require.NoError(t, d.Close())
			return
		}
		require.ErrorContains(t, err, "1 of "+own)
	}
}

// TestAnotherProgram: a process becomes another program, which knows nothing of the device: its
// slot is given back.
func TestAnotherProgram(t *testing.T) {
	own := alone(t)
	begin(t, Config{Processes: 1})
	p := start(t, "another hub:"+own)
	p.says(t, "begins")
	t.Cleanup(p.kill)
	for {
		d, err := roce.Open("hub:"+own, nil)
		if err == nil {
			require.NoError(t, d.Close())
			return
		}
		require.ErrorContains(t, err, "1 of "+own)
	}
}

// TestStartIsTaken: a process that stands still while it is to start a hub keeps nobody from
// closing a device.
func TestStartIsTaken(t *testing.T) {
	own := alone(t)
	t.Setenv(ProgramVar, "false")
	h := begin(t, Config{Processes: 3})
	d, err := roce.Open("hub:"+own, nil)
	require.NoError(t, err)
	f, err := os.OpenFile(h.Path()+".start", os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	h.end()
	require.NoError(t, d.Close()) // while f has the lock
}

// TestManyServices: a process that listens on more than fits into a message is known to the next
// hub.
func TestManyServices(t *testing.T) {
	own := alone(t)
	h := begin(t, Config{Processes: 3})
	c := hub.Of(at(t, own, nil))
	const many = 1000
	for i := range uint64(many) {
		_, err := c.Listen(Service{ID: i})
		require.NoError(t, err)
	}
	h.end()
	begin(t, Config{Processes: 3})
	here(t, 1)
	other := hub.Of(at(t, own, nil))
	for i := range uint64(many) {
		taken, _ := other.Listen(Service{ID: i})
		require.True(t, taken, i)
	}
}
