package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/route"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// well is the record of two machines that can connect.
func well() *facts {
	own, peer := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	return &facts{
		peer:   peer,
		route:  route.Route{Interface: "eth0", Index: 2, Source: own, NextHop: peer, NetMTU: 1500},
		device: "udp:10.0.0.1", gids: []roce.GID{wire.GIDFrom(own)}, linkUp: true,
		neighbour: neighbourFound, cut: cutByKernel,
		host: probe{answer: probeRefused}, full: probe{answer: probeRefused}, port: probe{answer: probeSilent},
		cm: cmAnswer{cmRejected, errors.New("invalid service ID")},
	}
}

// silence is a record with a peer of which nothing comes.
func silence() *facts {
	f := well()
	f.host, f.full, f.port = probe{answer: probeSilent}, probe{answer: probeSilent}, probe{answer: probeSilent}
	f.cm = cmAnswer{cmSilent, errors.New("no answer")}
	return f
}

// cases are what can be the matter, and what is said of it.
var cases = []struct {
	name  string
	facts func(f *facts) // makes it of well
	check string
	grade Grade
	says  string // part of what is said, or of what to do
}{
	{"all is well", func(*facts) {}, "route", Right, "by eth0, from 10.0.0.1, next hop 10.0.0.2"},
	{"no route", func(f *facts) {
		*f = facts{peer: f.peer, noRoute: errors.New("no route to 10.0.0.2")}
	}, "route", Wrong, "ip route add 10.0.0.2"},
	{"no cable", func(f *facts) { f.linkUp = false }, "route", Wrong, "ip link set eth0 up"},
	{"a link-local address", func(f *facts) {
		*f = facts{peer: netip.MustParseAddr("fe80::1"), noRoute: errors.New("it needs its interface")}
	}, "route", Wrong, "fe80::1%INTERFACE"},
	{"no machine's address", func(f *facts) {
		*f = facts{peer: netip.MustParseAddr("224.0.0.9"), noRoute: errors.New("not the address of a host")}
	}, "route", Wrong, "the address of a machine"},
	{"this machine", func(f *facts) { f.route.Local = true }, "route", Right, "address of this machine"},

	{"the port is free", func(*facts) {}, "port here", Right, "has UDP port 4791"},
	{"the port is taken", func(f *facts) {
		f.noOpen, f.gids = fmt.Errorf("in use by process 7 (x) (%w)", syscall.EADDRINUSE), nil
	}, "port here", Wrong, "process 7 (x) (address already in use) -> end who has the port"},
	{"no such device", func(f *facts) { f.noOpen, f.gids = errors.New("no eth9"), nil }, "port here", Wrong, "roce devices"},

	{"the source is a row", func(*facts) {}, "GID", Right, "row 0"},
	{"no device, no rows", func(f *facts) { f.noOpen, f.gids = errors.New("in use"), nil }, "GID", Unknown, "could not be opened"},
	{"another IP version", func(f *facts) {
		f.gids = []roce.GID{{}, wire.GIDFrom(netip.MustParseAddr("fd00::1"))}
	}, "GID", Wrong, "no IPv4 address"},
	{"another interface's device", func(f *facts) {
		f.gids = []roce.GID{wire.GIDFrom(netip.MustParseAddr("10.9.9.9"))}
	}, "GID", Wrong, "--dev udp:10.0.0.1"},
	{"another address of one machine", func(f *facts) {
		f.route.Local, f.gids = true, []roce.GID{wire.GIDFrom(netip.MustParseAddr("10.9.9.9"))}
	}, "GID", Right, "one machine"},

	{"the neighbour answers", func(*facts) {}, "neighbour", Right, "10.0.0.2 has answered"},
	{"no ARP there", func(f *facts) { f.neighbour = neighbourNone }, "neighbour", Right, "eth0 needs none"},
	{"the neighbour is silent", func(f *facts) { f.neighbour = neighbourSilent }, "neighbour", Wrong, "does not answer to ARP"},
	{"the neighbour is silent over IPv6", func(f *facts) {
		f.neighbour, f.route.NextHop = neighbourSilent, netip.MustParseAddr("fe80::1")
	}, "neighbour", Wrong, "neighbour discovery"},
	{"no netlink", func(f *facts) { f.neighbour = neighbourUnknown }, "neighbour", Unknown, "does not tell"},
	{"no neighbour needed", func(f *facts) { f.route.Local = true }, "neighbour", Right, "one machine"},

	{"long packets arrive", func(*facts) {}, "MTU", Right, "path MTU up to 1024"},
	{"the port takes more than the path", func(f *facts) { f.active = roce.MTU4096 }, "MTU", Note, "the port's 4096 does not fit"},
	{"a tiny MTU", func(f *facts) { f.route.NetMTU = 280 }, "MTU", Wrong, "mtu 1500"},
	{"a narrow link on the way", func(f *facts) { f.full.answer = probeTooLong }, "MTU", Wrong, "smaller path MTU"},
	{"long packets arrive, and are not let in", func(f *facts) {
		f.full = probe{probeBarred, f.peer, errors.New("prohibited")}
	}, "MTU", Right, "path MTU up to 1024"},
	{"long packets do not get far", func(f *facts) {
		f.full = probe{probeBarred, f.peer.Next(), errors.New("prohibited")}
	}, "MTU", Note, "not known"},
	{"long packets were not answered, perhaps for too many questions", func(f *facts) { f.full = probe{} }, "MTU", Note, "not known"},
	{"long packets vanish", func(f *facts) { f.full.answer = probeSilent }, "MTU", Wrong, "ping -M do -s 1472 10.0.0.2"},
	{"nothing comes, long or short", func(f *facts) { *f = *silence() }, "MTU", Note, "not known"},
	{"one machine's MTU", func(f *facts) { f.route.Local, f.full = true, probe{} }, "MTU", Right, "1500 bytes"},

	{"the kernel divides", func(*facts) {}, "segmentation", Right, "no NIC"},
	{"a NIC divides", func(f *facts) { f.cut = cutByNIC }, "segmentation", Note, "ethtool -K eth0 tx-udp-segmentation off"},
	{"a NIC divides IPv6", func(f *facts) { f.cut, f.peer = cutByNIC, netip.MustParseAddr("fd00::2") }, "segmentation", Right, "IPv6"},
	{"nobody knows who divides", func(f *facts) { f.cut = cutUnknown }, "segmentation", Unknown, "does not tell"},

	{"the CM refuses", func(*facts) {}, "peer", Right, "invalid service ID"},
	{"the CM accepts", func(f *facts) { f.cm = cmAnswer{answer: cmAccepted} }, "peer", Right, "accepts"},
	{"nobody has the port there", func(f *facts) {
		f.port.answer, f.cm.answer = probeRefused, cmSilent
	}, "peer", Wrong, "nobody there has it, or a firewall"},
	{"a firewall says no", func(f *facts) {
		f.port, f.cm.answer = probe{probeBarred, f.peer.Next(), errors.New("prohibited")}, cmSilent
	}, "peer", Wrong, "10.0.0.3 answers prohibited"},
	{"a router says no, once", func(f *facts) {
		*f = *silence()
		f.full = probe{probeBarred, f.peer.Next(), errors.New("prohibited")}
	}, "peer", Wrong, "nothing gets through to 10.0.0.2: 10.0.0.3 answers prohibited"},
	{"it may not be sent", func(f *facts) {
		f.port, f.cm.answer = probe{answer: probeFailed, err: errors.New("operation not permitted")}, cmSilent
	}, "peer", Wrong, "operation not permitted"},
	{"it cannot be asked", func(f *facts) { f.cm = cmAnswer{cmFailed, errors.New("no device")} }, "peer", Wrong, "no device"},
	{"nobody can ask", func(f *facts) { f.cm = cmAnswer{} }, "peer", Unknown, "was not asked"},
	{"a silent peer", func(f *facts) { *f = *silence() }, "peer", Wrong, "silent: a firewall, or nobody there"},
	{"a silent port of a peer that is there", func(f *facts) {
		*f = *silence()
		f.host.answer = probeRefused
	}, "peer", Wrong, "is there, but its UDP port 4791 is silent"},
	{"the peer is this device", func(f *facts) { f.peer = f.route.Source }, "peer", Wrong, "an address of this machine"},

	{"switches", func(*facts) {}, "congestion", Note, "ECT(0)"},
	{"no switch", func(f *facts) { f.route.Local = true }, "congestion", Right, "one machine"},
}

