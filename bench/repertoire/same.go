package repertoire

import (
	"github.com/goroce/goroce/bench/figures"
)

// Two processes of one machine, with no network between them but the loopback interface: ours
// beside UCX's shared memory. Ours has no transport for that, and copies and checks every packet as
// if it had come from afar; UCX copies once, or not at all. So these are losses, and stand here as
// what a program gives up that uses us where it need not.

import "fmt"

// Both ends on the loopback interface.
const sameServer, sameClient = "127.0.0.2", "127.0.0.1"

// sameMemory are UCX's ways from one process to another of its machine.
var sameMemory = []struct{ name, tls string }{{"posix", "posix,self"}, {"sysv", "sysv,self"}, {"cma", "posix,cma,self"}}

// sameBars demand nothing: they are the loss in figures.
var sameBars = []figures.Bar{
	{What: "one machine: WRITE 64 KiB against UCX put in shared memory", Ours: "same/ours/write-bw/64K",
		Against: "same/ucx/put-bw/64K/.*"},
	{What: "one machine: READ 64 KiB against UCX get in shared memory", Ours: "same/ours/read-bw/64K",
		Against: "same/ucx/get/64K/.*"},
	{What: "one machine: WRITE 8 B latency against UCX put in shared memory", Ours: "same/ours/write-lat/8",
		Against: "same/ucx/put-lat/8/.*"},
	{What: "one machine: SEND 8 B latency against UCX tag in shared memory", Ours: "same/ours/send-lat/8",
		Against: "same/ucx/tag-lat/8/.*"},
}

// sameCases are all of them: bandwidth of 64 KiB and latency of 8 bytes.
func sameCases() (cases []figures.Case) {
	for _, c := range []perfCase{
		{"write-bw/64K", "RC WRITE 64 KiB, 1 QP", figures.Gbps, "write-bw -s 65536", duration, Bandwidth},
		{"read-bw/64K", "RC READ 64 KiB, 1 QP", figures.Gbps, "read-bw -s 65536 -o 32", duration, Bandwidth},
		{"write-lat/8", "RC WRITE 8 B, polling", figures.Usec, "write-lat -s 8", duration, latency},
		{"send-lat/8", "RC SEND 8 B, polling", figures.Usec, "send-lat -s 8", duration, latency},
	} {
		cases = append(cases, sameOurs(c))
	}
	for _, way := range sameMemory {
		for _, t := range []ucxTest{
			{test: "ucp_put_bw", size: 65536, perSecond: 250000, column: ucxGbps},
			{test: "tag_bw", size: 65536, perSecond: 60000, column: ucxGbps},
			{test: "ucp_get", size: 65536, perSecond: 250000, column: ucxGbps, options: "-O 32"},
			{test: "ucp_put_lat", size: 8, perSecond: 1000000, column: ucxUsec},
			{test: "tag_lat", size: 8, perSecond: 1000000, column: ucxUsec},
		} {
			cases = append(cases, sameUCX(way.name, way.tls, t))
		}
	}
	return figures.OnlyFull(cases)
}

// sameOurs is a test of roce perf over the loopback interface.
func sameOurs(c perfCase) figures.Case {
	made := c.on("same/ours/", "udp")
	made.Brief = "goroce, udp port, two processes of one machine: " + c.brief
	made.Play = func(s figures.Setting) figures.Play {
		side := func(me, peer string) figures.Command {
			return Words(fmt.Sprintf("%s perf %s %s -p %d --json --dev udp:%s %s",
				s.Roce, c.options, c.length(s.Duration), PerfPort, me, peer))
		}
		return figures.Play{
			Proto:    "tcp",
			Port:     PerfPort,
			Server:   side(sameServer, ""),
			Client:   side(sameClient, sameServer),
			Together: true,
		}
	}
	return made
}

// sameUCX is a test of ucx_perftest over shared memory.
func sameUCX(name, tls string, t ucxTest) figures.Case {
	made := t.asCase()
	made.Name = "same/" + made.Name + "/" + name
	made.Brief = fmt.Sprintf("ucx_perftest -t %s -s %d %s over shared memory, UCX_TLS=%s",
		t.test, t.size, t.options, tls)
	made.Play = func(s figures.Setting) figures.Play {
		side := func(peer string) figures.Command {
			c := Words(fmt.Sprintf("ucx_perftest %s -f -v -t %s -s %d %s -n %s -w 1000",
				peer, t.test, t.size, t.options, figures.Repeats(t.perSecond, s.Duration)))
			c.Env = []string{"UCX_TLS=" + tls, "UCX_WARN_UNUSED_ENV_VARS=n"}
			return c
		}
		return figures.Play{Proto: "tcp", Port: 13337, Server: side(""), Client: side(sameServer), Together: true}
	}
	return made
}
