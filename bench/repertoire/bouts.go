//go:build linux

package repertoire

// Which cases are played together. A bout is a group of cases that are held against each other; it
// is played to its end before the next one, so that the partners of a ratio meet within a round of
// it, a minute at most.
// The bars of a bout say who is held against whom.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// few is how often cases are played that no ratio is asked of.
const few = 3

// AllBouts are the bouts on these ports in the order in which they are reported.
func AllBouts(ports []string) (bouts []figures.Bout) {
	barred := slices.DeleteFunc(slices.Clone(ports), func(p string) bool { return !slices.Contains(barredPorts, p) })
	for _, mtu := range figures.MTUs {
		bouts = append(bouts, mainBouts(mtu, ports, barred)...)
		if mtu == figures.MTUs[0] {
			bouts = append(bouts, figures.Bout{
				Name:  "sparse exchanges",
				Cases: figures.At(mtu, sparseCases(barred)),
				Bars:  BarsAt(mtu, sparseBars, barred),
			},
				figures.Bout{
					Name:  "programs that dial",
					Cases: figures.At(mtu, dialCases(barred)),
					Bars:  BarsAt(mtu, dialBars, barred),
				},
				figures.Bout{
					Name:  "MPI",
					Cases: figures.At(mtu, mpiCases()),
					Bars:  BarsAt(mtu, mpiBars, barred),
				})
		}
	}
	for _, mtu := range figures.MTUs {
		bouts = append(bouts, loadBouts(mtu, barred)...)
	}
	return slices.Concat(bouts, machineBouts(barred), guestBouts(barred))
}

// mainBouts are those of one stream or exchange at a time, on links of an MTU.
func mainBouts(mtu int, ports, barred []string) (bouts []figures.Bout) {
	all := slices.Concat(figures.OnlyFull(referenceCases()), rivalCases())
	for _, port := range ports {
		if slices.Contains(barred, port) {
			all = slices.Concat(all, OurCases(port, mtu), unprofiled(port, mtu))
		} else {
			all = append(all, figures.OnlyFull(OurCases(port, mtu))...)
		}
	}
	for _, kind := range []struct {
		name string
		unit figures.Unit
		bars []figures.Bar
	}{
		{"bandwidth", figures.Gbps, BandwidthBars},
		{"latency", figures.Usec, latencyBars},
		{"rate", figures.Mpps, rateBars},
	} {
		cases := figures.At(mtu, figures.Of(kind.unit, all))
		if mtu != figures.MTUs[0] {
			cases = smallOnlyFull(cases)
		}
		bouts = append(bouts, figures.Bout{
			Name:  fmt.Sprintf("%s, MTU %d", kind.name, mtu),
			Cases: cases,
			Bars:  BarsAt(mtu, kind.bars, barred),
		})
	}
	return bouts
}

// smallOnlyFull leaves small messages to full runs: they fit any link.
func smallOnlyFull(cases []figures.Case) (all []figures.Case) {
	for _, c := range cases {
		c.Full = c.Full || c.Unit == figures.Mpps || c.Unit == figures.Usec && !strings.Contains(c.Name, "/64K")
		all = append(all, c)
	}
	return all
}

// loadBouts are those of more than one stream, on links of an MTU.
func loadBouts(mtu int, ports []string) (bouts []figures.Bout) {
	for _, load := range []struct {
		name  string
		cases []figures.Case
		bars  []figures.Bar
	}{
		{"both directions", bothWaysCases(ports), bothWaysBars},
		{"small messages beside a stream", loadedCases(ports), loadedBars},
		{"many connections", manyCases(ports), manyBars},
	} {
		rounds := figures.FewestRounds // nothing is demanded, and it is long enough
		if mtu != figures.MTUs[0] {
			load.cases = figures.OnlyFull(load.cases)
		} else if !figures.OnlyInFull(load.cases) {
			rounds = 0
		}
		bouts = append(bouts, figures.Bout{
			Name:   fmt.Sprintf("%s, MTU %d", load.name, mtu),
			Rounds: rounds,
			Cases:  figures.At(mtu, load.cases),
			Bars:   BarsAt(mtu, load.bars, ports),
		})
	}
	return bouts
}

// machineBouts are those for which the MTU does not matter, or which have a network of their own.
func machineBouts(ports []string) []figures.Bout {
	inside := InsideCases()
	heavy := figures.Of(figures.UsOnce, inside)
	light := slices.DeleteFunc(inside, func(c figures.Case) bool { return c.Unit == figures.UsOnce })
	return []figures.Bout{
		{Name: "same machine", Rounds: figures.FewestRounds, Cases: sameCases(), Bars: sameBars},
		{Name: "bottleneck with marks", Cases: figures.OnlyFull(FairCases(ports)), Bars: BarsAt(0, FairBars, ports)},
		{Name: "short queues without marks", Rounds: figures.FewestRounds, Cases: shortCases(), Bars: shortBars()},
		{Name: "inside", Cases: figures.OnlyFull(light), Bars: insideBars},
		// What leaves the machine a gigabyte of memory to take back stalls programs for a
		// few seconds where a host wants it returned.
		{Name: "inside: memory regions", Cases: figures.OnlyFull(heavy), Bars: regionBars, Rest: 10 * time.Second},
	}
}

// guestBouts are those in guests.
func guestBouts(ports []string) []figures.Bout {
	return []figures.Bout{
		{Name: "beside rxe", Place: figures.InGuest,
			Cases: figures.OnlyFull(append(guestCases(ports), guestDials(ports)...)),
			Bars:  BarsAt(0, guestBars, ports)},
		{Name: "beside rxe: more losses", Place: figures.InGuest, Rounds: few,
			Cases: figures.OnlyFull(moreLosses(ports))},
		{Name: "wire between two drivers", Place: figures.OnWire, Rounds: few, Cases: figures.OnlyFull(wireCases())},
	}
}
