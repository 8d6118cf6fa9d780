package play

// Beside rxe: a guest with a real Soft-RoCE, a veth pair in it, and both stacks on that pair in
// turn, rxe with perftest, goroce with roce perf.
//
// The pair is made anew before each play, by guest_wire.sh.

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/interop/lab"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

//go:embed guest_wire.sh
var guestWireScript string

// guest is a booted guest as a theatre.
type guest struct{ *lab.Lab }

// openGuest boots the guest with rxe.
func openGuest(ctx context.Context, roce string) (*guest, error) {
	g, err := bootGuest(ctx, roce, lab.Config{})
	if err != nil {
		return nil, err
	}
	if err := g.PutFile(ctx, repertoire.GuestWire, 0o755, strings.NewReader(guestWireScript)); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// openWire boots a guest with the wire between two cards (interop/wire_test.go has the same), on a
// kernel whose driver does zero-copy.
func openWire(ctx context.Context, roce string) (*guest, error) {
	g, err := bootGuest(ctx, roce, lab.Config{Suite: "trixie-backports", Kernel: "7.3," + lab.NewestKernel, Wire: true})
	if err != nil {
		return nil, err
	}
	if out, err := g.Command(ctx, "sh", "-e", "-c", repertoire.WireScript).CombinedOutput(); err != nil {
		g.Close()
		return nil, fmt.Errorf("the wire: %w: %s", err, out)
	}
	return g, nil
}

// bootGuest boots a guest with our command and this program in it.
func bootGuest(ctx context.Context, roce string, cfg lab.Config) (*guest, error) {
	if missing := lab.Missing(); len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "; "))
	}
	this, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cfg.Files = map[string]string{repertoire.GuestRoce: roce, repertoire.GuestBench: this}
	l, err := boot(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &guest{l}, nil
}

// boot tries three times: under emulation a busy machine's guest now and then dies while it starts.
func boot(ctx context.Context, cfg lab.Config) (l *lab.Lab, err error) {
	for range 3 {
		if l, err = lab.Start(ctx, cfg); err == nil || ctx.Err() != nil {
			return l, err
		}
	}
	return nil, err
}

func (g *guest) describe() string {
	return "Linux " + g.Kernel() +
		" under QEMU's emulation (TCG), 2 processors, two addresses on a veth pair of MTU 9000"
}

// slower is how much more time plays get in the guest than here.
const slower = 3

// perform plays in the guest, whose processor time says nothing of a machine's.
func (g *guest) perform(ctx context.Context, p figures.Play, limit time.Duration) (said heard, err error) {
	ctx, cancel := context.WithTimeout(ctx, slower*limit)
	defer cancel() // and with it kills a server that goes on
	for _, c := range p.Before {
		if out, err := g.command(ctx, c).CombinedOutput(); err != nil {
			return said, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, bytes.TrimSpace(out))
		}
	}
	var printed, complained bytes.Buffer
	s := g.command(ctx, p.Server)
	s.Stdout, s.Stderr = &printed, &complained
	if err := s.Start(); err != nil {
		return said, err
	}
	if err := g.waitListening(ctx, s, p); err != nil {
		return said, fmt.Errorf("server: %w: %s", err, &complained)
	}
	said.client, err = g.command(ctx, p.Client).Output()
	if err != nil {
		s.Signal(syscall.SIGKILL)
		<-s.Done()
		return said, fmt.Errorf("client: %w: %s; server: %s %s", err, repertoire.LastLine(said.client),
			repertoire.LastLine(printed.Bytes()), &complained)
	}
	select {
	case <-s.Done():
	case <-time.After(slower * time.Second):
		s.Signal(syscall.SIGKILL)
		<-s.Done()
	}
	said.server = printed.Bytes()
	return said, nil
}

func (g *guest) command(ctx context.Context, c figures.Command) *lab.Cmd {
	return g.Command(ctx, c.Args[0], c.Args[1:]...)
}

// waitListening waits until the server listens, in the namespace that it was started in.
func (g *guest) waitListening(ctx context.Context, server *lab.Cmd, p figures.Play) error {
	look := fmt.Sprintf("grep -q ':%04X [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6", p.Port)
	if p.Server.Args[0] == "ip" { // ip netns exec NAME
		look = strings.Join(p.Server.Args[:4], " ") + " " + look
	}
	ctx, cancel := context.WithTimeout(ctx, slower*15*time.Second)
	defer cancel()
	listening := g.Command(ctx, "sh", "-c", "until "+look+"; do sleep 0.05; done")
	if err := listening.Start(); err != nil {
		return err
	}
	select {
	case <-listening.Done():
		return ctx.Err()
	case <-server.Done():
		cancel()
		return fmt.Errorf("%s: ended before it listened", strings.Join(p.Server.Args, " "))
	}
}
