package told

// Names, times and numbers of packets as sentences have them.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/trace/world"
)

// at is a moment as ladders and lines have it.
func at(t int64) string { return fmt.Sprintf("%.3f us", float64(t)/1000) }

// span is how long something takes.
func span(d int64) string {
	switch {
	case d < 1000:
		return fmt.Sprintf("%d ns", d)
	case d < 1_000_000:
		return fmt.Sprintf("%.3f us", float64(d)/1000)
	}
	return fmt.Sprintf("%.3f ms", float64(d)/1_000_000)
}

// count is a number of things.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// times is how often.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// list are numbers of packets: "packet 3", "packets 3 and 4", "packets 3 to 6", "packets 3, 7 and 2
// more".
func list(all []int) string {
	row := true
	for i := range all {
		row = row && all[i] == all[0]+i
	}
	switch n := len(all); {
	case n == 1:
		return fmt.Sprintf("packet %d", all[0])
	case n == 2:
		return fmt.Sprintf("packets %d and %d", all[0], all[1])
	case row:
		return fmt.Sprintf("packets %d to %d", all[0], all[n-1])
	case n == 3:
		return fmt.Sprintf("packets %d, %d and %d", all[0], all[1], all[2])
	}
	return fmt.Sprintf("packets %d, %d and %d more", all[0], all[1], len(all)-2)
}

// numbers are those of packets.
func numbers(all []*world.Packet) (n []int) {
	for _, p := range all {
		n = append(n, p.N)
	}
	return n
}

// article is what stands in front of a label.
func article(label string) string {
	if strings.HasPrefix(label, "RNR") || strings.HasPrefix(label, "RDMA") || strings.HasPrefix(label, "A") ||
		strings.HasPrefix(label, "NAK") {
		return "an " + label
	}
	return "a " + label
}

// name of a host.
func (c *comparison) name(host int) string {
	if host < 0 {
		return "nobody"
	}
	return c.after.Hosts[host].Name
}

// whole is a packet in words: "packet 2 (ACK, PSN 1000, from B to A)".
func (c *comparison) whole(p *world.Packet) string {
	if p.Kind == "cnp" {
		return fmt.Sprintf("packet %d (%s, from %s to %s)", p.N, p.Label, c.name(p.From), c.name(p.To))
	}
	return fmt.Sprintf("packet %d (%s, PSN %d, from %s to %s)", p.N, p.Label, p.PSN, c.name(p.From), c.name(p.To))
}

// begin makes a sentence of words: its first letter is large.
func begin(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
