package repertoire

// Cases that this program plays itself, at both ends (package ends): their command lines, and what
// the ends say. All figures of a play are in one Result.

import (
	"encoding/json"
	"fmt"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
)

// endsPlay is a play of a kind of ends, with options that may depend on the end.
func endsPlay(kind string, port int, options func(me figures.Side) string) func(figures.Setting) figures.Play {
	return func(s figures.Setting) figures.Play {
		side := func(me, peer figures.Side) string {
			return fmt.Sprintf("%s %s %s -local %s -peer %s", s.Bench, kind, options(me), me.Addr, peer.Addr)
		}
		return figures.Play{Proto: "tcp", Port: port, Server: Words(side(s.B, s.A)),
			Client: Words(fmt.Sprintf("%s -sends -d %v", side(s.A, s.B), s.Duration))}
	}
}

// alike are options that do not depend on the end.
func alike(options string) func(figures.Side) string {
	return func(figures.Side) string { return options }
}

// endsResult is what one of both ends has said.
func endsResult(server, client []byte) (r ends.Result, err error) {
	return r, parse(append(server[:len(server):len(server)], client...), &r)
}

// endsFigure takes a figure from the Result, which must be more than nothing.
func endsFigure(of func(*ends.Result) float64) func(server, client []byte) (float64, error) {
	return func(server, client []byte) (float64, error) {
		r, err := endsResult(server, client)
		if err != nil {
			return 0, err
		}
		if v := of(&r); v > 0 {
			return v, nil
		}
		return 0, errNoResult
	}
}

// parse reads the figures that a program of ours has printed.
func parse(text []byte, figures any) error {
	if err := json.Unmarshal(text, figures); err != nil {
		return fmt.Errorf("no figures in %q (%v)", text, err)
	}
	return nil
}
