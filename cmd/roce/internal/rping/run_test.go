package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// screen is what a program prints, and tells when a line with a word is there.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	word string
	seen chan struct{}
}

func newScreen(word string) *screen { return &screen{word: word, seen: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.word != "" && strings.Contains(string(b), s.word) {
		close(s.seen)
		s.word = ""
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func names() (server, client string) {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.201", 130+pid>>8%120, pid%256), fmt.Sprintf("127.%d.%d.202", 130+pid>>8%120, pid%256)
}

// TestRping: pings of several sizes with every byte compared, one client after the other.
func TestRping(t *testing.T) {
	sa, ca := names()
	out := newScreen("listening on")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- Run(ctx, out, Options{
			Server:     true,
			Addr:       sa,
			Port:       DefaultPort,
			Size:       DefaultSize,
			Verbose:    true,
			Debug:      true,
			Persistent: true,
		})
	}()
	select {
	case <-out.seen:
	case err := <-done:
		t.Fatal(err)
	}
	for _, size := range []int{MinSize, DefaultSize, 4097, MaxSize} {
		said := newScreen("")
		err := Run(t.Context(), said, Options{Addr: sa, Source: ca, Port: DefaultPort, Size: size, Count: 3, Verbose: true, Validate: true})
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		require.Len(t, lines, 3)
		require.True(t, strings.HasPrefix(lines[2], "ping data: rdma-ping-2: C"), lines[2])
		require.Len(t, lines[2], len("ping data: ")+size-1)
	}
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Equal(t, 12, strings.Count(out.String(), "server ping data: rdma-ping-"))
}

// TestClientsTextIsText: the terminal of the server's user does not obey what a client sends as its
// text, and takes none of it for a line of the server.
func TestClientsTextIsText(t *testing.T) {
	sa, ca := names()
	out := newScreen("listening on")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() {
		done <- Run(ctx, out, Options{
			Server:     true,
			Addr:       sa,
			Port:       DefaultPort,
			Size:       DefaultSize,
			Verbose:    true,
			Debug:      true,
			Persistent: true,
		})
	}()
	<-out.seen
	dev, err := roce.Open("udp:"+ca, nil)
	require.NoError(t, err)
	var e *end
	cfg := rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{dev}}, Cap: roce.QPCap{
		MaxSendWR:  8,
		MaxRecvWR:  2,
		MaxSendSGE: 1,
		MaxRecvSGE: 1,
	},
		Param: &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}}
	cfg.Prepare = func(c *rdmacm.Conn) (err error) {
		e, err = newEnd(c, DefaultSize, 0)
		return err
	}
	_, err = rdmacm.Dial(ctx, net.JoinHostPort(sa, strconv.Itoa(DefaultPort)), &cfg)
	require.NoError(t, err)
	copy(e.text, "\x1b]0;owned\a\x1b[2J\n127.0.0.1:1: all is well\x00")
	require.NoError(t, e.send(ctx, e.placeOf(e.text)))
	_, err = e.receive(ctx)
	require.NoError(t, err)
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, e.close())
	require.NoError(t, dev.Close())
	require.Contains(t, out.String(), "\nserver ping data: \ufffd]0;owned\ufffd\ufffd[2J 127.0.0.1:1: all is well\n")
}

// TestOneClient: without -P the server ends with its client.
func TestOneClient(t *testing.T) {
	sa, ca := names()
	out := newScreen("listening on")
	done := make(chan error)
	go func() {
		done <- Run(t.Context(), out, Options{Server: true, Addr: sa, Port: DefaultPort, Size: DefaultSize, Debug: true})
	}()
	<-out.seen
	require.NoError(t, Run(t.Context(), newScreen(""), Options{
		Addr:     sa,
		Source:   ca,
		Port:     DefaultPort,
		Size:     DefaultSize,
		Count:    100,
		Validate: true,
	}))
	require.NoError(t, <-done)
}

// TestMistakes: what is wrong is named.
func TestMistakes(t *testing.T) {
	sa, ca := names()
	for says, o := range map[string]Options{
		"-S 5: want 23 to 65535 bytes":         {Size: 5, Port: 1, Addr: sa},
		"-p 0: want 1 to 65535":                {Size: 100, Addr: sa},
		"-C -1: want 0 or more":                {Size: 100, Port: 1, Addr: sa, Count: -1},
		"name the server with -a":              {Size: 100, Port: 1},
		"name it with --dev, or its address":   {Size: 100, Port: 1, Server: true, Pcap: "x"},
		"no interface of this machine has":     {Size: 100, Port: 1, Server: true, Addr: "192.0.2.77", Dev: "udp:" + sa},
		"for 1ns: a firewall, or nobody there": {Size: 100, Port: 1, Addr: sa, Source: ca, Stall: 1},
		"the peer refuses: invalid service ID": {Size: 100, Port: 1, Addr: ca, Source: ca},
	} {
		err := Run(t.Context(), newScreen(""), o)
		if says == "no interface of this machine has" {
			require.Error(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	require.EqualError(t, Run(ctx, newScreen(""), Options{Size: 100, Port: 1, Addr: ca, Source: ca}), "enough")
}
