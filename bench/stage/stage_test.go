//go:build linux

package stage

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// lacks ends a test that this machine can not run: it skips, or fails where the environment says
// that nothing may be missing, as in CI.
func lacks(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("GOROCE_REQUIRE_LAB") != "" {
		t.Fatal("GOROCE_REQUIRE_LAB is set, but ", err)
	}
	t.Skip(err)
}

// needs is lacks for a program.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		lacks(t, err)
	}
}

func newStage(t *testing.T) *Stage {
	t.Helper()
	needs(t, "sh") // the plays of these tests are shell scripts
	s, err := New(9000)
	if err != nil {
		lacks(t, err) // a user who is not root, or root in a container that may not
	}
	t.Cleanup(s.Close)
	return s
}

func TestEndsAreApart(t *testing.T) {
	s := newStage(t)
	for _, e := range []*End{s.A, s.B} {
		out, err := e.Run(context.Background(),
			Program{Args: []string{"sh", "-c", "ls /sys/class/net; grep Cpus_allowed_list /proc/self/status; echo $WHO"},
				Env: []string{"WHO=" + e.Name}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		peer := s.Peer(e)
		for _, want := range []string{e.Interface, e.Name, "\t" + strconv.Itoa(e.CPU) + "\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not in %q", e.Name, want, out)
			}
		}
		if strings.Contains(string(out), peer.Interface) {
			t.Errorf("%s sees %s: %q", e.Name, peer.Interface, out)
		}
	}
}

// Both ends take what a link is to be like, and go back from it.
func TestSetLink(t *testing.T) {
	s := newStage(t)
	for _, l := range []Link{{MTU: 1500}, {MTU: 9000, InOrder: true, Congestion: "reno"}, {MTU: 1500, Big: true}, {MTU: 1500}} {
		if err := s.SetLink(l); err != nil {
			if l.Big {
				t.Log(err) // kernels before 6.3
				continue
			}
			t.Fatal(err)
		}
		for _, e := range []*End{s.A, s.B} {
			var mtu, steered string
			var run uint32
			var routes []netlink.Route
			err := e.Do(func() (err error) {
				mtu, steered = e.setting("mtu"), e.setting("queues/rx-0/rps_cpus")
				link, err := netlink.LinkByName(e.Interface)
				if err == nil {
					run = link.Attrs().GROIPv4MaxSize
					routes, err = netlink.RouteList(link, netlink.FAMILY_V4)
				}
				return err
			})
			if err != nil || mtu != strconv.Itoa(l.MTU) || l.InOrder == (strings.Trim(steered, "0,") == "") || l.Big != (run > usualRun) {
				t.Errorf("%s, %+v: MTU %s, steered to %s, runs of %d, %v", e.Name, l, mtu, steered, run, err)
			}
			if len(routes) != 1 || routes[0].Congctl != l.Congestion {
				t.Errorf("%s, %+v: routes %+v", e.Name, l, routes)
			}
		}
	}
}

// setting of the end's interface. It runs in the end's namespace.
func (e *End) setting(name string) string {
	text, _ := os.ReadFile("/sys/class/net/" + e.Interface + "/" + name)
	return strings.TrimSpace(string(text))
}

// TCP resends next to nothing on a link that keeps the order; where it does not, some
// kinds of it resend thousands of packets a second.
func TestTCPResendsNothingInOrder(t *testing.T) {
	s := newStage(t)
	needs(t, "iperf3")
	if err := s.SetLink(Link{MTU: 1500, InOrder: true}); err != nil {
		t.Fatal(err)
	}
	o, err := s.Run(t.Context(), Play{Server: Program{Args: []string{"iperf3", "-s", "-1"}}, Ready: Port{"tcp", 5201}, Limit: time.Minute,
		Client: Program{Args: []string{"iperf3", "-J", "-t", "1", "-c", s.B.Addr.String()}}})
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		End struct {
			Sent struct {
				Bytes   int `json:"bytes"`
				Resends int `json:"retransmits"`
			} `json:"sum_sent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(o.Client, &r); err != nil || r.End.Sent.Bytes == 0 || r.End.Sent.Resends >= 100 {
		t.Errorf("%+v, %v", r, err)
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
		o, err := s.Run(context.Background(), Play{Server: sh("sleep 86400 & sleep 86400"), Client: sh("echo called"),
			Limit: 24 * time.Hour})
		if err != nil || string(o.Client) != "called\n" {
			t.Errorf("%q, %v", o.Client, err)
		}
	})
	t.Run("what a program has started is killed with it when its time is up", func(t *testing.T) {
		o, err := s.Run(t.Context(), Play{Server: sh("true"), Client: sh("sleep 86400 & echo $!; wait"), Limit: time.Second})
		if err == nil || len(o.Client) == 0 {
			t.Fatalf("%q, %v", o.Client, err)
		}
		for left := true; left; time.Sleep(time.Millisecond) { // for ever, if it lives on
			line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(o.Client)) + "/cmdline")
			left = err == nil && len(line) > 0 // a zombie has none
		}
	})
	for _, c := range []struct {
		name string
		play Play
		want string
	}{
		{"failing client", Play{Server: sh("sleep 86400"), Client: sh("echo what is wrong >&2; exit 3"), Limit: time.Minute},
			"what is wrong"},
		{"slow client", Play{Server: sh("sleep 86400"), Client: sh("sleep 86400"), Limit: time.Second}, "did not end in time"},
		{"server that ends before it listens", Play{Server: sh("echo no such device >&2; exit 1"), Client: sh("true"),
			Ready: Port{"tcp", 5201}, Limit: time.Minute}, "no such device"},
		{"no such program", Play{Server: Program{Args: []string{"/no/such/program"}}, Client: sh("true"), Limit: time.Minute},
			"no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := s.Run(context.Background(), c.play); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}
