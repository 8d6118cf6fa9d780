package repertoire

// How two flows share a bottleneck, as cases: this program runs itself with the word "fair". All
// figures of a port come from one run.

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// FairMarkAll is the length of the bottleneck's queue, in bytes, from which every packet is marked.
const FairMarkAll = 160 << 10

// FairFigures is what "bench fair" prints.
type FairFigures struct {
	Ratio   float64 `json:"ratio"`   // of the smaller flow to the larger
	Drops   float64 `json:"drops"`   // packets lost at the switch
	Backlog float64 `json:"backlog"` // the longest queue, KiB
	Use     float64 `json:"use"`     // of the slow link, percent
}

var (
	evenness = figures.Unit{Name: "smaller : larger flow"}
	losses1  = figures.Unit{Name: "packets", Lower: true, Zero: true}
	kibibyte = figures.Unit{Name: "KiB", Lower: true, Zero: true}
	linkUse  = figures.Unit{Name: "% of the link"}
)

// FairCases are two flows through one bottleneck, on each port.
func FairCases(ports []string) (cases []figures.Case) {
	for _, port := range ports {
		for _, c := range []struct {
			name, brief string
			unit        figures.Unit
			figure      func(*FairFigures) float64
		}{
			{"ratio", "two flows through 1 Gbit/s with ECN marks, once converged: how even", evenness,
				func(f *FairFigures) float64 {
					return f.Ratio
				}},
			{"drops", "… : packets lost", losses1, func(f *FairFigures) float64 { return f.Drops }},
			{"backlog", "… : longest queue", kibibyte, func(f *FairFigures) float64 { return f.Backlog }},
			{"use", "… : use of the slow link", linkUse, func(f *FairFigures) float64 { return f.Use }},
		} {
			cases = append(cases, figures.Case{Name: "fair/" + port + "/" + c.name,
				Brief: "goroce, " + port + " port: " + c.brief, Unit: c.unit, Shared: true,
				Play: func(s figures.Setting) figures.Play {
					const windows = 2 // a case's duration is not much to look at a control loop
					return figures.Play{Client: Words(fmt.Sprintf("%s fair -roce %s -port %s -d %v",
						s.Bench, s.Roce, port, time.Duration(windows*s.Duration)))}
				},
				// The rates converge before they count.
				Takes: func(d time.Duration) time.Duration { return 2*d + 3*time.Second },
				Figure: func(_, client []byte) (float64, error) {
					var f *FairFigures
					if err := json.Unmarshal(client, &f); err != nil || f == nil || f.Use == 0 {
						return 0, fmt.Errorf("no figures in %q (%v)", client, err)
					}
					return c.figure(f), nil
				}})
		}
	}
	return cases
}
