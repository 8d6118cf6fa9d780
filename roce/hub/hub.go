//go:build linux

package hub

// The hub of a user in a network namespace.
//
// Stages: its socket, of which there is one; who calls; addresses, made when somebody wants one,
// and given up when nobody has; the end, after a while of nothing.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

// DefaultProcesses is how many processes can have an address at a time.
const DefaultProcesses = 127

const (
	// lookAround is how often the hub looks whether an address has nobody any more.
	lookAround = 500 * time.Millisecond
	// earlier is how long after its start a hub waits for the processes of an earlier one, which
	// call as soon as they notice, if somebody else wants an address that they have.
	earlier = 3 * time.Second
)

// ProgramVar is the environment variable that names the command roce, for processes that start a
// hub; else it is looked for beside the program that runs, and in PATH. "none" starts none.
const ProgramVar = hub.ProgramVar

// FolderVar is the environment variable that has the folder of a hub's socket. Without it that is
// /run/user/UID/goroce, or where there is no such place /tmp/goroce-UID.
const FolderVar = hub.FolderVar

// Config is what a hub is like. The zero value is right for most uses.
type Config struct {
	// Processes is how many can have an address, one less than a power of two, up to 255; 0 is
	// DefaultProcesses. With more each has fewer queue pair numbers. Where each has several
	// sockets, of several addresses or lanes, there are fewer, 15 at least: docs/library.md.
	Processes int
	// Idle, if not 0, ends Serve when nobody has called for so long.
	Idle time.Duration
	// Log, if not nil, is told what happens.
	Log func(format string, args ...any)
}

// Hub is the hub.
type Hub struct {
	Config
	path string
	lock *os.File
	ln   *net.UnixListener

	began  time.Time
	before []had // what an earlier hub had when it ended

	mu        sync.Mutex
	addresses map[key]*address
	calls     int       // connections that are served
	quiet     time.Time // since when there is nothing to do
	calling   sync.WaitGroup
}

// ErrNone says that there is no hub of this user and network namespace, and none could be started.
var ErrNone = hub.ErrNoHub

// ErrRunning says that this user has a hub in this network namespace.
var ErrRunning = errors.New("there is a hub of this user in this network namespace already")

// New opens the socket to which processes call. The error is ErrRunning, or says which folder
// cannot be used, or which value is wrong.
func New(cfg Config) (*Hub, error) {
	if cfg.Processes == 0 {
		cfg.Processes = DefaultProcesses
	}
	if n := cfg.Processes + 1; n < 2 || n > wire.MaxOwners || n&(n-1) != 0 {
		return nil, fmt.Errorf("%d processes: want one less than a power of two, 1 to %d", cfg.Processes,
			wire.MaxOwners-1)
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	path, err := hub.SocketPath()
	if err != nil {
		return nil, err
	}
	h := &Hub{Config: cfg, path: path, addresses: map[key]*address{}, began: time.Now(), quiet: time.Now()}
	if h.lock, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(h.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		h.lock.Close()
		return nil, fmt.Errorf("%w (%s)", ErrRunning, path)
	}
	// Whoever had it is gone, for the lock was free.
	h.before = readList(path)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.lock.Close()
		return nil, err
	}
	if h.ln, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}); err != nil {
		h.lock.Close()
		return nil, err
	}
	return h, nil
}

// Path is where the socket is.
func (h *Hub) Path() string { return h.path }

func (h *Hub) log(format string, args ...any) { h.Log(format, args...) }

// Serve takes calls until ctx ends, or for Config.Idle nobody has called. Processes that have a
// slot then go on, and call the next hub.
func (h *Hub) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { h.ln.Close() })
	defer stop()
	h.calling.Go(func() { h.tidy(ctx, cancel) })
	for {
		c, err := h.ln.AcceptUnix()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			h.log("%v", err)
			time.Sleep(lookAround / 10)
			continue
		}
		if err != nil {
			cancel()
			h.calling.Wait()
			return h.close(ctx, err)
		}
		h.begin(1)
		h.calling.Go(func() {
			defer h.begin(-1)
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			if err := h.serve(ctx, hub.NewConn(c)); err != nil {
				h.log("%v", err)
			}
		})
	}
}

// begin counts calls.
func (h *Hub) begin(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls += n
}

func (h *Hub) close(ctx context.Context, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		a.close()
	}
	h.lock.Close()
	if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// tidy gives up addresses that nobody has, and ends the hub when nobody comes.
func (h *Hub) tidy(ctx context.Context, end func()) {
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if h.idle() {
			end()
			return
		}
	}
}

