package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/doctor"
	"github.com/goroce/goroce/internal/netns"
)

// asCommand is the environment variable that has the test's program be the roce command: a process
// can be put into a network namespace as a whole, which goroutines cannot.
const asCommand = "GOROCE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	netns.Own()
	m.Run()
}

// command is the roce command with a command line.
func command(line string) *exec.Cmd {
	c := exec.Command(os.Args[0], strings.Fields(line)...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

// visit runs roce doctor in a namespace and returns the grades of its checks, and what is said.
func visit(t *testing.T, ns *netns.Namespace, line string) (grades map[string]doctor.Grade, text string) {
	t.Helper()
	c := command("doctor --json " + line)
	var out []byte
	var err error
	ns.Do(func() { out, err = c.Output() })
	var list []doctor.Verdict
	require.NoError(t, json.Unmarshal(out, &list), "%s: %v", out, err)
	grades = map[string]doctor.Grade{}
	wrong := false
	for _, v := range list {
		grades[v.Check] = v.Grade
		wrong = wrong || v.Grade == doctor.Wrong
	}
	require.Equal(t, wrong, err != nil, "the exit status says whether something is wrong: %s", out)
	return grades, string(out)
}

// find runs roce doctor as visit does, with more and more time for answers, until it has found some
// grades: on a busy machine an answer may take long, and who waits for silence waits all the time.
func find(t *testing.T, ns *netns.Namespace, peer string, wait time.Duration, want map[string]doctor.Grade) (text string) {
	t.Helper()
	for ; ; wait *= 2 {
		grades, text := visit(t, ns, fmt.Sprintf("%s --wait %v", peer, wait))
		found := true
		for check, grade := range want {
			found = found && grades[check] == grade
		}
		if found {
			return text
		}
		require.Less(t, wait, time.Minute, "want %v: %s", want, text)
	}
}

// manned is a wire with somebody who answers at its right end, 10.77.0.2.
func manned(t *testing.T) *netns.Wire {
	t.Helper()
	if testing.Short() {
		t.Skip("takes ten seconds, in which nobody answers")
	}
	w := netns.NewWire(t, 1500)
	peer := command("rping -s -P -d -a 10.77.0.2")
	said, err := peer.StdoutPipe()
	require.NoError(t, err)
	w.Right.Do(func() { err = peer.Start() })
	require.NoError(t, err)
	t.Cleanup(func() { peer.Process.Kill(); peer.Wait() })
	_, err = said.Read(make([]byte, 1)) // it listens
	require.NoError(t, err)
	return w
}

const (
	patient = " --wait 1m" // for who will answer, on a busy machine
	short   = " --wait 1s" // for who will not
)

// TestDoctor: on a wire, with somebody who answers at the other end, nobody, and one thing wrong
// after the other.
func TestDoctor(t *testing.T) {
	w := manned(t)
	grades, text := visit(t, w.Left, "10.77.0.2"+patient)
	require.Equal(t, map[string]doctor.Grade{"route": doctor.Right, "port here": doctor.Right, "GID": doctor.Right,
		"neighbour": doctor.Right, "MTU": doctor.Right, "segmentation": doctor.Right, "peer": doctor.Right, "congestion": doctor.Note},
		grades, text)
	require.Contains(t, text, "invalid service ID")

	grades, text = visit(t, w.Left, "192.0.2.1"+short)
	require.Equal(t, doctor.Wrong, grades["route"], text)
	// An address there, of which nobody has the port.
	text = find(t, w.Left, "10.77.0.3", time.Second, map[string]doctor.Grade{"peer": doctor.Wrong, "neighbour": doctor.Right})
	require.Contains(t, text, "nobody there has it, or a firewall there rejects it")
	// ARP is given up after three seconds.
	text = find(t, w.Left, "10.77.0.99", 5*time.Second, map[string]doctor.Grade{"neighbour": doctor.Wrong, "peer": doctor.Wrong})
	require.Contains(t, text, "silent: a firewall, or nobody there")
	find(t, w.Left, "fd78::2", time.Second, map[string]doctor.Grade{"MTU": doctor.Right, "neighbour": doctor.Right})

	// The peer's own address is taken.
	grades, text = visit(t, w.Right, "10.77.0.1 --dev udp:10.77.0.2"+short)
	require.Equal(t, [2]doctor.Grade{doctor.Wrong, doctor.Unknown}, [2]doctor.Grade{grades["port here"], grades["GID"]}, text)
	w.Right.IP(t, "link set wire mtu 1300") // a link whose ends do not agree
	grades, text = visit(t, w.Left, "10.77.0.2"+patient)
	require.Equal(t, [2]doctor.Grade{doctor.Wrong, doctor.Right}, [2]doctor.Grade{grades["MTU"], grades["peer"]}, text)
	// Its answers go nowhere, as behind a firewall.
	w.Right.IP(t, "route add blackhole 10.77.0.1/32")
	grades, text = visit(t, w.Left, "10.77.0.2"+short)
	require.Equal(t, doctor.Wrong, grades["peer"], text)
	require.Contains(t, text, "silent")
}

// TestNarrowPath: where the kernel knows that a path takes less than the interface, a test of
// performance takes as much as the path does, and the doctor says what others have to choose.
func TestNarrowPath(t *testing.T) {
	w := netns.NewWire(t, 9000)
	w.Left.IP(t, "route add 10.77.0.2/32 dev wire mtu 1400") // as an ICMP message would
	server, client := command("perf write-bw"), command("perf write-bw 10.77.0.2 --json -n 100")
	said, err := server.StdoutPipe()
	require.NoError(t, err)
	w.Right.Do(func() { err = server.Start() })
	require.NoError(t, err)
	defer func() { server.Process.Kill(); server.Wait() }()
	_, err = said.Read(make([]byte, 1)) // it listens
	require.NoError(t, err)
	var out []byte
	w.Left.Do(func() { out, err = client.Output() })
	require.NoError(t, err, "%s", out)
	var report struct{ MTU int }
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	require.Equal(t, 1024, report.MTU)
}

// TestDoctorICMP: what firewalls and routers say is told, with who says it; and a peer that has
// sent all the ICMP that it sends in a second gets no wrong verdict.
func TestDoctorICMP(t *testing.T) {
	w := manned(t)
	w.Left.IP(t, "route add 192.0.2.1/32 via 10.77.0.2")
	var err error
	w.Right.Do(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	require.NoError(t, err)
	w.Right.IP(t, "route add prohibit 192.0.2.1/32")
	text := find(t, w.Left, "192.0.2.1", 3*time.Second, map[string]doctor.Grade{"peer": doctor.Wrong})
	require.Contains(t, text, "10.77.0.2 answers administratively prohibited")

	for range 3 {
		w.Left.Do(func() {
			var c net.Conn
			if c, err = net.Dial("udp", "10.77.0.2:9"); err == nil {
				for range 20 {
					c.Write([]byte("x"))
				}
				err = c.Close()
			}
		})
		require.NoError(t, err)
		grades, text := visit(t, w.Left, "10.77.0.2"+patient)
		require.NotEqual(t, doctor.Wrong, grades["MTU"], text)
	}
}
