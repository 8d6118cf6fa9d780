//go:build linux

package main

// The ceilings as cases: this program runs itself with the words "raw PATH" on both ends.

import (
	"encoding/json"
	"fmt"

	"github.com/goroce/goroce/bench/raw"
)

// ceilings says which figure of a raw path counts; the server of a stream has it, the client of a ping-pong.
var ceilings = []struct {
	path   string
	unit   Unit
	figure func(server, client raw.Result) float64
}{
	{"udp-stream", gbps, arrivedGbps},
	{"udp-stream-work", gbps, arrivedGbps},
	{"udp-small", mpps, arrivedMpps},
	{"udp-small-work", mpps, arrivedMpps},
	{"udp-most-work", mpps, arrivedMpps},
	{"udp-pingpong", usec, oneWay},
	{"udp-blocking", usec, oneWay},
	{"packet-stream", gbps, arrivedGbps},
	{"packet-stream-work", gbps, arrivedGbps},
	{"packet-small-work", mpps, arrivedMpps},
	{"packet-most-work", mpps, arrivedMpps},
	{"packet-pingpong", usec, oneWay},
	{"xdp-stream", gbps, arrivedGbps},
	{"xdp-stream-work", gbps, arrivedGbps},
	{"xdp-small-work", mpps, arrivedMpps},
	{"xdp-pingpong", usec, oneWay},
}

func arrivedGbps(server, _ raw.Result) float64 { return server.Gbps }
func arrivedMpps(server, _ raw.Result) float64 { return server.Mpps }
func oneWay(_, client raw.Result) float64      { return client.OneWay }

func ceilingCases() (cases []Case) {
	for _, c := range ceilings {
		cases = append(cases, Case{Name: "raw/" + c.path, Brief: brief(c.path), Unit: c.unit,
			Play: func(s Setting) Play {
				return Play{Proto: "udp", Port: raw.Port, Server: rawCommand(s, c.path, s.B, s.A, false), Client: rawCommand(s, c.path, s.A, s.B, true)}
			},
			Figure: func(server, client []byte) (float64, error) {
				var atServer, atClient raw.Result
				if err := json.Unmarshal(server, &atServer); err != nil {
					return 0, fmt.Errorf("the server said %q: %w", server, err)
				}
				if err := json.Unmarshal(client, &atClient); err != nil {
					return 0, fmt.Errorf("the client said %q: %w", client, err)
				}
				if atServer.Bad > 0 {
					return 0, fmt.Errorf("%d packets with a bad CRC", atServer.Bad)
				}
				return c.figure(atServer, atClient), nil
			}})
	}
	return cases
}

func brief(path string) string {
	for _, p := range raw.Paths {
		if p.Name == path {
			return p.Brief
		}
	}
	return ""
}

func rawCommand(s Setting, path string, me, peer Side, sends bool) Command {
	return Command{Args: []string{s.Bench, "raw", "-path", path, "-if", me.Interface, "-local", me.Addr.String(), "-peer", peer.Addr.String(),
		"-mac", peer.MAC.String(), "-d", s.Duration.String(), fmt.Sprintf("-sends=%v", sends)}}
}