// idle gives up addresses, and tells whether the hub has been idle for long enough.
func (h *Hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tidyUp()
	if h.calls > 0 || len(h.addresses) > 0 {
		h.quiet = time.Now()
	}
	return h.Idle > 0 && time.Since(h.quiet) > h.Idle
}

// tidyUp gives up addresses that nobody has. The caller has the lock.
func (h *Hub) tidyUp() {
	for k, a := range h.addresses {
		if a.idle() {
			h.log("%s is given up", a.where)
			a.close()
			delete(h.addresses, k)
			h.list()
		}
	}
}

// join gives a process its slot.
func (h *Hub) join(p *process, j *hub.Join, files []int) (*address, error) {
	if j.Version != hub.Version {
		return nil, fmt.Errorf("this hub speaks version %d, and the process %d: end one of them", hub.Version,
			j.Version)
	}
	k := key{j.Where, j.UDPPort}
	if j.Again != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		a, err := h.again(k, j, files)
		if err != nil {
			return nil, err
		}
		return a, a.rejoin(p, j.Again)
	}
	for {
		a, err := h.give(p, k, j.Lanes)
		if !errors.Is(err, unix.EADDRINUSE) || time.Since(h.began) > earlier || !h.awaits(k) {
			return a, err
		}
		time.Sleep(lookAround / 10)
	}
}

// give gives a process a slot of an address, which it makes if it is not there.
func (h *Hub) give(p *process, k key, lanes int) (a *address, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a = h.find(k); a == nil {
		if a, err = newAddress(k, lanes, h.Processes+1, h.log); err != nil {
			h.tidyUp() // it may have been one of another name
			a, err = newAddress(k, lanes, h.Processes+1, h.log)
		}
		if err != nil {
			return nil, h.overlaps(k, err)
		}
		h.addresses[k] = a
		h.list()
	}
	if a.lanes != lanes {
		return nil, fmt.Errorf("%s has %d lanes, as its first process wanted: all have as many", a.where, a.lanes)
	}
	return a, a.join(p)
}

// overlaps says which address that processes share has one of an interface, if that is the error.
// The caller has the lock.
func (h *Hub) overlaps(k key, err error) error {
	rows, _ := udp.Addresses(k.where)
	for other, a := range h.addresses {
		has := func(r netip.Addr) bool { return slices.Contains(rows, r) }
		if other.port == k.port && slices.ContainsFunc(a.addrs, has) {
			return fmt.Errorf("%w: processes share %s by that name (roce ps), and it cannot be of %s too: "+
				"name the same, or end them", err, other.where, k.where)
		}
	}
	return err
}

// find returns the address, or the interface that has it; nil: neither is there. The caller has the
// lock.
func (h *Hub) find(k key) *address {
	if a := h.addresses[k]; a != nil {
		return a
	}
	addr, err := netip.ParseAddr(k.where)
	if err != nil {
		return nil
	}
	for other, a := range h.addresses {
		if other.port == k.port && slices.Contains(a.addrs, addr) {
			return a
		}
	}
	return nil
}

// again finds the address that a process has a slot of, or takes it over. The caller has the lock.
func (h *Hub) again(k key, j *hub.Join, files []int) (*address, error) {
	if a := h.addresses[k]; a != nil {
		return a, nil
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%d descriptors, want the shelf", len(files))
	}
	shelf, err := unix.FcntlInt(uintptr(files[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	a, err := takeAddress(k, j.Lanes, &j.Again.Joined, shelf, h.log)
	if err != nil {
		return nil, err
	}
	h.addresses[k] = a
	h.list()
	h.log("%s is taken over from an earlier hub, with %d slots", a.where, len(a.slots))
	return a, nil
}

// had is an address that a hub has, as it is written down for the one that comes next.
type had struct {
	Port  int
	Addrs []netip.Addr
}

// list writes that down. The caller has the lock.
func (h *Hub) list() {
	var all []had
	for k, a := range h.addresses {
		all = append(all, had{k.port, a.addrs})
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(h.path+".has", b, 0o600)
	}
	if err != nil {
		h.log("%v", err)
	}
}

// readList reads it; what cannot be read is nothing.
func readList(path string) (all []had) {
	if b, err := os.ReadFile(path + ".has"); err == nil {
		json.Unmarshal(b, &all)
	}
	return all
}

// awaits tells whether processes of an earlier hub may have one of the addresses.
func (h *Hub) awaits(k key) bool {
	rows, _ := udp.Addresses(k.where)
	row := func(a netip.Addr) bool { return slices.Contains(rows, a) }
	return slices.ContainsFunc(h.before, func(b had) bool {
		return b.Port == k.port && slices.ContainsFunc(b.Addrs, row)
	})
}
