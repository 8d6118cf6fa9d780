package main

// Two processes of one machine, with no network between them but the loopback interface: ours beside UCX's shared memory. Ours has
// no transport for that, and copies and checks every packet as if it had come from afar; UCX copies once, or not at all. So these
// are losses, and stand here as what a program gives up that uses us where it need not.

import "fmt"

// Both ends on the loopback interface.
const sameServer, sameClient = "127.0.0.2", "127.0.0.1"

// sameMemory are UCX's ways from one process to another of its machine.
var sameMemory = []struct{ name, tls string }{{"posix", "posix,self"}, {"sysv", "sysv,self"}, {"cma", "posix,cma,self"}}

// sameCases are all of them: bandwidth of 64 KiB and latency of 8 bytes.
func sameCases() (cases []Case) {
	for _, c := range []perfCase{
		{"write-bw/64K", "RC WRITE 64 KiB, 1 QP", gbps, "write-bw -s 65536", duration, bandwidth},
		{"read-bw/64K", "RC READ 64 KiB, 1 QP", gbps, "read-bw -s 65536", duration, bandwidth},
		{"write-lat/8", "RC WRITE 8 B, polling", usec, "write-lat -s 8", duration, latency},
		{"send-lat/8", "RC SEND 8 B, polling", usec, "send-lat -s 8", duration, latency},
	} {
		cases = append(cases, sameOurs(c))
	}
	for _, way := range sameMemory {
		for _, c := range []struct {
			test      string
			size      int
			perSecond int
			column    ucxColumn
			options   string
		}{
			{"ucp_put_bw", 65536, 250000, ucxGbps, ""},
			{"tag_bw", 65536, 60000, ucxGbps, ""},
			{"ucp_get", 65536, 250000, ucxGbps, "-O 32"},
			{"ucp_put_lat", 8, 1000000, ucxUsec, ""},
			{"tag_lat", 8, 1000000, ucxUsec, ""},
		} {
			cases = append(cases, sameUCX(way.name, way.tls, c.test, c.size, c.perSecond, c.column, c.options))
		}
	}
	for i := range cases {
		cases[i].Full = true
	}
	return cases
}

// sameOurs is a test of roce perf over the loopback interface.
func sameOurs(c perfCase) Case {
	made := c.on("same/ours/", "udp")
	made.Brief = "goroce, udp port, two processes of one machine: " + c.brief
	made.Play = func(s Setting) Play {
		side := func(me, peer string) Command {
			return words(fmt.Sprintf("%s perf %s %s -p %d --json --dev udp:%s %s", s.Roce, c.options, c.length(s.Duration), perfPort, me, peer))
		}
		return Play{Proto: "tcp", Port: perfPort, Server: side(sameServer, ""), Client: side(sameClient, sameServer), Together: true}
	}
	return made
}

// sameUCX is a test of ucx_perftest over shared memory.
func sameUCX(name, tls, test string, size, perSecond int, column ucxColumn, options string) Case {
	made := ucx(test, size, perSecond, column)
	made.Name = "same/" + made.Name + "/" + name
	made.Brief = fmt.Sprintf("ucx_perftest -t %s -s %d over shared memory, UCX_TLS=%s", test, size, tls)
	made.Play = func(s Setting) Play {
		side := func(peer string) Command {
			c := words(fmt.Sprintf("ucx_perftest %s -f -v -t %s -s %d -n %s -w 1000 %s", peer, test, size, repeats(perSecond, s.Duration), options))
			c.Env = []string{"UCX_TLS=" + tls, "UCX_WARN_UNUSED_ENV_VARS=n"}
			return c
		}
		return Play{Proto: "tcp", Port: 13337, Server: side(""), Client: side(sameServer), Together: true}
	}
	return made
}
