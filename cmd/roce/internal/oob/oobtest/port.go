// Package oobtest finds TCP ports for tests of programs that meet on one.
package oobtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// FreePort is a TCP port that nobody listens on. It is none of those that the kernel gives to
// sockets which ask for none (32768 and up): one of another process would take it before somebody
// listens here.
func FreePort(t testing.TB) (port int) {
	t.Helper()
	var err error
	for range 100 {
		port = 10000 + rand.IntN(20000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			l.Close()
			break
		}
	}
	require.NoError(t, err)
	return port
}
