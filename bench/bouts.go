//go:build linux

package main

// Which cases are played together. A bout is a group of cases that are held against each other; it
// is played to its end before the next one, so that the partners of a ratio meet within a round of
// it, a minute at most.
// The bars of a bout say who is held against whom.

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// few is how often cases are played that no ratio is asked of.
const few = 3

// allBouts are the bouts on these ports in the order in which they are reported.
func allBouts(ports []string) (bouts []Bout) {
	barred := slices.DeleteFunc(slices.Clone(ports), func(p string) bool { return !slices.Contains(barredPorts, p) })
	for _, mtu := range mtus {
		bouts = append(bouts, mainBouts(mtu, ports, barred)...)
		if mtu == mtus[0] {
			bouts = append(bouts, Bout{Name: "sparse exchanges", Cases: at(mtu, sparseCases(barred)), Bars: barsAt(mtu, sparseBars, barred)})
		}
	}
	for _, mtu := range mtus {
		bouts = append(bouts, loadBouts(mtu, barred)...)
	}
	return slices.Concat(bouts, machineBouts(barred), guestBouts(barred))
}

// mainBouts are those of one stream or exchange at a time, on links of an MTU.
func mainBouts(mtu int, ports, barred []string) (bouts []Bout) {
	all := slices.Concat(onlyFull(referenceCases()), rivalCases())
	for _, port := range ports {
		if slices.Contains(barred, port) {
			all = slices.Concat(all, ourCases(port, mtu), unprofiled(port, mtu))
		} else {
			all = append(all, onlyFull(ourCases(port, mtu))...)
		}
	}
	for _, kind := range []struct {
		name string
		unit Unit
		bars []Bar
	}{
		{"bandwidth", gbps, bandwidthBars},
		{"latency", usec, latencyBars},
		{"rate", mpps, rateBars},
	} {
		cases := at(mtu, of(kind.unit, all))
		if mtu != mtus[0] {
			cases = smallOnlyFull(cases)
		}
		bouts = append(bouts, Bout{Name: fmt.Sprintf("%s, MTU %d", kind.name, mtu), Cases: cases, Bars: barsAt(mtu, kind.bars, barred)})
	}
	return bouts
}

// smallOnlyFull leaves small messages to full runs: they fit any link.
func smallOnlyFull(cases []Case) (all []Case) {
	for _, c := range cases {
		c.Full = c.Full || c.Unit == mpps || c.Unit == usec && !strings.Contains(c.Name, "/64K")
		all = append(all, c)
	}
	return all
}

// loadBouts are those of more than one stream, on links of an MTU.
func loadBouts(mtu int, ports []string) (bouts []Bout) {
	for _, load := range []struct {
		name  string
		cases []Case
		bars  []Bar
	}{
		{"both directions", bothWaysCases(ports), bothWaysBars},
		{"small messages beside a stream", loadedCases(ports), loadedBars},
		{"many connections", manyCases(ports), manyBars},
	} {
		rounds := fewestRounds // nothing is demanded, and it is long enough
		if mtu != mtus[0] {
			load.cases = onlyFull(load.cases)
		} else if !onlyInFull(load.cases) {
			rounds = 0
		}
		bouts = append(bouts, Bout{Name: fmt.Sprintf("%s, MTU %d", load.name, mtu), Rounds: rounds, Cases: at(mtu, load.cases), Bars: barsAt(mtu, load.bars, ports)})
	}
	return bouts
}

// machineBouts are those for which the MTU does not matter, or which have a network of their own.
func machineBouts(ports []string) []Bout {
	inside := insideCases()
	heavy := of(usOnce, inside)
	light := slices.DeleteFunc(inside, func(c Case) bool { return c.Unit == usOnce })
	return []Bout{
		{Name: "same machine", Rounds: fewestRounds, Cases: sameCases(), Bars: sameBars},
		{Name: "bottleneck with marks", Cases: onlyFull(fairCases(ports)), Bars: barsAt(0, fairBars, ports)},
		{Name: "short queues without marks", Rounds: fewestRounds, Cases: shortCases(), Bars: shortBars()},
		{Name: "inside", Cases: onlyFull(light), Bars: insideBars},
		// What leaves the machine a gigabyte of memory to take back stalls programs for a
		// few seconds where a host wants it returned.
		{Name: "inside: memory regions", Cases: onlyFull(heavy), Bars: regionBars, Rest: 10 * time.Second},
	}
}

// guestBouts are those in guests.
func guestBouts(ports []string) []Bout {
	return []Bout{
		{Name: "beside rxe", Place: inGuest, Cases: onlyFull(guestCases(ports)), Bars: barsAt(0, guestBars, ports)},
		{Name: "beside rxe: more losses", Place: inGuest, Rounds: few, Cases: onlyFull(moreLosses(ports))},
		{Name: "wire between two drivers", Place: onWire, Rounds: few, Cases: onlyFull(wireCases())},
	}
}
