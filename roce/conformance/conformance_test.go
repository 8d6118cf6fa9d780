package conformance

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

var (
	device = flag.String("device", "", "TestDevice: the `name` of the device to test")
	peer   = flag.String("peer", "", "TestDevice: `name` of the other end's device, if that is in this process (default the same)")
	listen = flag.String("listen", "", "TestDevice: wait at this TCP `address` for the other end, in another process")
	dial   = flag.String("dial", "", "TestDevice: meet the other end, which waits at this TCP `address`")
	cases  = flag.String("cases", "", "TestDevice: only cases that match the `expression`; the same at both ends")
	report = flag.String("report", "", "TestDevice: write the results into a `file`")
)

// slotProcess is the environment variable of a process that TestSlots starts: what it is to do.
const slotProcess = "GOROCE_SLOT_PROCESS"

func TestMain(m *testing.M) {
	if flag.Parse(); *device == "" && os.Getenv(slotProcess) == "" {
		netns.Own()
	}
	m.Run()
}

// TestPipe plays the suite on two software devices in memory.
func TestPipe(t *testing.T) {
	within(t, open(t, "pipe:conformance"), open(t, "pipe:conformance/10.1.0.1,fd00::1,10.1.0.2"), true)
}

// TestUDP plays it over sockets.
func TestUDP(t *testing.T) {
	here := fmt.Sprintf("udp:127.77.%d.", os.Getpid()%256)
	within(t, open(t, here+"1"), open(t, here+"2"), true)
}

// TestBothWays plays it so that each device acts once, as two kinds do.
func TestBothWays(t *testing.T) {
	within(t, open(t, "pipe:both-ways"), open(t, "pipe:both-ways"), false)
}

// TestDevice plays it on the device of the -device option.
func TestDevice(t *testing.T) {
	switch {
	case *device == "":
		t.Skip("no device is named by -device")
	case *listen != "":
		l, err := net.Listen("tcp", *listen)
		must(t, err)
		defer l.Close()
		conn, err := l.Accept()
		must(t, err)
		remote(t, open(t, *device), conn, false)
	case *dial != "":
		conn, err := net.Dial("tcp", *dial)
		must(t, err)
		remote(t, open(t, *device), conn, true)
	case *peer == "":
		within(t, open(t, *device), open(t, *device), true)
	default:
		within(t, open(t, *device), open(t, *peer), false)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a device for the time of a test.
func open(t *testing.T, name string) *roce.Device {
	t.Helper()
	d, err := roce.Open(name, nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// within plays both ends in this process.
func within(t *testing.T, first, second *roce.Device, once bool) {
	here, there := net.Pipe()
	other := make(chan error)
	go func() {
		o := playing(once)
		o.Second = true
		other <- Play(context.Background(), second, there, o, func(Result) {})
	}()
	tell(t, first.Name()+" and "+second.Name(), func(each func(Result)) error {
		return Play(context.Background(), first, here, playing(once), each)
	})
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// remote plays one end, the other is in another process.
func remote(t *testing.T, d *roce.Device, conn net.Conn, second bool) {
	o := playing(false)
	o.Second = second
	tell(t, d.Name(), func(each func(Result)) error { return Play(t.Context(), d, conn, o, each) })
}

func playing(once bool) Options {
	o := Options{Once: once, Match: regexp.MustCompile(*cases).MatchString}
	if *device == "" { // of ours none differs: these only end what would hang
		o.Limit, o.Patience = 5*time.Minute, 4*time.Minute
	}
	return o
}

// tell makes results into subtests, and the report.
func tell(t *testing.T, title string, play func(func(Result)) error) {
	var text strings.Builder
	count := map[string]int{}
	start, slow := time.Now(), ""
	last := start
	err := play(func(r Result) {
		if took := time.Since(last); took > time.Second {
			slow += fmt.Sprintf("\n%.1f s: %s", took.Seconds(), r.Case)
		}
		last = time.Now()
		fmt.Fprintln(&text, r)
		count[r.String()[:4]]++
		t.Run(r.Case, func(t *testing.T) {
			switch {
			case r.Failed != "":
				t.Error(r.Failed)
			case r.Skip != "":
				t.Skip(r.Skip)
			}
		})
	})
	if err != nil {
		fmt.Fprintln(&text, "ended early:", err)
		t.Error(err)
	}
	summary := fmt.Sprintf("%s: %d ok, %d failed, %d skipped, in %.1f s%s", title, count["ok  "], count["FAIL"], count["skip"],
		time.Since(start).Seconds(), slow)
	t.Log(summary)
	if *report != "" {
		must(t, os.WriteFile(*report, []byte(summary+"\n\n"+text.String()), 0o644))
	}
}
