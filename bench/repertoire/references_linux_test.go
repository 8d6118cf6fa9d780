//go:build linux

package repertoire

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

func oneCase(t *testing.T, name string) figures.Case {
	t.Helper()
	all := everyCase()
	i := slices.IndexFunc(all, func(c figures.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	return all[i]
}

// A stream that loses is marked, and one that loses much is none.
func TestLossOfReferences(t *testing.T) {
	c := oneCase(t, "1500/raw/udp-stream-work")
	for _, test := range []struct {
		server, note, err string
	}{
		{`{"gbps": 10, "lost": 0}`, "", ""},
		{`{"gbps": 10, "lost": 0.004}`, "lost 0.40 %", ""},
		{`{"gbps": 10, "lost": 0.04}`, "", "4.0 % of the packets were lost"},
		{`{"gbps": 10, "bad_crc": 3}`, "", "3 packets with a bad ICRC"},
	} {
		v, err := c.Figure([]byte(test.server), []byte(`{"packets": 1}`))
		switch {
		case test.err == "" && (v != 10 || err != nil):
			t.Errorf("%s: %v, %v", test.server, v, err)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: %v, want %q in it", test.server, err, test.err)
		}
		if note := c.Note([]byte(test.server), []byte(`{"packets": 1}`)); note != test.note {
			t.Errorf("%s: noted %q, want %q", test.server, note, test.note)
		}
	}
}

// Of sparse exchanges counts the median; their work is how many there were in a second.
func TestSparse(t *testing.T) {
	for _, test := range []struct {
		name, server, client string
		figure, work         float64
		p99                  float64
	}{
		{"1500/sparse/1ms/raw-blocking", `{"packets": 9}`, `{"usec": 70, "typical": 50, "p99": 90, "rate": 800}`, 50, 0.0008, 90},
		{"1500/sparse/10ms/ours/udp", "", `{"results": [{"t_typical_usec": 60, "iterations": 190, "percentiles_usec": {"99": 95},
			"cpu": {"elapsed_seconds": 2}}]}`, 60, 0.000095, 95},
	} {
		c := oneCase(t, test.name)
		figure, err := c.Figure([]byte(test.server), []byte(test.client))
		if err != nil || figure != test.figure {
			t.Errorf("%s: figure %v, %v", test.name, figure, err)
		}
		work, err := c.Work([]byte(test.server), []byte(test.client))
		if err != nil || math.Abs(work-test.work) > 1e-12 {
			t.Errorf("%s: work %v, %v", test.name, work, err)
		}
		if p99 := c.P99([]byte(test.server), []byte(test.client)); p99 != test.p99 {
			t.Errorf("%s: p99 %v", test.name, p99)
		}
	}
}

// Only the client knows of the gap.
func TestWhoHasTheGap(t *testing.T) {
	for name, want := range map[string]string{"1500/sparse/10ms/ours/udp": "--gap 10ms", "1500/sparse/10ms/raw-blocking": "-gap 10ms"} {
		p := oneCase(t, name).Play(figures.Setting{Duration: time.Second})
		if client := strings.Join(p.Client.Args, " "); !strings.Contains(client, want) {
			t.Errorf("%s: no %s in %s", name, want, client)
		}
		if server := strings.Join(p.Server.Args, " "); strings.Contains(server, "gap") {
			t.Errorf("%s: a gap in %s", name, server)
		}
	}
}
