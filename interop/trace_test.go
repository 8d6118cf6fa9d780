package interop

// What rxe puts on the wire, decoded by us and by tshark: rxe with itself, on a veth pair in the
// guest, and rxe with ours, on the lab's network. Both are captured by roce trace capture.
//
// Stages of a scene: the capture begins, programs or the conformance suite play, the capture ends,
// tshark and package trace must say the same of every field of it, but for docs/tshark.md.
//
// The files in testdata/captures are made by
//
//	sudo go test ./interop -run '^TestTraceOfRxe$' -captures ../testdata/captures

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/interop/lab"
)

var captures = flag.String("captures", "", "TestTraceOfRxe: play every scene, and write the captures into this `folder`")

// scene is a capture. Words in braces are replaced: {a} and {b} are the addresses of the pair,
// {port} is a free port.
type scene struct {
	name   string
	always bool   // also when no files are asked for
	six    bool   // over IPv6
	lossy  string // netem's words, for what goes from a to b
	server string // in the guest, on rxeB or, with ours, on rxe0
	client string // on rxeA
	cases  string // in place of both: cases of the conformance suite, between rxeA and rxeB
	ours   string // in place of client: ours, on the host; with cases: any word
}

const (
	perftest = " -F -p {port} -x {gid} "
	meet     = "198.51.100.2" // by TCP
	pingpong = " -p {port} -g {gid} -n 3 "

	// Each NAK, and RNR NAKs.
	refusals = "^error/(WRITE with a key that nobody has|READ past the end|WRITE without the right of the queue pair|SEND that is longer " +
		"than the receive|SEND to an empty SRQ)$"
)

var scenes = []scene{
	{name: "rping", always: true, server: "rping -s -a {b} -p {port} -C 2 -S 100", client: "rping -c -a {b} -I {a} -p {port} -C 2 -S 100"},
	{name: "rping-ipv6", six: true, server: "rping -s -a {b} -p {port} -C 2 -S 100",
		client: "rping -c -a {b} -I {a} -p {port} -C 2 -S 100"},
	{name: "rc", server: "ibv_rc_pingpong -d rxeB -s 3000 -m 1024" + pingpong,
		client: "ibv_rc_pingpong -d rxeA -s 3000 -m 1024" + pingpong + meet},
	{name: "uc", server: "ibv_uc_pingpong -d rxeB -s 3000 -m 1024" + pingpong,
		client: "ibv_uc_pingpong -d rxeA -s 3000 -m 1024" + pingpong + meet},
	{name: "ud-ipv6", six: true, server: "ibv_ud_pingpong -d rxeB -s 500" + pingpong,
		client: "ibv_ud_pingpong -d rxeA -s 500" + pingpong + meet},
	{name: "read", server: "ib_read_bw -d rxeB -s 3000 -m 1024 -n 10" + perftest,
		client: "ib_read_bw -d rxeA -s 3000 -m 1024 -n 10" + perftest + meet},
	{name: "loss", lossy: "loss 20%", server: "ib_write_bw -d rxeB -s 3000 -m 1024 -n 5" + perftest,
		client: "ib_write_bw -d rxeA -s 3000 -m 1024 -n 5 -u 10" + perftest + meet},
	{name: "atomics", always: true, cases: "^atomics$"},
	{name: "invalidate", cases: "^(SEND with invalidate|a window is bound, used and invalidated)$"},
	{name: "refused", cases: refusals},
	{name: "ours-rping", always: true, server: "rping -s -a {b} -p {port} -C 2 -S 100", ours: "rping -c -a {b} -p {port} -C 2 -S 100"},
	{name: "ours-refused", cases: refusals, ours: "suite"},
	{name: "ours-messages", cases: "^(atomics|SEND with invalidate|datagrams|ATOMIC WRITE|data, FLUSH and flag in one post|FLUSH .*)$",
		ours: "suite"},
}

