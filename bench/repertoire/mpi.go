package repertoire

// MPI: the job of dropin's tests (dropin/testdata/mpi.c) by OpenMPI, two ranks on two hosts, over
// UCX over ours and over TCP, by OpenMPI's own way and by UCX's. At B waits what starts its rank
// ("bench host"); mpirun and the other rank are at A.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// HostPort is where "bench host" waits for a command.
const HostPort = 18530

// mpiBars: what the issue of MPI jobs wanted of the latency, and how bandwidth stands.
var mpiBars = []figures.Bar{
	{What: "MPI over UCX over goroce, 8 B, against MPI over TCP", Ours: "mpi/ours/lat/8", Against: "mpi/tcp.*/lat/8",
		Rule: figures.AtMost, Factor: 0.8, Only: "udp"},
	{What: "MPI over UCX over goroce, 64 KiB, against MPI over TCP", Ours: "mpi/ours/bw/64K",
		Against: "mpi/tcp.*/bw/64K", Only: "udp"},
}

// mpiWays are what a job goes by: mpirun's words, and what starts a rank. IFACE is the interface of
// the rank's end.
var mpiWays = []struct{ name, brief, words, rank string }{
	{"ours", "UCX over goroce, udp port", "--mca pml ucx -x UCX_TLS=rc,self -x UCX_NET_DEVICES=roce0:1",
		"ROCE run -q --dev udp:IFACE --"},
	{"tcp", "TCP by OpenMPI (ob1, btl tcp)", "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include NET", ""},
	{"tcp-ucx", "TCP by UCX", "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any " +
		"-x UCX_TLS=tcp,self", "env UCX_NET_DEVICES=IFACE"},
}

// mpiFigure is what the job says.
var mpiFigure = regexp.MustCompile(`(?m)^(?:latency|bandwidth) of \d+ bytes: ([\d.]+) `)

// mpiCases are all ways with both tests.
func mpiCases() (cases []figures.Case) {
	for _, t := range []struct {
		name, words string
		perSecond   int
		unit        figures.Unit
	}{{"lat/8", "latency 8", 30000, figures.Usec}, {"bw/64K", "bandwidth 65536", 30000, figures.Gbps}} {
		for _, way := range mpiWays {
			cases = append(cases, figures.Case{Name: "mpi/" + way.name + "/" + t.name, Unit: t.unit,
				Brief: fmt.Sprintf("OpenMPI, 2 ranks on 2 hosts, %s: %s", way.brief, t.words),
				Play: func(s figures.Setting) figures.Play {
					line := t.words + " " + figures.Repeats(t.perSecond, s.Duration)
					return mpiPlay(s, way.words, way.rank, line)
				},
				Figure: func(_, client []byte) (float64, error) { return submatch(mpiFigure, client) },
				Takes:  func(d time.Duration) time.Duration { return d + mpiStarts }})
		}
	}
	return cases
}

// HasMPI says whether any of them is chosen.
func HasMPI(choice func(*figures.Case) bool) bool {
	return slices.ContainsFunc(figures.At(figures.MTUs[0], mpiCases()), func(c figures.Case) bool { return choice(&c) })
}

// mpiStarts is how long mpirun takes to have both ranks begin, about, and to end.
const mpiStarts = 2 * time.Second

// mpiPlay is a job of a rank at A and one at B.
func mpiPlay(s figures.Setting, words, rank, line string) figures.Play {
	job := func(host string, at figures.Side) string {
		start := strings.NewReplacer("ROCE", s.Roce, "IFACE", at.Interface).Replace(rank)
		return fmt.Sprintf("-n 1 --host %s %s %s/mpi %s", host, start, s.MPI, line)
	}
	words = strings.ReplaceAll(words, "NET", s.B.Addr.String()+"/24")
	client := Words(fmt.Sprintf("mpirun --bind-to none --leave-session-attached %s %s : %s", words,
		job("localhost", s.A), job("other", s.B)))
	client.Env = append(mpiEnv(s), fmt.Sprintf("OMPI_MCA_plm_rsh_agent=%s host -at %s:%d", s.Bench, s.B.Addr, HostPort))
	server := Words(fmt.Sprintf("%s host -on %s:%d", s.Bench, s.B.Addr, HostPort))
	server.Env = mpiEnv(s)
	return figures.Play{Proto: "tcp", Port: HostPort, Server: server, Client: client, Margin: mpiMargin}
}

// mpiMargin leaves out of the processor's time how mpirun begins and ends.
const mpiMargin = 0.4

func mpiEnv(s figures.Setting) []string {
	return []string{"GOROCE_LIBRARIES=" + s.MPI, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
}
