package interop

// Connections that do not come to be: nobody listens, or the application refuses and says why.
//
// Our end is package rdmacm here, the kernel's a program of our own over librdmacm
// (testdata/reject.c), as the tools of rdma-core neither refuse nor show what they are told.

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// rejecter is the program in the guest.
const rejecter = "/root/reject"

// theRejecter is the arena with the program in the guest.
func theRejecter(t *testing.T) *arena {
	a := theArena(t)
	if _, err := os.Stat("/usr/include/rdma/rdma_cma.h"); err != nil {
		if os.Getenv(lab.RequireEnv) == "1" {
			t.Fatal("librdmacm-dev is missing")
		}
		t.Skip("needs the Debian package librdmacm-dev")
	}
	program := filepath.Join(t.TempDir(), "reject")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", program, filepath.Join("testdata", "reject.c"), "-lrdmacm").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, a.CopyFile(t.Context(), program, rejecter))
	return a
}

const no = "not today"

// TestReject: who is refused hears why, and what the other application says.
func TestReject(t *testing.T) {
	a := theRejecter(t)
	for _, f := range []struct {
		name string
		family
	}{{"ipv4", ipv4}, {"ipv6", ipv6}} {
		if f.name == "ipv6" && os.Getenv(everyProgram) == "" {
			continue // played by make programs
		}
		t.Run(f.name+"/nobody listens/ours asks", func(t *testing.T) {
			refused := a.refused(t, f.family, int(a.port.Add(1)))
			require.Equal(t, 8, refused.Reason)
			require.Empty(t, strings.Trim(string(refused.PrivateData), "\x00"))
		})
		t.Run(f.name+"/the application refuses/ours asks", func(t *testing.T) {
			h, port := a.newHere(t, f.host), int(a.port.Add(1))
			g := h.guest(rejecter, "server", f.guest, strconv.Itoa(port), no)
			require.NoError(t, a.waitRDMA(h.ctx, port))
			refused := a.refusedFrom(t, h, f.family, port)
			require.Equal(t, 28, refused.Reason)
			require.Equal(t, no, strings.TrimRight(string(refused.PrivateData), "\x00"))
			h.ends(g)
		})
		t.Run(f.name+"/nobody listens/ours is asked", func(t *testing.T) {
			h, port := a.newHere(t, f.host), int(a.port.Add(1))
			h.listen(rdmacm.PSTCP, port) // on another port, so that somebody answers
			g := h.guest(rejecter, "client", f.host, strconv.Itoa(port+5000))
			h.ends(g)
			require.Equal(t, "RDMA_CM_EVENT_REJECTED status 8", said(g))
		})
		t.Run(f.name+"/the application refuses/ours is asked", func(t *testing.T) {
			h, port := a.newHere(t, f.host), int(a.port.Add(1))
			h.listen(rdmacm.PSTCP, port)
			g := h.guest(rejecter, "client", f.host, strconv.Itoa(port))
			id := h.next(rdmacm.EventConnectRequest).ID
			require.NoError(t, id.Reject([]byte(no)))
			require.NoError(t, id.Close())
			h.ends(g)
			require.Equal(t, `RDMA_CM_EVENT_REJECTED status 28 "`+no+`"`, said(g))
		})
	}
}

// said is what the client in the guest has heard: event, status, and private data if there are any.
func said(g *end) string {
	event, private, _ := strings.Cut(strings.TrimSpace(g.out.String()), " private ")
	if private = strings.ReplaceAll(private, "\x00", ""); private == `""` {
		return event
	}
	return event + " " + private
}

// refused dials a port of the guest, which refuses.
func (a *arena) refused(t *testing.T, f family, port int) *rdmacm.RejectedError {
	return a.refusedFrom(t, a.newHere(t, f.host), f, port)
}

func (a *arena) refusedFrom(t *testing.T, h *here, f family, port int) *rdmacm.RejectedError {
	cfg := &rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{h.dev}}, Local: netip.MustParseAddr(f.host)}
	err := a.Do(func() error {
		c, err := rdmacm.Dial(h.ctx, net.JoinHostPort(f.guest, strconv.Itoa(port)), cfg)
		if err == nil {
			return errors.Join(errors.New("it is connected"), c.Close(h.ctx))
		}
		return err
	})
	var refused *rdmacm.RejectedError
	require.ErrorAs(t, err, &refused)
	return refused
}
