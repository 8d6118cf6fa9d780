//go:build linux

package repertoire

// The references as cases: this program runs itself with the words "raw PATH" on both ends.

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/goroce/goroce/bench/raw"

	"github.com/goroce/goroce/bench/figures"
)

// references says which figure of a raw path counts, and on which links it is played: packets that
// fill a link differ with its MTU, small ones do not. Streams without work and AF_XDP, which no bar
// is about, are for a full run.
var references = []struct {
	path string
	kind *rawKind
	mtus []int
	full bool
}{
	{"udp-stream", stream, figures.MTUs, true},
	{"udp-stream-work", stream, figures.MTUs, false},
	{"udp-small-work", small, anyMTU, false},
	{"udp-pingpong", exchange, anyMTU, false},
	{"udp-blocking", exchange, anyMTU, false},
	{"packet-stream", stream, figures.MTUs, true},
	{"packet-stream-work", stream, figures.MTUs, false},
	{"packet-small-work", small, anyMTU, false},
	{"packet-pingpong", exchange, anyMTU, false},
}

var anyMTU = []int{0}

// rawKind is what is taken from the results of a path; the server of a stream has the figure, the
// client of a ping-pong.
type rawKind struct {
	unit   figures.Unit
	figure func(server, client raw.Result) float64
	cost   figures.Unit                    // zero: what goes with the unit
	work   func(client raw.Result) float64 // nil: the figure
	note   func(server, client raw.Result) string
	p99    func(client raw.Result) float64
}

var (
	stream = &rawKind{
		unit:   figures.Gbps,
		figure: func(server, _ raw.Result) float64 { return server.Gbps },
		note:   lostOf,
	}
	small = &rawKind{
		unit:   figures.Mpps,
		figure: func(server, _ raw.Result) float64 { return server.Mpps },
		note:   lostOf,
	}
	// exchange has the mean, as the latency tests of others do.
	exchange = &rawKind{unit: figures.Usec, figure: func(_, client raw.Result) float64 { return client.OneWay },
		cost: figures.PerExchange, work: exchangeRate, p99: tailOf}
	// sparseExchange has the median: of few exchanges, one that something else held up decides the
	// mean.
	sparseExchange = &rawKind{unit: figures.Usec, figure: func(_, client raw.Result) float64 { return client.Typical },
		cost: figures.PerExchange, work: exchangeRate, p99: tailOf}
)

func exchangeRate(client raw.Result) float64 { return client.Rate / 1e6 }

func lostOf(server, _ raw.Result) string {
	if server.Lost < 0.0001 {
		return ""
	}
	return fmt.Sprintf("lost %.2f %%", 100*server.Lost)
}

func tailOf(client raw.Result) float64 { return client.P99 }

// mostLost is the share of packets beyond which a stream has no figure: nobody can use it.
const mostLost = 0.01

func referenceCases() (cases []figures.Case) {
	for _, c := range references {
		for _, mtu := range c.mtus {
			one := c.kind.on("raw/"+c.path, c.path, mtu, 0)
			one.Full = c.full
			cases = append(cases, one)
		}
	}
	return cases
}

// on makes a case of a path on links of an MTU.
func (k *rawKind) on(name, path string, mtu int, gap time.Duration) figures.Case {
	c := figures.Case{Name: name, Brief: brief(path), Unit: k.unit, MTU: mtu, CostUnit: k.cost,
		Play: func(s figures.Setting) figures.Play {
			return figures.Play{Proto: "udp", Port: raw.Port, Server: rawCommand(s, path, mtu, s.B, s.A),
				Client: rawCommand(s, path, mtu, s.A, s.B, "-sends", "-gap", gap.String())}
		},
		Figure: func(server, client []byte) (float64, error) {
			atServer, atClient, err := rawResults(server, client)
			if err != nil {
				return 0, err
			}
			return k.figure(atServer, atClient), nil
		}}
	if k.note != nil {
		c.Note = func(server, client []byte) string {
			atServer, atClient, err := rawResults(server, client)
			if err != nil {
				return ""
			}
			return k.note(atServer, atClient)
		}
	}
	if k.p99 != nil {
		c.P99 = func(server, client []byte) float64 {
			_, atClient, _ := rawResults(server, client)
			return k.p99(atClient)
		}
	}
	if k.work != nil {
		c.Work = func(server, client []byte) (float64, error) {
			_, atClient, err := rawResults(server, client)
			return k.work(atClient), err
		}
	}
	return c
}

// rawResults reads what both ends said; what is not as it must be is an error.
func rawResults(server, client []byte) (atServer, atClient raw.Result, err error) {
	if err := json.Unmarshal(server, &atServer); err != nil {
		return atServer, atClient, fmt.Errorf("the server said %q: %w", server, err)
	}
	if err := json.Unmarshal(client, &atClient); err != nil {
		return atServer, atClient, fmt.Errorf("the client said %q: %w", client, err)
	}
	if atServer.Bad > 0 {
		return atServer, atClient, fmt.Errorf("%d packets with a bad ICRC", atServer.Bad)
	}
	if atServer.Lost > mostLost {
		return atServer, atClient, fmt.Errorf("%.1f %% of the packets were lost", 100*atServer.Lost)
	}
	return atServer, atClient, nil
}

func brief(path string) string {
	for _, p := range raw.Paths {
		if p.Name == path {
			return p.Brief
		}
	}
	return ""
}

func rawCommand(s figures.Setting, path string, mtu int, me, peer figures.Side, more ...string) figures.Command {
	if mtu == 0 {
		mtu = figures.MTUs[0]
	}
	return figures.Command{Args: append([]string{s.Bench, "raw", "-path", path, "-if", me.Interface, "-local",
		me.Addr.String(), "-peer", peer.Addr.String(), "-mac", peer.MAC.String(), "-mtu", fmt.Sprint(mtu), "-d",
		s.Duration.String()}, more...)}
}