// TestTraceOfRxe plays the scenes.
func TestTraceOfRxe(t *testing.T) {
	a, _ := theVerbs(t)
	require.NoError(t, a.CopyFile(t.Context(), a.roce, wireRoce))
	tshark.Path(t)
	inGuest(t, a.Lab, layPair)
	t.Cleanup(func() {
		out, err := a.Command(context.WithoutCancel(t.Context()), "sh", "-e", "-c", liftPair).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	var c tshark.Comparison
	for _, s := range scenes {
		if *captures == "" && !s.always { // package trace compares the others, in testdata
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			file := a.capture(t, &s)
			c.Compare(t, s.name, file)
			if *captures != "" {
				require.NoError(t, os.WriteFile(filepath.Join(*captures, s.name+".pcapng"), file, 0o644))
			}
		})
	}
	t.Logf("%d fields of %d packets agree", c.Fields, c.Packets)
	require.Greater(t, c.Fields, 1000)
}

// layPair makes a veth pair with an rxe device on each end. Between two addresses of its own the
// kernel would send over lo: rules give each direction its way out of one end and in at the other.
const layPair = `
	ip link add pairA mtu 9000 address 02:00:5e:00:01:01 type veth peer name pairB mtu 9000 address 02:00:5e:00:01:02
	sysctl -q -w net.ipv4.conf.all.rp_filter=0
	for d in A:1:2 B:2:1; do
		dev=pair${d%%:*} me=${d#*:} me=${me%:*} peer=${d##*:}
		sysctl -q -w net.ipv4.conf.$dev.rp_filter=0 net.ipv4.conf.$dev.accept_local=1 net.ipv6.conf.$dev.accept_dad=0
		ip addr add 198.51.100.$me/24 dev $dev
		ip addr add 2001:db8:1::$me/64 dev $dev nodad
		ip link set $dev up
	done
	for d in A:1:2 B:2:1; do
		dev=pair${d%%:*} me=${d#*:} me=${me%:*} peer=${d##*:}
		ip neigh replace 198.51.100.$peer lladdr 02:00:5e:00:01:0$peer dev $dev nud permanent
		ip neigh replace 2001:db8:1::$peer lladdr 02:00:5e:00:01:0$peer dev $dev nud permanent
		for f in "-4 198.51.100." "-6 2001:db8:1::"; do
			set -- $f
			ip $1 rule add pref 1$me iif $dev lookup local
			ip $1 rule add pref 2$me from $2$me to $2$peer lookup 10$me
			ip $1 route replace $2$peer dev $dev src $2$me table 10$me
		done
	done
	for f in -4 -6; do ip $f rule add pref 30 lookup local; ip $f rule del pref 0; done
	rdma link add rxeA type rxe netdev pairA
	rdma link add rxeB type rxe netdev pairB`

// liftPair takes it away again.
const liftPair = `
	for f in -4 -6; do
		ip $f rule add pref 0 lookup local
		for p in 11 12 21 22 30; do ip $f rule del pref $p; done
	done
	rdma link delete rxeA
	rdma link delete rxeB
	ip link del pairA`

// capture plays a scene and returns the capture file.
func (a *arena) capture(t *testing.T, s *scene) []byte {
	ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
	defer cancel()
	if s.ours != "" {
		name := filepath.Join(t.TempDir(), "capture.pcapng")
		e := a.hostEnd(ctx, []string{a.roce, "trace", "capture", lab.Tap, "-w", name})
		h := e.process.(*lab.HostCmd)
		begun := func() bool { info, err := os.Stat(name); return err == nil && info.Size() > 0 }
		a.during(t, ctx, e, begun, func() error { return h.Process.Signal(syscall.SIGINT) }, func() { a.play(t, ctx, s) })
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		return file
	}
	const name = "/root/capture.pcapng"
	e := a.guestEnd(ctx, []string{wireRoce, "trace", "capture", "pairA", "-w", name})
	g := e.process.(*lab.Cmd)
	begun := func() bool { return a.Command(ctx, "test", "-s", name).Run() == nil }
	a.during(t, ctx, e, begun, func() error { return g.Signal(syscall.SIGINT) }, func() { a.play(t, ctx, s) })
	file, err := a.ReadFile(ctx, name)
	require.NoError(t, err)
	require.NoError(t, a.Command(ctx, "rm", name).Run())
	return file
}

// during plays while a capture goes on.
func (a *arena) during(t *testing.T, ctx context.Context, e *end, begun func() bool, stop func() error, play func()) {
	require.NoError(t, e.start())
	for !begun() {
		require.False(t, e.ended(), "the capture has ended: %v\n%s", e.err, e.out)
		select {
		case <-ctx.Done():
			t.Fatalf("the capture does not begin: %s", e.out)
		case <-time.After(20 * time.Millisecond): // between two looks
		}
	}
	play()
	require.NoError(t, stop())
	e.wait()
	require.NoError(t, e.err, e.out.String())
	require.Contains(t, e.out.String(), "packets captured, 0 lost")
}

// play plays a scene.
func (a *arena) play(t *testing.T, ctx context.Context, s *scene) {
	port := int(a.port.Add(1))
	words := strings.NewReplacer("{port}", strconv.Itoa(port), "{a}", "198.51.100.1", "{b}", "198.51.100.2", "{gid}", "1")
	if s.six {
		words = strings.NewReplacer("{port}", strconv.Itoa(port), "{a}", "2001:db8:1::1", "{b}", "2001:db8:1::2", "{gid}", "2")
	}
	if s.ours != "" {
		words = strings.NewReplacer("{port}", strconv.Itoa(port), "{a}", lab.HostIPv4, "{b}", lab.GuestIPv4, "{gid}", a.gid)
	}
	if s.lossy != "" {
		inGuest(t, a.Lab, `ip link add pairL type ifb && ip link set pairL up && tc qdisc add dev pairL root netem limit 1000 `+s.lossy+`
			tc qdisc add dev pairB ingress && tc filter add dev pairB ingress matchall action mirred egress redirect dev pairL`)
		defer inGuest(t, a.Lab, "tc qdisc del dev pairB ingress && ip link del pairL")
	}
	var server, client *end
	suite := append(suiteOptions, "-cases", s.cases)
	listening := func() error { return a.WaitListening(ctx, port) }
	switch {
	case s.cases != "" && s.ours != "":
		meet := lab.HostIPv4 + ":" + strconv.Itoa(port)
		server = a.hostEnd(ctx, append([]string{kernelDevices.suite, "-device", "udp:" + lab.HostIPv4, "-listen", meet}, suite...))
		client = a.guestEnd(ctx, append([]string{verbsSuite, "-device", verbsDevice, "-dial", meet}, suite...))
		listening = func() error { return a.waitListeningHere(ctx, port) }
	case s.cases != "":
		server = a.guestEnd(ctx, append([]string{verbsSuite, "-device", "verbs:rxeA", "-peer", "verbs:rxeB"}, suite...))
		client = a.guestEnd(ctx, []string{"true"})
		listening = func() error { return nil }
	case s.ours != "":
		server = a.guestEnd(ctx, strings.Fields(words.Replace(s.server)))
		client = a.hostEnd(ctx, append([]string{a.roce}, strings.Fields(words.Replace(s.ours))...))
	default:
		server = a.guestEnd(ctx, strings.Fields(words.Replace(s.server)))
		client = a.guestEnd(ctx, strings.Fields(words.Replace(s.client)))
	}
	if strings.HasPrefix(s.server, "rping") {
		listening = func() error { return a.waitRDMA(ctx, port) }
	}
	err := both(ctx, server, client, listening)
	// what the suite says its own tests judge
	if s.cases == "" && !(client.err == nil && stumbled(server)) {
		require.NoError(t, err, "%s\n%s", server.out, client.out)
	}
	require.NoError(t, ctx.Err())
}

// stumbled says that an rping has ended as its thread for events does that finds the channel closed
// by the other one, after all was done: with an error, now and then.
func stumbled(e *end) bool {
	return e.name == "rping" && strings.Contains(e.out.String(), "DISCONNECT EVENT") &&
		strings.Contains(e.out.String(), "rdma_get_cm_event: Bad file descriptor")
}

// guestEnd and hostEnd prepare a process.
func (a *arena) guestEnd(ctx context.Context, args []string) *end {
	c := a.Command(ctx, args[0], args[1:]...)
	e := &end{process: c, name: args[0], out: &output{}}
	c.Stdout, c.Stderr = e.out, e.out
	return e
}

func (a *arena) hostEnd(ctx context.Context, args []string) *end {
	c := a.Host(ctx, args[0], args[1:]...)
	e := &end{process: c, name: args[0], out: &output{}}
	c.Stdout, c.Stderr = e.out, e.out
	return e
}
