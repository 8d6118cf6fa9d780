package networks

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/bench/stage"
	"github.com/goroce/goroce/internal/netns"
)

// Names are unique, and say who; each bar is about a case that there is.
func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		table, _, who := c.parts()
		require.True(t, strings.HasPrefix(c.Name, table+"/") && who == c.Flows[0], c.Name)
	}
	for _, b := range bars {
		found := false
		for name := range seen {
			found = found || strings.HasPrefix(name, b.table+"/"+b.row) && strings.HasSuffix(name, b.who)
		}
		require.True(t, found, "%+v", b)
		known := false
		for _, f := range figureOf {
			known = known || f.name == b.figure
		}
		require.True(t, known, "%+v", b)
	}
}

// What was played is not played again, what another commit has played does not count, and the table
// has medians and what is missed.
func TestStateAndTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.jsonl")
	s, err := Load(file, "one")
	require.NoError(t, err)
	for _, gbps := range []float64{0.5, 0.9, 0.91} {
		require.NoError(t, s.Add(Record{Case: "alone/64k/udp-write", Flows: []float64{gbps}, Resent: 3}))
	}
	require.NoError(t, s.Add(Record{Case: "two/64k/udp-write", Flows: []float64{0.4, 0.5}, Lost: 0.2}))
	again, err := Load(file, "one")
	require.NoError(t, err)
	require.Equal(t, 3, again.Times("alone/64k/udp-write"))
	other, err := Load(file, "two")
	require.NoError(t, err)
	require.Zero(t, other.Times("alone/64k/udp-write"))
	var text strings.Builder
	require.NoError(t, again.Write(&text, Cases(), 5, "a machine"))
	for _, want := range []string{"| 64k | udp-write | 3 | payload 0.986, resent 3, lost 0 | payload >= 0.98; **missed: resent <= 1** |",
		"evenness 0.8 |", "2 demands are missed"} {
		require.Contains(t, text.String(), want)
	}
}

// TestOutcome: what the programs print becomes figures.
func TestOutcome(t *testing.T) {
	for kind, said := range map[string]string{
		"cubic": `{"end": {"sum_received": {"bits_per_second": 250000000}}}`,
		"udp-write": `{"results": [{"bytes": 65536, "msg_rate_mpps": 0.000476837158203125}],
			"counters": {"sent_pkts": 100, "retransmitted_pkts": 4}}`,
	} {
		o, err := (&flow{kind: kind}).outcome([]byte(said))
		require.NoError(t, err)
		require.InDelta(t, 0.25, o.gbps, 0.001, kind)
		_, err = (&flow{kind: kind}).outcome([]byte("unable to connect"))
		require.ErrorContains(t, err, kind)
	}
	o, err := (&flow{kind: "tcp-trip"}).outcome([]byte(`{"p99_usec": 1500}`))
	require.NoError(t, err)
	require.InDelta(t, 1.5, o.p99, 1e-9)
}

// TestPlay plays one small case: the network is made, ours runs through it, and all say what was.
// A busy machine may need more than one attempt: the packets of ours wait for nobody.
func TestPlay(t *testing.T) {
	c := Case{Name: "two/smoke/udp-write", Queue: stage.Queue{Rate: 1e9, Limit: 256 << 10},
		Flows: []string{"udp-write", "udp-read"}, Start: 100 * time.Millisecond}
	b, err := stage.NewBottleneck(1, MTU, c.Queue)
	if err != nil { // a user who is not root, or root in a container that may not
		netns.Lacks(t, "the benchmark's network cannot be made: %v", err)
	}
	b.Close()
	roce := filepath.Join(t.TempDir(), "roce")
	text, err := exec.Command("go", "build", "-pgo=off", "-o", roce, "github.com/goroce/goroce/cmd/roce").CombinedOutput()
	require.NoError(t, err, "%s", text)
	for range 5 {
		var r Record
		if r, err = Play(t.Context(), &c, time.Second, roce, ""); err == nil {
			require.Len(t, r.Flows, 2)
			return
		}
		t.Log(err)
	}
	t.Fatal(err)
}