// TestVerdicts: every case gets its verdict, and every check has cases.
func TestVerdicts(t *testing.T) {
	met := map[string]bool{}
	for _, c := range cases {
		f := well()
		c.facts(f)
		list := judge(f)
		i := slices.IndexFunc(list, func(v Verdict) bool { return v.Check == c.check })
		require.GreaterOrEqual(t, i, 0, c.name)
		v := list[i]
		require.Equal(t, c.grade, v.Grade, "%s: %+v", c.name, v)
		require.Contains(t, v.Says+" -> "+v.Do, c.says, c.name)
		met[c.check] = true
	}
	for _, c := range checks {
		require.True(t, met[c.name], "no case is about %q", c.name)
	}
}

// TestAdvice: who says that something is wrong says what to do; and nobody guesses why a peer is
// silent.
func TestAdvice(t *testing.T) {
	for _, c := range cases {
		f := well()
		c.facts(f)
		for _, v := range judge(f) {
			require.Equal(t, v.Grade == Wrong || v.Grade == Note, v.Do != "", "%s: %+v", c.name, v)
		}
	}
	require.Zero(t, judge(well()).wrong())
	list := judge(silence())
	require.Equal(t, 1, list.wrong())
}

// TestNoRoute: without a route one line is wrong, and the others say that they were not looked at.
func TestNoRoute(t *testing.T) {
	list := judge(&facts{peer: well().peer, noRoute: errors.New("no route to 10.0.0.2")})
	require.Equal(t, 1, list.wrong())
	for _, v := range list[1:] {
		require.Equal(t, Unknown, v.Grade, v.Check)
	}
	var b strings.Builder
	require.NoError(t, list.print(&b))
	require.Equal(t, len(checks)+1, strings.Count(b.String(), "\n"), b.String())
}
