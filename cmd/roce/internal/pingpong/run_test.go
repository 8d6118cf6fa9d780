package pingpong

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob"
	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// slow is the code of an ack timeout of a second: the machine that runs the tests may be busy with
// others.
const slow = 18

func base(change func(*Options)) Options {
	o := Options{Type: roce.RC, MTU: 1024, RxDepth: 500, Iters: 100, Timeout: slow, Stall: time.Minute}
	if change != nil {
		change(&o)
	}
	return o
}

// match plays a game over loopback and returns what both ends printed.
func match(t *testing.T, server, client Options) (s, c string, serr, cerr error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what would hang
	defer cancel()
	server.Port = oobtest.FreePort(t)
	client.Port, client.Host = server.Port, "127.0.0.1"
	var sout, cout bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serr = Run(ctx, &sout, server)
	}()
	for waits := true; waits; {
		cout.Reset()
		cerr = Run(ctx, &cout, client)
		waits = cerr != nil && strings.Contains(cerr.Error(), "is its end running")
		select {
		case <-ended: // a server that failed leaves nobody to wait for
			waits = false
		case <-time.After(time.Millisecond): // nothing tells when a server listens
		}
	}
	<-ended
	return sout.String(), cout.String(), serr, cerr
}

// printed are the lines of ibv_rc_pingpong, and notes on what the device must do without.
var printed = regexp.MustCompile(`^  local address:  LID 0x0000, QPN 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID ::ffff:127\.0\.0\.\d+
  remote address: LID 0x0000, QPN 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID ::ffff:127\.0\.0\.\d+
819200 bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec
100 iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter
(udp:\S+ is without .*
)*$`)

func TestRunPrintsWhatTheOriginalPrints(t *testing.T) {
	s, c, serr, cerr := match(t, base(nil), base(nil))
	require.NoError(t, serr)
	require.NoError(t, cerr)
	require.Regexp(t, printed, s)
	require.Regexp(t, printed, c)
}

func TestRunAgainstItself(t *testing.T) {
	for _, kind := range []roce.QPType{roce.RC, roce.UC, roce.UD} {
		for _, size := range []int{1, 1000, 4096, 300000} {
			for _, events := range []bool{false, true} {
				if kind == roce.UD && size > 4096 {
					continue
				}
				o := base(func(o *Options) {
					o.Type, o.Size, o.Events, o.Check, o.RxDepth, o.Iters = kind, size, events, true, 3, 30
				})
				_, _, serr, cerr := match(t, o, o)
				require.NoError(t, serr, "%v %d", kind, size)
				require.NoError(t, cerr, "%v %d", kind, size)
			}
		}
	}
}

// Queue pairs that share a receive queue: fewer requests than they could use, more messages than
// there are queue pairs and fewer.
func TestRunShared(t *testing.T) {
	for _, iters := range []int{5, 200} {
		for _, size := range []int{1, 5000} {
			for _, events := range []bool{false, true} {
				o := base(func(o *Options) {
					o.SRQ, o.QPs, o.Size, o.Events, o.Check, o.RxDepth, o.Iters = true, 8, size, events, true, 10, iters
				})
				s, c, serr, cerr := match(t, o, o)
				require.NoError(t, serr, "size %d, %d messages", size, iters)
				require.NoError(t, cerr, "size %d, %d messages", size, iters)
				require.Equal(t, 8, strings.Count(s, "remote address"))
				require.Equal(t, 8, strings.Count(c, "local address"))
			}
		}
	}
}

// Only one end checks: the other's bytes are right all the same, unless it does not mark the pages.
func TestCheckFindsWrongBytes(t *testing.T) {
	check := base(func(o *Options) { o.Check = true })
	_, _, serr, cerr := match(t, base(nil), check)
	require.NoError(t, serr)
	require.NoError(t, cerr, "a server sends back what it got")
	out, _, serr, cerr := match(t, check, base(nil))
	require.NoError(t, cerr)
	require.ErrorContains(t, serr, "1 of 100 messages are wrong", "the client sends back what the server, which checks, has sent")
	require.Contains(t, out, "invalid data in page 0")
}

// A peer that never sends is an error, in the time that was set.
func TestSilentPeer(t *testing.T) {
	port := oobtest.FreePort(t)
	ended := make(chan error)
	go func() {
		ended <- Run(t.Context(), &bytes.Buffer{}, base(func(o *Options) { o.Port, o.Stall = port, 300*time.Millisecond }))
	}()
	var c *oob.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = oob.Dial(t.Context(), "127.0.0.1", port)
		return err == nil
	}, time.Minute, time.Millisecond)
	defer c.Close()
	require.NoError(t, c.Send(address{QPN: 77, GID: roce.GID{10: 0xff, 11: 0xff, 12: 127, 15: 200}}.append(nil)))
	require.NoError(t, c.Recv(make([]byte, addressLen)))
	require.NoError(t, c.Send(done))
	err := <-ended
	require.ErrorContains(t, err, "nothing arrived for 300ms")
	require.ErrorContains(t, err, "neither sent nor received a packet")
}

func TestOptionsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--iters 0":                       func(o *Options) { o.Iters = 0 },
		"--rx-depth -1":                   func(o *Options) { o.RxDepth = -1 },
		"--port 70000":                    func(o *Options) { o.Port = 70000 },
		"--sl 8":                          func(o *Options) { o.SL = 8 },
		"--size 1073741825: want 1 to 1G": func(o *Options) { o.Size = 1<<30 + 1 },
	} {
		require.ErrorContains(t, Run(t.Context(), &bytes.Buffer{}, base(func(o *Options) { o.Port = 1; change(o) })), want)
	}
}

// TestPeerLeavesUnheard: only the very last acknowledgement may be missing, at either end, and only
// because the peer is silent.
func TestPeerLeavesUnheard(t *testing.T) {
	for _, c := range []struct {
		received, sentOK int
		status           roce.WCStatus
		forgiven         bool
	}{
		{40, 39, roce.WCRetryExcErr, true},
		{39, 39, roce.WCRetryExcErr, false}, // the peer's last message has not come
		{40, 38, roce.WCRetryExcErr, false}, // and two of ours are missing
		{40, 39, roce.WCRemAccessErr, false},
	} {
		for _, host := range []string{"", "192.0.2.2"} {
			g := &game{o: Options{Host: host, Iters: 40}, received: c.received, sentOK: c.sentOK}
			require.Equal(t, c.forgiven, g.forgiven(&session.FailedError{WC: roce.WC{Status: c.status}}), "%+v %q", c, host)
		}
	}
}
