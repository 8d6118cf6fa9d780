package pingpong

// What a run prints: the lines of the C programs, or with --json one object at the end.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goroce/goroce/roce"
)

// printer prints one run.
type printer struct {
	io.Writer
	o Options
}

// address prints an end's address. The UD program has a colon where the others have a comma, in the
// local line only.
func (p printer) address(whose string, a address) {
	if p.o.JSON {
		return
	}
	sep := ","
	if p.o.Type == roce.UD && whose == "local" {
		sep = ":"
	}
	fmt.Fprintf(p, "  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %v\n", whose+" address:", a.LID, a.QPN,
		uint32(a.PSN), sep, a.GID)
}

// result is what --json prints.
type result struct {
	Program  string  `json:"program"`
	Role     string  `json:"role"`
	Device   string  `json:"device"`
	Type     string  `json:"type"`
	Local    end     `json:"local"`
	Remote   end     `json:"remote"`
	QPs      int     `json:"qps"` // Local and Remote are the first of them
	MTU      int     `json:"mtu"`
	Size     int     `json:"size"`
	Iters    int     `json:"iters"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	MbitSec  float64 `json:"mbit_per_sec"`
	UsecIter float64 `json:"usec_per_iter"`
	Checked  bool    `json:"data_checked"`
	Wrong    int     `json:"wrong_messages"`

	Counters map[string]uint64 `json:"counters"`
	Notes    []string          `json:"notes,omitempty"`
}

type end struct {
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

// result prints the figures and, with --chk, what was wrong.
func (p printer) result(g *game, took time.Duration) {
	usec := max(float64(took)/1e3, 1e-3)
	total := int64(g.o.Size) * int64(g.o.Iters) * 2
	first, name := g.rallies[0], strings.ToLower(g.o.Type.String())
	if g.o.SRQ {
		name = "srq"
	}
	r := result{Program: "ibv_" + name + "_pingpong", Role: "server", Device: g.s.Name(), Type: g.o.Type.String(),
		Local:  end{first.own.QPN, uint32(first.own.PSN), first.own.GID.String()},
		Remote: end{first.peer.QPN, uint32(first.peer.PSN), first.peer.GID.String()}, QPs: g.o.QPs, MTU: g.mtu.Bytes(),
		Size: g.o.Size, Iters: g.o.Iters, Bytes: total, Seconds: usec / 1e6, MbitSec: float64(total) * 8 / usec,
		UsecIter: usec / float64(g.o.Iters), Checked: g.o.Check, Wrong: len(g.wrong)}
	if g.o.Host != "" {
		r.Role = "client"
	}
	if p.o.JSON {
		r.Counters, r.Notes = g.s.Counters(), g.s.Notes()
		e := json.NewEncoder(p)
		e.SetIndent("", "  ")
		e.Encode(r)
		return
	}
	for i, w := range g.wrong {
		if i == 8 {
			fmt.Fprintf(p, "... and %d more\n", len(g.wrong)-i)
			break
		}
		fmt.Fprintln(p, w)
	}
	io.WriteString(p, r.lines())
	for _, note := range g.s.Notes() {
		fmt.Fprintln(p, note)
	}
}

// lines are the two lines at the end of the C programs.
func (r *result) lines() string {
	return fmt.Sprintf("%d bytes in %.2f seconds = %.2f Mbit/sec\n%d iters in %.2f seconds = %.2f usec/iter\n",
		r.Bytes, r.Seconds, r.MbitSec, r.Iters, r.Seconds, r.UsecIter)
}
