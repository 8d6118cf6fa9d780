package quiz

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// again computes the answers in another way than the questions do: by counting, by shifting, by
// adding up what takes time. A kind without a row fails the test.
var again = map[string]func(g map[string]float64) float64{
	"pages": func(g map[string]float64) float64 {
		n := 0.0
		for at := math.Floor(g["addr"]/4096) * 4096; at < g["addr"]+g["bytes"]; at += 4096 {
			n++
		}
		return n
	},
	"table":   func(g map[string]float64) float64 { return g["bytes"] * 8 / g["page"] },
	"largest": func(g map[string]float64) float64 { return g["table"] * g["page"] / 8 },
	"cached": func(g map[string]float64) float64 {
		return math.Min(100, 100*g["cache"]*4096/(8*g["bytes"]))
	},
	"queues": func(g map[string]float64) float64 {
		sum := 0.0
		for _, name := range []string{"sq", "rq", "cq"} {
			n := 1.0
			for n < g[name] {
				n *= 2
			}
			if g["rounded"] == 0 {
				n = g[name]
			}
			sum += n * g[name+"e"]
		}
		return sum
	},
	"send-wr": func(g map[string]float64) float64 {
		return []float64{g["local"] + g["from"], g["bytes"], g["lkey"], g["rkey"], g["remote"] + g["to"], 0, 1, 2}[int(g["field"])]
	},
	"packets": func(g map[string]float64) float64 {
		n := 1.0
		for left := g["bytes"] - g["mtu"]; left > 0; left -= g["mtu"] {
			n++
		}
		return n
	},
	"headers": func(g map[string]float64) float64 {
		frame := 14 + g["ip"] + 8 + 12 + g["mtu"] + 4 + 4
		return g["gbit"] * g["mtu"] / (8 + frame + 12)
	},
	"latency": func(g map[string]float64) float64 {
		return g["post"] + g["pci"] + g["pci"] + 5*g["meters"] + g["switch"]*g["switches"] + g["see"]
	},
	"ways": func(g map[string]float64) float64 {
		sockets, rdma := g["rtt"]*1000, g["rtt"]*1000
		for range 2 {
			sockets, rdma = sockets+1000*g["send"]+1000*g["recv"], rdma+g["post"]+g["poll"]
		}
		return sockets / rdma
	},
	"speed-up": func(g map[string]float64) float64 { return 100 / (100 - g["share"] + g["share"]/g["times"]) },
	"gbit": func(g map[string]float64) float64 {
		if g["mib"] > 0 {
			return g["mib"] * 8.388608 / 1000
		}
		return g["gbit"] * 1000 / 8.388608
	},
	"window":    func(g map[string]float64) float64 { return g["packets"] * g["mtu"] / (g["rtt"] * 1000) * 8 },
	"in-flight": func(g map[string]float64) float64 { return g["gbit"] * 125 * g["rtt"] },
	"cpu": func(g map[string]float64) float64 {
		ns := 0.0 // of as many requests as have one completion
		for range int(g["every"]) {
			ns += g["post"]
		}
		return (ns + g["poll"]) / g["every"] * 1e6 / 1e9
	},
}

// Each answer is that of another computation, passes its own check as it is printed, and its
// explanation names it; a wrong one does not pass.
func TestEveryKind(t *testing.T) {
	for i := range Kinds {
		k := &Kinds[i]
		compute, ok := again[k.Name]
		require.True(t, ok, "%s has no second computation", k.Name)
		seen := map[string]bool{}
		for seed := range uint64(200) {
			all, err := Ask(seed, 5, k)
			require.NoError(t, err)
			for _, q := range all {
				seen[q.Text] = true
				require.InEpsilon(t, 1+compute(q.Given), 1+q.Answer, 1e-9, "%s\n%v", q.Text, q.Given)
				right, err := q.Check(Number(q.Answer) + " " + q.Unit)
				require.NoError(t, err, q.Text)
				require.True(t, right, "%s: %s", q.Text, Number(q.Answer))
				right, err = q.Check(fmt.Sprint(q.Answer*1.1 + 1))
				require.NoError(t, err)
				require.False(t, right, q.Text)
				require.Equal(t, k.Name, q.Kind)
				require.NotEmpty(t, q.Given)
				// a question says all that is needed
				require.NotContains(t, q.Text, "%!")
				require.NotContains(t, q.Why, "%!")
				require.NotContains(t, q.Why, "e+", q.Text)
				require.True(t, strings.HasSuffix(q.Why, "."), q.Why)
			}
		}
		require.Greater(t, len(seen), 20, "%s: the numbers are not fresh", k.Name)
	}
	require.Len(t, again, len(Kinds))
}

// The same seed asks the same; another seed something else; all kinds come before one comes again.
func TestAsk(t *testing.T) {
	a, err := Ask(7, len(Kinds), nil)
	require.NoError(t, err)
	b, _ := Ask(7, len(Kinds), nil)
	require.Equal(t, a, b)
	c, _ := Ask(8, len(Kinds), nil)
	require.NotEqual(t, a, c)
	kinds := map[string]bool{}
	for _, q := range a {
		kinds[q.Kind] = true
	}
	require.Len(t, kinds, len(Kinds))
	for _, n := range []int{0, -1, 1001} {
		_, err := Ask(1, n, nil)
		require.Error(t, err)
	}
	require.Nil(t, Find("astrology"))
	require.Equal(t, "cpu", Find("cpu").Name)
}

func TestParse(t *testing.T) {
	for text, want := range map[string]float64{"4096": 4096, "0x1000": 4096, "4K": 4096, "4 KiB": 4096, "1.5": 1.5, "16M": 1 << 24,
		"4,096": 4096, " 2g ": 2 << 30, "1e3": 1000, "1 TiB": 1 << 40, "010": 10, "1,048,576": 1 << 20, "1,024.5": 1024.5,
		"1,024K": 1 << 20, "18446744073709551616": 1 << 64} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "K", "many", "NaN", "inf", "12 apples", "0x", "4,5", "1,0245", "4,096,5", ",096"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

// Whole numbers must be right to the last digit, others to what a head can do.
func TestWithin(t *testing.T) {
	q := Question{Answer: 1000, Unit: "bytes"}
	for answer, want := range map[string]bool{"1000": true, "1000 bytes": true, "0x3e8": true, "1001": false, "-1000": false} {
		right, err := q.Check(answer)
		require.NoError(t, err)
		require.Equal(t, want, right, answer)
	}
	q.Within = near
	right, err := q.Check("1009")
	require.NoError(t, err)
	require.True(t, right)
	right, err = q.Check("1011")
	require.NoError(t, err)
	require.False(t, right)
}
