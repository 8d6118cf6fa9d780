package perf

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

// overCM are the tests and options that both ends play with -R.
var overCM = []struct {
	test, name string
	both       func(*Options)
}{
	{"write-bw", "", nil},
	{"write-bw", "3 QPs", func(o *Options) { o.QPs = 3 }},
	{"write-bw", "both ways", func(o *Options) { o.Bidi = true }},
	{"write-bw", "half a second", func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 }},
	{"read-bw", "", nil},
	{"send-bw", "", nil},
	{"send-bw", "UD", func(o *Options) { o.Type = roce.UD }},
	{"send-bw", "UD, both ways, 2 QPs", func(o *Options) { o.Type = roce.UD; o.Bidi = true; o.QPs = 2; o.Iters = 50 }},
	{"send-bw", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 5 }},
	{"atomic-bw", "", nil},
	{"write-lat", "", nil},
	{"read-lat", "", nil},
	{"send-lat", "", nil},
	{"send-lat", "UD", func(o *Options) { o.Type = roce.UD }},
	{"send-lat", "sleeping", func(o *Options) { o.Events = true }},
	{"atomic-lat", "", nil},
}

// twoAddresses are addresses of this machine that no other test has.
func twoAddresses() (server, client string) {
	pid, n := os.Getpid(), rand.IntN(100)
	at := fmt.Sprintf("127.%d.%d.", 129+pid>>8%100, pid%256)
	return fmt.Sprint(at, 2*n+1), fmt.Sprint(at, 2*n+2)
}

// contestCM runs both ends of a test over loopback, with -R.
func contestCM(t *testing.T, test string, both func(*Options)) (s, c *outcome) {
	tt, ok := Find(test)
	require.True(t, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what would hang
	defer cancel()
	server, client := base(both), base(both)
	at, from := twoAddresses()
	server.CM, server.Port, server.Dev = true, 7000+rand.IntN(1000), "udp:"+at
	client.CM, client.Port, client.Dev, client.Host = true, server.Port, "udp:"+from, at
	server.JSON = false
	s, c = &outcome{}, &outcome{}
	listens, ended := &firstWord{w: &s.out, said: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(ended)
		if s.err = Run(ctx, listens, tt, server); s.err != nil {
			cancel() // it leaves nobody to wait for
		}
	}()
	select {
	case <-listens.said:
		c.err = Run(ctx, &c.out, tt, client)
	case <-ended:
	}
	<-ended
	return s, c
}

// firstWord is a writer that tells when it is first written to.
type firstWord struct {
	w    io.Writer
	once sync.Once
	said chan struct{}
}

func (f *firstWord) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.said) })
	return f.w.Write(p)
}

// TestRunByCM: all tests, their ends meeting by the connection manager.
func TestRunByCM(t *testing.T) {
	for _, c := range overCM {
		t.Run(strings.TrimSpace(c.test+" "+c.name), func(t *testing.T) {
			if step.Raced && c.test == "write-lat" {
				t.Skip("to watch 2 bytes of memory while another goroutine writes them is what the test does, and a race")
			}
			s, cl := contestCM(t, c.test, c.both)
			require.NoError(t, cl.err, "the server ended with: %v", s.err)
			require.NoError(t, s.err)
			require.NotEmpty(t, parse(t, cl))
			require.Contains(t, s.out.String(), " rdma_cm QPs\t : ON\n Data ex. method : rdma_cm\n")
		})
	}
}

// TestWrongByCM: what -R does not do is said.
func TestWrongByCM(t *testing.T) {
	for _, c := range []struct {
		o    func(*Options)
		want string
	}{
		{func(o *Options) { o.Type = roce.UC }, "--connection UC: with --rdma-cm want RC or UD"},
		{func(o *Options) { o.MTU = 1024 }, "the connection manager chooses it"},
		{func(o *Options) { o.Pcap = "x" }, "names it with --dev"},
	} {
		tt, _ := Find("send-bw")
		o := base(c.o)
		o.CM, o.Port = true, 7000
		require.ErrorContains(t, Run(t.Context(), &bytes.Buffer{}, tt, o), c.want)
	}
}

