package repertoire

// The rivals: Debian's iperf3, ucx_perftest, fi_pingpong and sockperf, each with its defaults and
// with the command lines that give it its best figures on a veth pair, and where the figure stands
// in what it prints.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goroce/goroce/bench/figures"
)

// RivalPackages are the Debian packages that the programs come from.
var RivalPackages = map[string]string{
	"iperf3":       "iperf3",
	"ucx_perftest": "ucx-utils",
	"fi_pingpong":  "libfabric-bin",
	"sockperf":     "sockperf",
	"mpirun":       "openmpi-bin",
	"mpicc":        "libopenmpi-dev",
}

// rivalCases are those that are best somewhere among what was tried on a veth pair of either MTU,
// beside each program's defaults.
//
// Tried with iperf3 and left out, because they were the best nowhere: -Z and -P 2 (0.63 and 0.94 of
// -l 1M on a quiet machine; the rest was tried on a busy one), -l 64K and -l 256K, -w of 400K, 1M
// and 4M, -N, reno; long runs without order, which are as good with it; short writes on other
// links. bbr takes packets out of order for a slow path: it has half of what cubic has, and is
// slower still where they stay in order. It is for a full run.
//
// Tried with UCX and left out: large segments without large socket buffers, and -O with put, tag
// and am (both at par with what is here), streams with the defaults, get with one outstanding (a
// twentieth of 32) and with 128 (at par with 32), UCX_TCP_MAX_POLL, large segments and -O for small
// messages (at par). With libfabric: tcp with ofi_rxm (at par with net), sockets (it failed), udp
// (which may lose messages). With sockperf: busy polling of its TCP sockets (--lls).
func rivalCases() (cases []figures.Case) {
	for _, c := range iperf3Tests {
		k := onLink(Iperf3(c.name, c.brief, c.options), c.link)
		k.Full = c.full
		cases = append(cases, k)
	}
	for _, t := range ucxTests {
		cases = append(cases, t.asCase())
	}
	for _, c := range []struct {
		provider, endpoint string
		size, perSecond    int
		full               bool
	}{
		{"tcp", "msg", 8, 60000, false},
		{"net", "rdm", 8, 60000, true},
		{"tcp", "msg", 65536, 18000, false},
		{"net", "rdm", 65536, 18000, false},
	} {
		k := pingpong(c.provider, c.endpoint, c.size, c.perSecond)
		k.Full = c.full
		cases = append(cases, k)
	}
	for _, proto := range []string{"udp", "tcp"} {
		spins, blocks := sockperf(proto, "spin", "--nonblocked"), sockperf(proto, "block", "")
		spins.Full, blocks.Full = proto == "tcp", true // slower than UDP, and than who spins
		cases = append(cases, spins, blocks)
	}
	return cases
}

// iperf3Tests are its streams; names say what the link is like.
var iperf3Tests = []struct {
	name, brief, options string
	link                 figures.Link
	full                 bool
}{
	{"tcp/128K", "iperf3, TCP, 1 stream, its defaults (-l 128K)", "-l 128K", figures.Link{}, false},
	{"tcp/512K-w2M", "iperf3, TCP, 1 stream, -l 512K -w 2M", "-l 512K -w 2M", figures.Link{}, false},
	{"tcp/1M", "iperf3, TCP, 1 stream, -l 1M", "-l 1M", figures.Link{}, false},
	{"tcp/1M-ordered", "iperf3, TCP, 1 stream, -l 1M, where packets stay in order (RPS)", "-l 1M", inOrder, true},
	{"tcp/1M-big", "iperf3, TCP, 1 stream, -l 1M, where packets stay in order and go in runs of up to 196,000 " +
		"bytes (BIG TCP)", "-l 1M", inOrderBig, false},
	{"tcp/128K-bbr", "iperf3, TCP with bbr, 1 stream, -l 128K", "-l 128K", figures.Link{Congestion: "bbr"}, true},
	{"tcp/512K-w2M-bbr", "iperf3, TCP with bbr, 1 stream, -l 512K -w 2M", "-l 512K -w 2M",
		figures.Link{Congestion: "bbr"}, true},
	{"udp/8K", "iperf3, UDP, datagrams of 8 KiB", "-u -b 0 -l 8192", figures.Link{}, true},
}

// Links on which TCP does better than on a veth pair as it is.
var (
	inOrder    = figures.Link{InOrder: true}
	inOrderBig = figures.Link{InOrder: true, Big: true}
)

