//go:build linux

package main

// Which cases are played together. A bout is a group of cases that are held against each other; it
// is played to its end before the next one, so that the partners of a ratio meet within seconds. The
// bars of a bout say who is held against whom.

import (
	"fmt"
	"slices"
	"time"
)

// few is how often cases are played that no ratio is asked of.
const few = 3

// allBouts are the bouts on these ports, those of this machine first.
func allBouts(ports []string) (bouts []Bout) {
	barred := slices.DeleteFunc(slices.Clone(ports), func(p string) bool { return !slices.Contains(barredPorts, p) })
	for _, mtu := range mtus {
		one := at(mtu, onlyFull(ceilingCases()))
		one = append(one, at(mtu, rivalCases())...)
		for _, port := range ports {
			ours := at(mtu, append(ourCases(port, mtu), unprofiled(port, mtu)...))
			if !slices.Contains(barredPorts, port) {
				ours = onlyFull(ours)
			}
			one = append(one, ours...)
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
			bouts = append(bouts, Bout{Name: fmt.Sprintf("%s, MTU %d", kind.name, mtu), Cases: of(kind.unit, one), Bars: barsAt(mtu, kind.bars, barred)})
		}
		// Here go: {"loaded, …", at(mtu, loadedCases())},
		// {"both directions and many connections, …", at(mtu, manyCases())}.
	}
	// Here go: {"same machine", onlyFull(sameCases())}, {"short queues", onlyFull(shortCases())}.
	inside := insideCases()
	heavy := of(usOnce, inside)
	light := slices.DeleteFunc(inside, func(c Case) bool { return c.Unit == usOnce })
	return append(bouts,
		Bout{Name: "sparse exchanges", Cases: at(mtus[0], sparseCases(barred)), Bars: barsAt(mtus[0], sparseBars, barred)},
		Bout{Name: "inside", Cases: onlyFull(light), Bars: insideBars},
		// What leaves the machine a gigabyte of memory to take back stalls programs for a few
		// seconds where a host wants it returned.
		Bout{Name: "inside: memory regions", Cases: onlyFull(heavy), Bars: regionBars, Rest: 10 * time.Second},
		Bout{Name: "bottleneck with marks", Cases: onlyFull(fairCases(barred)), Bars: barsAt(0, fairBars, barred)},
		Bout{Name: "beside rxe", Place: inGuest, Cases: onlyFull(guestCases(barred)), Bars: barsAt(0, guestBars, barred)},
		Bout{Name: "beside rxe: more losses", Place: inGuest, Rounds: few, Cases: onlyFull(moreLosses(barred))},
		Bout{Name: "wire between two drivers", Place: onWire, Rounds: few, Cases: onlyFull(wireCases())})
}