// TestKeyByCM: a key is 56 bytes, and comes back as it was; one that does not fit is refused.
func TestKeyByCM(t *testing.T) {
	k := key{LID: 1, Outs: 16, QPN: 0x123456, PSN: wire.PSN(0xfffffe), RKey: 0x89abcdef, VAddr: 0x0123456789abcdef,
		GID: loopbackGID, SRQN: 7}
	msg := k.appendCM(nil)
	require.Len(t, msg, cmKeyLen)
	require.Equal(t, []byte{0, 0x12, 0x34, 0x56}, msg[8:12])
	got, err := parseCM(msg)
	require.NoError(t, err)
	require.Equal(t, k, got)
	msg[8] = 1
	_, err = parseCM(msg)
	require.ErrorContains(t, err, "0x1123456 at byte 8, want 24 bits")
	_, err = parseCM(msg[1:])
	require.ErrorContains(t, err, "55 bytes, want 56")
}

// TestPeerByCMLeaves: a peer that goes away, or says what no program of perftest says, ends the
// server.
func TestPeerByCMLeaves(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, c *rdmacm.Conn){
		"leaves":         func(*testing.T, *rdmacm.Conn) {},
		"speaks briefly": func(t *testing.T, c *rdmacm.Conn) { speak(t, c, 3) },
		"never ends":     func(t *testing.T, c *rdmacm.Conn) { speak(t, c, controlSlot+1) },
	} {
		t.Run(name, func(t *testing.T) {
			tt, _ := Find("send-bw")
			at, from := twoAddresses()
			o := base(nil)
			o.JSON, o.CM, o.Port, o.Dev = false, true, 7000+rand.IntN(1000), "udp:"+at
			listens, ended := &firstWord{w: io.Discard, said: make(chan struct{})}, make(chan error)
			go func() { ended <- Run(t.Context(), listens, tt, o) }()
			<-listens.said
			c, err := rdmacm.Dial(t.Context(), fmt.Sprintf("%s:%d", at, o.Port), &rdmacm.ConnConfig{Local: netip.MustParseAddr(from)})
			require.NoError(t, err)
			act(t, c)
			go c.Close(t.Context())
			select {
			case err := <-ended:
				require.Error(t, err)
			case <-time.After(time.Minute):
				t.Fatal("it goes on for ever")
			}
		})
	}
}

// TestTalksOn: a peer that sends messages without end is not listened to without end.
func TestTalksOn(t *testing.T) {
	at, from := twoAddresses()
	cfg := &rdmacm.ListenConfig{ConnConfig: rdmacm.ConnConfig{Prepare: prepare}}
	l, err := rdmacm.Listen(t.Context(), at+":0", cfg)
	require.NoError(t, err)
	peer, err := rdmacm.Dial(t.Context(), l.Addr().String(), &rdmacm.ConnConfig{Local: netip.MustParseAddr(from)})
	require.NoError(t, err)
	conn, err := l.Accept(t.Context())
	require.NoError(t, err)
	c := &control{conn: conn, ctx: t.Context()}
	for i := range 2 * controlRecvs {
		speak(t, peer, cmKeyLen)
		for len(c.came) <= i && c.err == nil {
			c.Pending()
		}
	}
	require.LessOrEqual(t, len(c.came), controlRecvs)
	var msg [cmKeyLen]byte
	for range c.came {
		require.NoError(t, c.RecvWithin(time.Minute, msg[:]))
	}
	require.ErrorContains(t, c.RecvWithin(time.Minute, msg[:]), "is it the same program")
	go peer.Close(t.Context())
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

// speak sends n bytes.
func speak(t *testing.T, c *rdmacm.Conn, n int) {
	require.NoError(t, c.QP().PostSend(roce.SendWR{Opcode: roce.WRSend, Inline: make([]byte, n), Flags: roce.SendInline}))
}

// TestCancelByCM: a server that waits for nobody ends when it is told to.
func TestCancelByCM(t *testing.T) {
	tt, _ := Find("send-bw")
	at, _ := twoAddresses()
	o := base(nil)
	o.JSON, o.CM, o.Port, o.Dev = false, true, 7000, "udp:"+at
	ctx, cancel := context.WithCancel(t.Context())
	listens, ended := &firstWord{w: io.Discard, said: make(chan struct{})}, make(chan error)
	go func() { ended <- Run(ctx, listens, tt, o) }()
	<-listens.said
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