// onLink is the case on such a link.
func onLink(c figures.Case, link figures.Link) figures.Case {
	play := c.Play
	c.Play = func(s figures.Setting) figures.Play {
		p := play(s)
		p.Link = link
		return p
	}
	return c
}

// Iperf3 is a case of TCP or UDP with these options of the client.
func Iperf3(name, brief, options string) figures.Case {
	return figures.Case{Name: "iperf3/" + name, Brief: brief, Unit: figures.Gbps,
		Play: func(s figures.Setting) figures.Play {
			return figures.Play{Proto: "tcp", Port: 5201, Server: Words("iperf3 -s -1"),
				Client: Words("iperf3 -J -t " + figures.Seconds(s.Duration) + " -c " + s.B.Addr.String() +
					" " + options)}
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

// ucxTest is a test of ucx_perftest with settings.
type ucxTest struct {
	test      string
	size      int
	perSecond int // messages, about, for how many make a play as long as others
	column    ucxColumn
	variant   string // what is set, in a word; "": the defaults
	options   string
	full      bool // it has not been the best of its kind
}

// ucxVariants are settings that make UCX faster over TCP than its defaults, whose segments of 8 KiB
// cut a message of 64 KiB in pieces. With "-big" they are played where TCP is at its best.
var ucxVariants = map[string]string{
	"":       "",
	"large":  largeSegments,
	"eager":  largeSegments + " UCX_RNDV_THRESH=inf",
	"copied": largeSegments + " UCX_RNDV_THRESH=inf UCX_ZCOPY_THRESH=inf",
}

const largeSegments = "UCX_TCP_TX_SEG_SIZE=128k UCX_TCP_RX_SEG_SIZE=128k UCX_TCP_SNDBUF=4m UCX_TCP_RCVBUF=4m"

// ucxTests: as many gets are outstanding as our READs.
var ucxTests = []ucxTest{
	{"ucp_put_bw", 65536, 15000, ucxGbps, "", "", true},
	{"ucp_put_bw", 65536, 30000, ucxGbps, "large", "", false},
	{"ucp_put_bw", 65536, 30000, ucxGbps, "large-big", "", false},
	{"ucp_put_bw", 65536, 30000, ucxGbps, "copied", "", false},
	{"tag_bw", 65536, 20000, ucxGbps, "", "", true},
	{"tag_bw", 65536, 40000, ucxGbps, "large", "", false},
	{"tag_bw", 65536, 40000, ucxGbps, "copied", "", false},
	{"tag_bw", 65536, 40000, ucxGbps, "copied-big", "", false},
	{"ucp_am_bw", 65536, 40000, ucxGbps, "eager", "", false},
	{"stream_bw", 65536, 35000, ucxGbps, "eager", "-O 32", true},
	{"ucp_get", 65536, 12000, ucxGbps, "", "-O 32", true},
	{"ucp_get", 65536, 35000, ucxGbps, "large", "-O 32", false},
	{"ucp_get", 65536, 35000, ucxGbps, "large-big", "-O 32", false},
	{"ucp_get", 65536, 35000, ucxGbps, "copied", "-O 32", true},

	{"ucp_put_lat", 8, 35000, ucxUsec, "", "", true},
	{"ucp_am_lat", 8, 60000, ucxUsec, "", "", false},
	{"tag_lat", 8, 60000, ucxUsec, "", "", false},
	{"stream_lat", 8, 60000, ucxUsec, "", "", true},
	{"ucp_put_lat", 65536, 15000, ucxUsec, "large", "", false},
	{"tag_lat", 65536, 15000, ucxUsec, "copied", "", false},
	{"ucp_am_lat", 65536, 15000, ucxUsec, "eager", "", false},

	{"ucp_put_bw", 8, 180000, ucxMpps, "", "", false},
	{"ucp_am_bw", 8, 250000, ucxMpps, "", "", false},
	{"tag_bw", 8, 250000, ucxMpps, "", "", false},
	{"stream_bw", 8, 250000, ucxMpps, "", "", false},
}

// ucxColumn is where the final line of ucx_perftest -f -v has a figure.
type ucxColumn struct {
	unit   figures.Unit
	column int
	factor float64
}

// The line: iterations, percentile latency, average latency, overall latency, average and overall
// MB/s, average and overall messages/s.
var (
	ucxUsec = ucxColumn{figures.Usec, 3, 1}
	ucxGbps = ucxColumn{figures.Gbps, 5, 8 * 1.048576 / 1000} // its MB are 2^20 bytes
	ucxMpps = ucxColumn{figures.Mpps, 7, 1e-6}
)

func (t ucxTest) asCase() figures.Case {
	name := fmt.Sprintf("ucx/%s/%s", strings.ReplaceAll(strings.TrimPrefix(t.test, "ucp_"), "_", "-"),
		bytesText(t.size))
	if t.variant != "" {
		name += "/" + t.variant
	}
	variant, isBig := strings.CutSuffix(t.variant, "-big")
	settings := strings.Fields("UCX_TLS=tcp " + ucxVariants[variant])
	var link figures.Link
	where := ""
	if isBig {
		link, where = inOrderBig, ", where packets stay in order and go in runs of up to 196,000 bytes"
	}
	return figures.Case{Name: name, Unit: t.column.unit, Full: t.full,
		Brief: strings.TrimSpace(fmt.Sprintf("%s ucx_perftest -t %s -s %d %s",
			strings.Join(settings, " "), t.test, t.size, t.options)) + where,
		Play: func(s figures.Setting) figures.Play {
			side := func(me figures.Side, peer string) figures.Command {
				c := Words(fmt.Sprintf("ucx_perftest %s -f -v -t %s -s %d %s -n %s -w 1000",
					peer, t.test, t.size, t.options, figures.Repeats(t.perSecond, s.Duration)))
				c.Env = append([]string{"UCX_NET_DEVICES=" + me.Interface, "UCX_WARN_UNUSED_ENV_VARS=n"}, settings...)
				return c
			}
			return figures.Play{
				Proto:  "tcp",
				Port:   13337,
				Server: side(s.B, ""),
				Client: side(s.A, s.B.Addr.String()),
				Link:   link,
			}
		},
		Figure: func(_, client []byte) (float64, error) {
			col := strings.Split(LastLine(client), ",")
			if len(col) <= t.column.column {
				return 0, fmt.Errorf("no figures in %q", client)
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(col[t.column.column]), 64)
			return v * t.column.factor, err
		}}
}

// fiLine is a result of fi_pingpong: bytes, sent, acknowledged, total, time, MB/s, usec/xfer,
// Mxfers/s.
var fiLine = regexp.MustCompile(`(?m)^\d\S*\s+\S+\s+\S+\s+\S+\s+[\d.]+s\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$`)

func pingpong(provider, endpoint string, size, perSecond int) figures.Case {
	line := fmt.Sprintf("fi_pingpong -p %s -e %s -S %d", provider, endpoint, size)
	return figures.Case{Name: fmt.Sprintf("fi_pingpong/%s-%s/%s", provider, endpoint, bytesText(size)), Brief: line,
		Unit: figures.Usec, Play: func(s figures.Setting) figures.Play {
			line := line + " -I " + figures.Repeats(perSecond, s.Duration)
			return figures.Play{
				Proto:  "tcp",
				Port:   47592,
				Server: Words(line),
				Client: Words(line + " " + s.B.Addr.String()),
			}
		},
		Figure: func(_, client []byte) (float64, error) { return submatch(fiLine, client) }}
}

var sockperfLine = regexp.MustCompile(`avg-latency=([\d.]+)`)

// sockperf's shortest message with a time in it is 14 bytes. Its UDP does not repeat what is lost.
func sockperf(proto, way, option string) figures.Case {
	both := map[string]string{"udp": "", "tcp": "--tcp"}[proto] + " " + option
	return figures.Case{Name: "sockperf/" + proto + "/" + way, Unit: figures.Usec,
		Brief: fmt.Sprintf("sockperf ping-pong, %s, 14 B, %s", proto,
			map[string]string{"spin": "spinning (--nonblocked)", "block": "blocking"}[way]),
		Play: func(s figures.Setting) figures.Play {
			return figures.Play{Proto: proto, Port: 11111, Stays: true,
				Server: Words("sockperf server -i " + s.B.Addr.String() + " " + both),
				Client: Words("sockperf ping-pong -m 14 -i " + s.B.Addr.String() +
					" -t " + figures.Seconds(s.Duration) + " " + both)}
		},
		Figure: func(_, client []byte) (float64, error) { return submatch(sockperfLine, client) }}
}

// Words makes a command line of words without spaces in them.
func Words(line string) figures.Command { return figures.Command{Args: strings.Fields(line)} }

func submatch(re *regexp.Regexp, text []byte) (float64, error) {
	m := re.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no figure in %q", text)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// LastLine that is not empty.
func LastLine(text []byte) (last string) {
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
