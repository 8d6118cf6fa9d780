package main

// The competitors: Debian's iperf3, ucx_perftest, fi_pingpong and sockperf, each with the command lines that give it its
// best figure on a veth pair, and where that figure stands in what it prints.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// rivalPackages are the Debian packages that the programs come from.
var rivalPackages = map[string]string{
	"iperf3":       "iperf3",
	"ucx_perftest": "ucx-utils",
	"fi_pingpong":  "libfabric-bin",
	"sockperf":     "sockperf",
}

func rivalCases() (cases []Case) {
	for _, c := range []struct{ name, brief, options string }{
		{"tcp/128K", "iperf3, TCP, 1 stream, -l 128K", "-l 128K"},
		{"tcp/1M", "iperf3, TCP, 1 stream, -l 1M", "-l 1M"},
		{"udp/8K", "iperf3, UDP, datagrams of 8 KiB", "-u -b 0 -l 8192"},
	} {
		cases = append(cases, iperf3(c.name, c.brief, c.options))
	}
	for _, c := range []struct {
		test      string
		size      int
		perSecond int
		column    ucxColumn
	}{
		{"ucp_put_bw", 65536, 22000, ucxGbps},
		{"tag_bw", 65536, 35000, ucxGbps},
		{"ucp_put_bw", 8, 180000, ucxMpps},
		{"ucp_put_lat", 8, 50000, ucxUsec},
		{"tag_lat", 8, 100000, ucxUsec},
		{"ucp_get", 65536, 800, ucxGbps},
	} {
		cases = append(cases, ucx(c.test, c.size, c.perSecond, c.column))
	}
	for _, c := range []struct {
		endpoint        string
		size, perSecond int
	}{
		{"msg", 64, 90000},
		{"rdm", 64, 50000},
		{"msg", 65536, 35000},
	} {
		cases = append(cases, pingpong(c.endpoint, c.size, c.perSecond))
	}
	return append(cases, sockperf("udp", ""), sockperf("tcp", "--tcp"))
}

func iperf3(name, brief, options string) Case {
	return Case{Name: "iperf3/" + name, Brief: brief, Unit: gbps,
		Play: func(s Setting) Play {
			return Play{Proto: "tcp", Port: 5201, Server: words("iperf3 -s -1"),
				Client: words("iperf3 -J -t " + seconds(s.Duration) + " -c " + s.B.Addr.String() + " " + options)}
		},
		Figure: func(_, client []byte) (float64, error) {
			var r struct {
				End struct {
					Received struct {
						Bits float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				} `json:"end"`
			}
			if err := json.Unmarshal(client, &r); err != nil {
				return 0, err
			}
			return r.End.Received.Bits / 1e9, nil
		}}
}

// ucxColumn is where the final line of ucx_perftest -f -v has a figure.
type ucxColumn struct {
	unit   Unit
	column int
	factor float64
}

// The line: iterations, percentile latency, average latency, overall latency, average and overall MB/s, average and overall messages/s.
var (
	ucxUsec = ucxColumn{usec, 3, 1}
	ucxGbps = ucxColumn{gbps, 5, 8 * 1.048576 / 1000} // its MB are 2^20 bytes
	ucxMpps = ucxColumn{mpps, 7, 1e-6}
)

func ucx(test string, size, perSecond int, column ucxColumn) Case {
	return Case{Name: fmt.Sprintf("ucx/%s/%s", strings.ReplaceAll(strings.TrimPrefix(test, "ucp_"), "_", "-"), bytesText(size)),
		Brief: fmt.Sprintf("ucx_perftest -t %s -s %d over tcp", test, size), Unit: column.unit,
		Play: func(s Setting) Play {
			side := func(me Side, peer string) Command {
				n := repeats(perSecond, s.Duration)
				c := words("ucx_perftest " + peer + " -f -v -t " + test + " -s " + strconv.Itoa(size) + " -n " + n + " -w 1000")
				c.Env = []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=" + me.Interface, "UCX_WARN_UNUSED_ENV_VARS=n"}
				return c
			}
			return Play{Proto: "tcp", Port: 13337, Server: side(s.B, ""), Client: side(s.A, s.B.Addr.String())}
		},
		Figure: func(_, client []byte) (float64, error) {
			col := strings.Split(lastLine(client), ",")
			if len(col) <= column.column {
				return 0, fmt.Errorf("no figures in %q", client)
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(col[column.column]), 64)
			return v * column.factor, err
		}}
}

// fiLine is a result of fi_pingpong: bytes, sent, acknowledged, total, time, MB/s, usec/xfer, Mxfers/s.
var fiLine = regexp.MustCompile(`(?m)^\d\S*\s+\S+\s+\S+\s+\S+\s+[\d.]+s\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$`)

func pingpong(endpoint string, size, perSecond int) Case {
	return Case{Name: fmt.Sprintf("fi_pingpong/%s/%s", endpoint, bytesText(size)),
		Brief: fmt.Sprintf("fi_pingpong -p tcp -e %s -S %d", endpoint, size), Unit: usec,
		Play: func(s Setting) Play {
			line := fmt.Sprintf("fi_pingpong -p tcp -e %s -S %d -I %s", endpoint, size, repeats(perSecond, s.Duration))
			return Play{Proto: "tcp", Port: 47592, Server: words(line), Client: words(line + " " + s.B.Addr.String())}
		},
		Figure: func(_, client []byte) (float64, error) { return submatch(fiLine, client) }}
}

var sockperfLine = regexp.MustCompile(`avg-latency=([\d.]+)`)

func sockperf(name, option string) Case {
	return Case{Name: "sockperf/" + name, Brief: "sockperf ping-pong, 64 B, blocking, " + name, Unit: usec,
		Play: func(s Setting) Play {
			return Play{Proto: name, Port: 11111, Server: words("sockperf server -i " + s.B.Addr.String() + " " + option),
				Client: words("sockperf ping-pong -m 64 -i " + s.B.Addr.String() + " -t " + seconds(s.Duration) + " " + option)}
		},
		Figure: func(_, client []byte) (float64, error) { return submatch(sockperfLine, client) }}
}

// words makes a command line of words without spaces in them.
func words(line string) Command { return Command{Args: strings.Fields(line)} }

func submatch(re *regexp.Regexp, text []byte) (float64, error) {
	m := re.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no figure in %q", text)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// lastLine that is not empty.
func lastLine(text []byte) (last string) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if s := strings.TrimSpace(lines.Text()); s != "" {
			last = s
		}
	}
	return last
}

// bytesText prints 65536 as 64K.
func bytesText(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return strconv.Itoa(n/1024) + "K"
	}
	return strconv.Itoa(n)
}
