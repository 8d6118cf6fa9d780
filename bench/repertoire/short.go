package repertoire

// A bottleneck whose switch marks nothing and has a short queue, as most switches between most
// users are: what fits is passed on, the rest is lost. This program runs itself with the word
// "short". All figures of a contest come from one run.
//
// TCP is cubic, which takes losses for congestion as we do, and bbr, which measures the path.

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// ShortMTU is that of the links of this bottleneck.
const ShortMTU = 1500

// ShortFigures is what "bench short" prints.
type ShortFigures struct {
	Use    []float64 `json:"use"`    // of the slow link by what arrived of each flow, in percent
	Lost   float64   `json:"lost"`   // of all packets, at the switch, in percent
	Resent float64   `json:"resent"` // of our packets, in percent
}

var (
	losses100 = figures.Unit{Name: "% of the packets", Lower: true, Zero: true}
	// portion is a flow's part of a link that it shares: neither more nor less is better than half,
	// but nothing is worst.
	portion = figures.Unit{Name: "% of the link, shared", Zero: true}
)

// shortContests are who plays alone, and who with whom.
var shortContests = []string{"udp", "cubic", "bbr", "udp-cubic", "udp-bbr", "udp-udp", "cubic-cubic"}

// shortQueues are how long the queues are, in packets.
var shortQueues = []int{64, 256}

// shortCases are those of all contests and queues.
func shortCases() (cases []figures.Case) {
	for _, packets := range shortQueues {
		for _, contest := range shortContests {
			cases = append(cases, shortContest(packets, contest)...)
		}
	}
	return figures.OnlyFull(cases)
}

// shortBars hold ours against TCP, alone and sharing. They demand nothing yet.
func shortBars() (bars []figures.Bar) {
	for _, packets := range shortQueues {
		at := fmt.Sprintf("short/%d/", packets)
		what := fmt.Sprintf("a queue of %d packets, no marks: ", packets)
		bars = append(bars,
			figures.Bar{
				What:    what + "use of the link by ours alone against TCP alone",
				Ours:    at + "udp/use",
				Against: at + "(cubic|bbr)/use",
			},
			figures.Bar{
				What:    what + "of a link shared with cubic, ours against it",
				Ours:    at + "udp-cubic/of-udp-1",
				Against: at + "udp-cubic/of-cubic-2",
			},
			figures.Bar{
				What:    what + "of a link shared with bbr, ours against it",
				Ours:    at + "udp-bbr/of-udp-1",
				Against: at + "udp-bbr/of-bbr-2",
			},
			figures.Bar{What: what + "lost of ours alone", Ours: at + "udp/lost"},
			figures.Bar{
				What:    what + "lost when ours shares with cubic, against cubic with cubic",
				Ours:    at + "udp-cubic/lost",
				Against: at + "cubic-cubic/lost",
			})
	}
	return bars
}

// shortContest are the cases of a contest: the whole use of the link, what was lost, what ours sent
// again, and who has how much.
func shortContest(packets int, contest string) (cases []figures.Case) {
	flows := strings.Split(contest, "-")
	add := func(name, brief string, unit figures.Unit, figure func(*ShortFigures) float64) {
		cases = append(cases, figures.Case{Name: fmt.Sprintf("short/%d/%s/%s", packets, contest, name), Unit: unit,
			Shared: true, Brief: fmt.Sprintf("%s through 0.5 Gbit/s, no marks, a queue of %d packets: %s",
				contest, packets, brief),
			Play: func(s figures.Setting) figures.Play { return shortPlay(s, packets, flows) }, Takes: shortTakes,
			Figure: func(_, client []byte) (float64, error) {
				f, err := parseShort(client, len(flows))
				if err != nil {
					return 0, err
				}
				return figure(f), nil
			}})
	}
	add("use", "use of the link by what arrived", linkUse, func(f *ShortFigures) float64 { return total(f.Use) })
	add("lost", "lost at the switch", losses100, func(f *ShortFigures) float64 { return f.Lost })
	if strings.Contains(contest, "udp") {
		add("resent", "sent again by ours", losses100, func(f *ShortFigures) float64 { return f.Resent })
	}
	if len(flows) > 1 {
		for i, flow := range flows {
			add(fmt.Sprintf("of-%s-%d", flow, i+1), "what "+flow+" has of it", portion, func(f *ShortFigures) float64 {
				return f.Use[i]
			})
		}
	}
	return cases
}

func shortPlay(s figures.Setting, packets int, flows []string) figures.Play {
	return figures.Play{Client: Words(fmt.Sprintf("%s short -roce %s -packets %d -flows %s -d %v",
		s.Bench, s.Roce, packets, strings.Join(flows, ","), time.Duration(shortWindows*s.Duration)))}
}

const (
	// shortWindows is how many durations a case lasts: one is not much to look at a control loop.
	shortWindows = 2
	// ShortStart is for the flows to find their rates, and at the end so that none has left.
	ShortStart = time.Second
)

func shortTakes(d time.Duration) time.Duration { return shortWindows*d + 2*ShortStart + time.Second }

func parseShort(text []byte, flows int) (*ShortFigures, error) {
	var f *ShortFigures
	if err := json.Unmarshal(text, &f); err != nil || f == nil || len(f.Use) != flows {
		return nil, fmt.Errorf("no figures of %d flows in %q (%v)", flows, text, err)
	}
	return f, nil
}

func total(all []float64) (sum float64) {
	for _, v := range all {
		sum += v
	}
	return sum
}
