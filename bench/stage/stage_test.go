//go:build linux

package stage

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func newStage(t *testing.T) *Stage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err) // the plays of these tests are shell scripts
	}
	s, err := New(9000)
	if err != nil {
		t.Skip(err) // root in a container may lack the right too
	}
	t.Cleanup(s.Close)
	return s
}

func TestEndsAreApart(t *testing.T) {
	s := newStage(t)
	for _, e := range []*End{s.A, s.B} {
		out, err := e.Run(context.Background(), Program{Args: []string{"sh", "-c", "ls /sys/class/net; grep Cpus_allowed_list /proc/self/status; echo $WHO"},
			Env: []string{"WHO=" + e.Name}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		peer := s.Peer(e)
		for _, want := range []string{e.Interface, e.Name, "\t" + string(rune('0'+e.CPU)) + "\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not in %q", e.Name, want, out)
			}
		}
		if strings.Contains(string(out), peer.Interface) {
			t.Errorf("%s sees %s: %q", e.Name, peer.Interface, out)
		}
	}
}

// Both links take the new MTU.
func TestSetMTU(t *testing.T) {
	s := newStage(t)
	for _, mtu := range []string{"1500", "9000"} {
		n, _ := strconv.Atoi(mtu)
		if err := s.SetMTU(n); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*End{s.A, s.B} {
			out, err := e.Run(context.Background(), Program{Args: []string{"cat", "/sys/class/net/" + e.Interface + "/mtu"}}, time.Minute)
			if err != nil || strings.TrimSpace(string(out)) != mtu {
				t.Errorf("%s: MTU %q, %v; want %s", e.Name, out, err, mtu)
			}
		}
	}
}

func TestPlays(t *testing.T) {
	s := newStage(t)
	sh := func(script string) Program { return Program{Args: []string{"sh", "-c", script}} }
	t.Run("both say something", func(t *testing.T) {
		o, err := s.Run(context.Background(), Play{Server: sh("echo served"), Client: sh("echo called"), Limit: time.Minute})
		if err != nil || string(o.Server) != "served\n" || string(o.Client) != "called\n" {
			t.Errorf("%q, %q, %v", o.Server, o.Client, err)
		}
		if !o.Ended.After(o.Began) {
			t.Errorf("the client lived from %v to %v", o.Began, o.Ended)
		}
	})
	t.Run("a server that goes on is killed", func(t *testing.T) {
		// If it is not killed, this lasts for hours.
		o, err := s.Run(context.Background(), Play{Server: sh("sleep 86400 & sleep 86400"), Client: sh("echo called"), Limit: 24 * time.Hour})
		if err != nil || string(o.Client) != "called\n" {
			t.Errorf("%q, %v", o.Client, err)
		}
	})
	for _, c := range []struct {
		name string
		play Play
		want string
	}{
		{"failing client", Play{Server: sh("sleep 86400"), Client: sh("echo what is wrong >&2; exit 3"), Limit: time.Minute}, "what is wrong"},
		{"slow client", Play{Server: sh("sleep 86400"), Client: sh("sleep 86400"), Limit: time.Second}, "did not end in time"},
		{"server that ends before it listens", Play{Server: sh("echo no such device >&2; exit 1"), Client: sh("true"), Ready: Port{"tcp", 5201}, Limit: time.Minute}, "no such device"},
		{"no such program", Play{Server: Program{Args: []string{"/no/such/program"}}, Client: sh("true"), Limit: time.Minute}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := s.Run(context.Background(), c.play); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}
