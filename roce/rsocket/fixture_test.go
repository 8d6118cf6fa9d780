package rsocket

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

var serial atomic.Int64

// wires are the kinds of ports that tests run over, by how a test names two devices.
var wires = map[string]func() (string, string){
	"pipe": func() (string, string) {
		name := fmt.Sprintf("pipe:rsocket-%d", serial.Add(1))
		return name, name
	},
	// addresses of 127/8 that no other test has, in this process or another
	"udp": func() (string, string) {
		pid, n := os.Getpid(), serial.Add(1)%100
		name := fmt.Sprintf("udp:127.%d.%d.", 128+pid>>8%128, pid%256)
		return fmt.Sprint(name, 2*n+1), fmt.Sprint(name, 2*n+2)
	},
}

func overWires(t *testing.T, f func(t *testing.T, wire string)) {
	for _, wire := range []string{"pipe", "udp"} {
		t.Run(wire, func(t *testing.T) { f(t, wire) })
	}
}

func open(t testing.TB, name string) *roce.Device {
	d, err := roce.Open(name, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// pair connects two devices without a connection manager.
func pair(t testing.TB, a, b *roce.Device, cfgs ...*Config) (*Conn, *Conn) {
	t.Helper()
	var conns [2]*Conn
	for i, d := range []*roce.Device{a, b} {
		cfg, err := cfgs[i%len(cfgs)].filled()
		require.NoError(t, err)
		c, attr, err := newConn(d, cfg)
		require.NoError(t, err)
		qp, err := c.pd.CreateQP(attr)
		require.NoError(t, err)
		require.NoError(t, qp.Init(&roce.ConnectOptions{Access: roce.RemoteWrite}))
		require.NoError(t, c.take(qp))
		conns[i] = c
		conns[i].local = &Addr{net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i)), Port: 7471}}
		conns[i].remote = &Addr{net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2-i)), Port: 7471}}
	}
	for i, c := range conns {
		require.NoError(t, c.qp.Connect(context.Background(), conns[1-i].qp.Endpoint(), nil))
	}
	for i, c := range conns {
		require.NoError(t, c.start(conns[1-i].end.ConnData().Marshal()))
	}
	return conns[0], conns[1]
}

// connected is a pair on devices of its own.
func connected(t testing.TB, wire string, cfgs ...*Config) (*Conn, *Conn) {
	t.Helper()
	if len(cfgs) == 0 {
		cfgs = []*Config{nil}
	}
	nameA, nameB := wires[wire]()
	a, b := pair(t, open(t, nameA), open(t, nameB), cfgs...)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
