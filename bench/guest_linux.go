package main

// Beside rxe: a guest with a real Soft-RoCE, a veth pair in it, and both stacks on that pair in turn, rxe with perftest,
// goroce with roce perf.
//
// Both ends of the pair stay in the guest's first network namespace, since rxe receives only there. Without more, the kernel
// would carry packets between two local addresses over lo: policy rules give each direction its way out of one end and in at
// the other.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/interop/lab"
)

// guestRoce is where our command lies in the guest.
const guestRoce = "/bench/roce"

// guestSetup runs in the guest line by line.
var guestSetup = strings.Split(strings.TrimSpace(`
sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.default.accept_local=1 net.ipv4.conf.all.accept_local=1
ip link add veth0 mtu 9000 address 02:00:5e:00:01:01 type veth peer name veth1 mtu 9000 address 02:00:5e:00:01:02
ip addr add 198.51.100.1/24 dev veth0
ip addr add 198.51.100.2/24 dev veth1
ip link set veth0 up
ip link set veth1 up
ip neigh replace 198.51.100.2 lladdr 02:00:5e:00:01:02 dev veth0 nud permanent
ip neigh replace 198.51.100.1 lladdr 02:00:5e:00:01:01 dev veth1 nud permanent
ip route add 198.51.100.2 dev veth0 src 198.51.100.1 table 101
ip route add 198.51.100.1 dev veth1 src 198.51.100.2 table 102
ip rule add pref 10 iif veth0 lookup local
ip rule add pref 11 iif veth1 lookup local
ip rule add pref 20 from 198.51.100.1 to 198.51.100.2 lookup 101
ip rule add pref 21 from 198.51.100.2 to 198.51.100.1 lookup 102
ip rule add pref 30 lookup local
ip rule del pref 0
rdma link add rxeA type rxe netdev veth0
rdma link add rxeB type rxe netdev veth1
`), "\n")

// guest is a booted guest as a theatre.
type guest struct{ *lab.Lab }

// openGuest boots a guest with our command in it and joins the pair.
func openGuest(ctx context.Context, roce string) (*guest, error) {
	if missing := lab.Missing(); len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "; "))
	}
	l, err := lab.Start(ctx, lab.Config{Files: map[string]string{guestRoce: roce}})
	if err != nil {
		return nil, err
	}
	for _, line := range guestSetup {
		if out, err := l.Command(ctx, "sh", "-c", line).CombinedOutput(); err != nil {
			l.Close()
			return nil, fmt.Errorf("%s: %w: %s", line, err, bytes.TrimSpace(out))
		}
	}
	return &guest{l}, nil
}

// gidIndexes finds the rows of rxe's GID tables that hold the addresses of the pair.
func (g *guest) gidIndexes(ctx context.Context) (map[string]int, error) {
	index := map[string]int{}
	for _, s := range []Side{guestA, guestB} {
		dev := rxeOn[s.Interface]
		four := s.Addr.As4()
		want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", four[0], four[1], four[2], four[3])
		for i := range 16 {
			text, err := g.ReadFile(ctx, fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", dev, i))
			if err == nil && strings.TrimSpace(string(text)) == want {
				index[dev] = i
			}
		}
		if _, ok := index[dev]; !ok {
			return nil, fmt.Errorf("%s has no GID for %s", dev, s.Addr)
		}
	}
	return index, nil
}

func (g *guest) describe() string {
	return "Linux " + g.Kernel() + " under QEMU's emulation (TCG), 2 processors, two addresses on a veth pair of MTU 9000"
}

// slower is how much more time plays get in the guest than here.
const slower = 3

// perform plays in the guest.
func (g *guest) perform(ctx context.Context, p Play, limit time.Duration) (server, client []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, slower*limit)
	defer cancel() // and with it kills a server that goes on
	for _, c := range p.Before {
		if out, err := g.command(ctx, c).CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, bytes.TrimSpace(out))
		}
	}
	var said, complained bytes.Buffer
	s := g.command(ctx, p.Server)
	s.Stdout, s.Stderr = &said, &complained
	if err := s.Start(); err != nil {
		return nil, nil, err
	}
	if err := g.WaitListening(ctx, p.Port); err != nil {
		return nil, nil, fmt.Errorf("server: %w: %s", err, &complained)
	}
	client, err = g.command(ctx, p.Client).Output()
	if err != nil {
		return nil, client, fmt.Errorf("client: %w: %s", err, lastLine(client))
	}
	select {
	case <-s.Done():
	case <-time.After(slower * time.Second):
		s.Signal(syscall.SIGKILL)
		<-s.Done()
	}
	return said.Bytes(), client, nil
}

func (g *guest) command(ctx context.Context, c Command) *lab.Cmd {
	return g.Command(ctx, c.Args[0], c.Args[1:]...)
}
