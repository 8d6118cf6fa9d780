package interop

// The RDMA connection manager against the kernel's: roce rping against rping.
//
// The guest's server is there when its kernel lists a connection identifier that listens; ours when
// it says so.

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// everyProgram is the environment variable that has the whole matrix of programs played, as make
// programs does, instead of one case of each.
const everyProgram = "GOROCE_PROGRAMS"

// matrix skips what is not that one case, unless the whole matrix is played.
func matrix(t *testing.T, one bool) {
	t.Helper()
	if !one && os.Getenv(everyProgram) == "" {
		t.Skip("played by make programs")
	}
}

// TestRping: pings with every byte compared, both programs as client and as server.
func TestRping(t *testing.T) {
	a := theArena(t)
	games := []struct{ size, pings int }{{100, 20}}
	if os.Getenv(everyProgram) != "" {
		games = []struct{ size, pings int }{{100, 1000}, {64<<10 - 1, 50}}
	}
	for _, f := range []struct {
		name string
		family
	}{{"ipv4", ipv4}, {"ipv6", ipv6}} {
		for _, g := range games {
			for _, role := range roles {
				name := fmt.Sprintf("roce-is-%s/%s/size=%d", role.name, f.name, g.size)
				t.Run(name, func(t *testing.T) { a.rping(t, f.family, role.serving, g.size, g.pings) })
			}
		}
	}
}

// rping plays one game and looks at what both ends say.
func (a *arena) rping(t *testing.T, f family, serving bool, size, pings int) {
	serverAddr := f.guest
	if serving {
		serverAddr = f.host
	}
	server := []string{"-s", "-v", "-a", serverAddr, "-S", strconv.Itoa(size)}
	client := []string{"-c", "-v", "-V", "-a", serverAddr, "-S", strconv.Itoa(size), "-C", strconv.Itoa(pings)}
	d := duel{guest: append([]string{"rping"}, client...), host: append([]string{"rping", "-d"}, server...), serving: serving, rdma: true}
	if !serving {
		d.guest, d.host = append([]string{"rping"}, server...), append([]string{"rping"}, client...)
	}
	r := a.fight(t, d)
	for _, end := range []struct{ name, said, word string }{{"guest", r.guest, "ping data: "}, {"host", r.host, "ping data: "}} {
		if n := strings.Count(end.said, end.word+"rdma-ping-"); n != pings {
			t.Errorf("%s: %d pings, want %d", end.name, n, pings)
		}
	}
}

// waitRDMA waits until the guest's kernel has an identifier that listens on a port. The kernel says
// so a few calls before it does: who is seen twice is there.
func (a *arena) waitRDMA(ctx context.Context, port int) error {
	seen := false
	for {
		out, err := a.Command(ctx, "rdma", "resource", "show", "cm_id").CombinedOutput()
		if err != nil {
			return fmt.Errorf("rdma resource show cm_id: %w: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "state LISTEN") && strings.Contains(line, ":"+strconv.Itoa(port)+" ") {
				if seen {
					return nil
				}
				seen = true
				break // each address of the device may have a line
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing listens on RDMA port %d: %w", port, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond): // between two looks
		}
	}
}

// waitSaying waits until the process has printed a text.
func (e *end) waitSaying(text string) func(ctx context.Context, port int) error {
	return func(ctx context.Context, _ int) error {
		for !strings.Contains(e.out.String(), text) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not say %q: %w", text, context.Cause(ctx))
			case <-time.After(5 * time.Millisecond): // between two looks
			}
		}
		return nil
	}
}
