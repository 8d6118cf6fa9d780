package repertoire

// What is measured from inside a process, as cases: this program runs itself with the words "inside
// NAME", alone, at the client's end.

import (
	"fmt"
	"runtime"

	"github.com/goroce/goroce/bench/inside"
	"github.com/goroce/goroce/transport"

	"github.com/goroce/goroce/bench/figures"
)

// InsideCases begin with what leaves the machine a gigabyte of memory to take back, which stalls
// programs for a few seconds where a host wants it returned: queues of 1 MB were seen in a case of
// fair/ right behind. Those that follow here can stand it; scale/ and lanes/ come last.
func InsideCases() (cases []figures.Case) {
	cases = []figures.Case{
		insideCase("pinned", "pinned", 1, figures.UsOnce),
		insideCase("mlock", "mlock", 1, figures.UsOnce),
		insideCase("memory", "memory", 10000, figures.Bytes1),
		insideCase("register", "register", 1, figures.UsOnce),
		insideCase("idle", "idle", 2, figures.OfCore),
		insideCase("allocs", "allocs", 1, figures.Allocs),
	}
	for _, qps := range []int{1, 10, 100, 1000, 10000} {
		cases = append(cases, insideCase(fmt.Sprintf("scale/%d", qps), "scale", qps, figures.NsEach))
	}
	for n := 1; n <= runtime.NumCPU() && n <= transport.MaxLanes; n *= 2 {
		cases = append(cases, insideCase(fmt.Sprintf("lanes/%d", n), "lanes", n, figures.Mpps))
	}
	return cases
}

func insideCase(name, measurement string, qps int, unit figures.Unit) figures.Case {
	return figures.Case{Name: "inside/" + name, Brief: insideBrief(measurement), Unit: unit,
		Play: func(s figures.Setting) figures.Play {
			line := fmt.Sprintf("%s inside -name %s -dev udp:%s -qps %d -d %s",
				s.Bench, measurement, s.A.Interface, qps, s.Duration)
			return figures.Play{Client: Words(line)}
		},
		Figure: func(_, client []byte) (float64, error) {
			var r struct {
				Value *float64 `json:"value"`
			}
			if err := parse(client, &r); err != nil {
				return 0, err
			}
			if r.Value == nil {
				return 0, errNoResult
			}
			return *r.Value, nil
		}}
}

func insideBrief(name string) string {
	for _, m := range inside.Measurements {
		if m.Name == name {
			return m.Brief
		}
	}
	return ""
}
