package learn

// Claims: what a play must show. They read what was recorded, never what was printed. What they
// return is for tests, and for JSON; a student is told by package told.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// Claim is nil if the play shows what it should, and else says what it shows instead.
type Claim func(p *world.Play) error

// completes: a host has these completions, in this order.
func completes(host string, want ...qp.WCStatus) Claim {
	return func(p *world.Play) error {
		got := p.CompletionsOf(host)
		if len(got) != len(want) {
			return fmt.Errorf("%s has %d completions (%s), in the lesson %d",
				host, len(got), statuses(got), len(want))
		}
		for i := range want {
			if got[i].Status != want[i] {
				return fmt.Errorf("completion %d of %s is %s, in the lesson %s",
					i+1, host, world.StatusName(got[i].Status), world.StatusName(want[i]))
			}
		}
		return nil
	}
}

func statuses(wcs []qp.WC) string {
	var all []string
	for i := range wcs {
		all = append(all, world.StatusName(wcs[i].Status))
	}
	return strings.Join(all, ", ")
}

// packets: these were sent, by their labels, in this order.
func packets(want ...string) Claim {
	return func(p *world.Play) error {
		var got []string
		for i := range p.Packets {
			got = append(got, p.Packets[i].Label)
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				return fmt.Errorf("packet %d is %s, in the lesson %s", i+1, got[i], want[i])
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("there are %d packets (%s), in the lesson %d",
				len(got), strings.Join(got, ", "), len(want))
		}
		return nil
	}
}

// holds: n bytes at a place of a host's region are those at a place of another's.
func holds(host, region string, at int, from, source string, off, n int) Claim {
	return func(p *world.Play) error {
		got, want := p.Memory(host, region), p.Memory(from, source)
		if len(got) < at+n || len(want) < off+n || !bytes.Equal(got[at:at+n], want[off:off+n]) {
			return fmt.Errorf("%s's memory %q does not hold the %d bytes of %s, as it does in the lesson",
				host, region, n, from)
		}
		return nil
	}
}

// has: bytes of a region.
func has(host, region string, at int, want ...byte) Claim {
	return func(p *world.Play) error {
		got := p.Memory(host, region)
		if len(got) < at+len(want) || !bytes.Equal(got[at:at+len(want)], want) {
			return fmt.Errorf("%s's memory %q has % x at %d, in the lesson % x",
				host, region, got[min(at, len(got)):min(at+len(want), len(got))], at, want)
		}
		return nil
	}
}

// state: the n-th queue pair of a host, from 0 on, ends in a state.
func state(host string, n int, want qp.QPState) Claim {
	return func(p *world.Play) error {
		got := "no state"
		if m := len(p.Moments) - 1; m >= 0 {
			if h := p.Host(host); h >= 0 && h < len(p.Moments[m].Hosts) && n < len(p.Moments[m].Hosts[h].QPs) {
				got = p.Moments[m].Hosts[h].QPs[n].State
			}
		}
		if got != want.String() {
			return fmt.Errorf("%s's queue pair is in %s at the end, in the lesson in %v", host, got, want)
		}
		return nil
	}
}

// refused: the calls of a host that were refused, by the errors of the verbs.
func refused(host string, want ...string) Claim {
	return func(p *world.Play) error {
		var got []string
		for _, err := range p.Refusals(host) {
			got = append(got, errno(err))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("of %s's calls were refused: %v, in the lesson %v", host, got, want)
		}
		return nil
	}
}

// event: a host has an asynchronous event.
func event(host string, want qp.EventType) Claim {
	return func(p *world.Play) error {
		for _, e := range p.EntriesOf(host, "event") {
			if e.Async && e.Event == want {
				return nil
			}
		}
		return fmt.Errorf("%s has no event %s, as it has in the lesson", host, eventName(want))
	}
}

// drops: a host's device has dropped so many packets for a reason.
func drops(host string, reason wire.DropReason, want int) Claim {
	return func(p *world.Play) error {
		got := 0
		for _, e := range p.EntriesOf(host, qp.RecordDropped.String()) {
			if wire.DropReason(e.Record.Value) == reason {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%s's device drops %d packets (%s), in the lesson %d",
				host, got, reason.Explain(), want)
		}
		return nil
	}
}

// records: a host's device does a thing so many times.
func records(host string, kind qp.RecordKind, want int) Claim {
	return func(p *world.Play) error {
		if got := len(p.EntriesOf(host, kind.String())); got != want {
			return fmt.Errorf("%q is recorded %d times on %s, in the lesson %d", kind.String(), got, host, want)
		}
		return nil
	}
}

// fate: what becomes of a packet.
func fate(n int, want world.Fate) Claim {
	return func(p *world.Play) error {
		if n > len(p.Packets) {
			return fmt.Errorf("there is no packet %d, as there is in the lesson", n)
		}
		if got := p.Packets[n-1].Fate; got != want {
			return fmt.Errorf("packet %d is %s, in the lesson %s", n, got, want)
		}
		return nil
	}
}

// slowed: senders were told to be slower, and some packets were marked.
func slowed(p *world.Play) error {
	n, marks := 0, 0
	for _, h := range p.Hosts {
		n += len(p.EntriesOf(h.Name, qp.RecordSlowed.String()))
		marks += len(p.EntriesOf(h.Name, qp.RecordMarked.String()))
	}
	if n == 0 || marks == 0 {
		return fmt.Errorf("%d packets were marked, and nobody was told to be slower; in the lesson somebody is",
			marks)
	}
	return nil
}

// someLost: packets were lost.
func someLost(p *world.Play) error {
	for i := range p.Packets {
		if p.Packets[i].Fate == world.Lost {
			return nil
		}
	}
	return fmt.Errorf("nothing is lost, as it is in the lesson")
}

// shares: a host's queue pair has made its window smaller, because a queue has overflowed.
func shares(host string) Claim {
	return func(p *world.Play) error {
		for _, e := range p.EntriesOf(host, "call") {
			if strings.Contains(e.Text, "(sharing)") && !strings.Contains(e.Text, "cut 0 times") {
				return nil
			}
		}
		return fmt.Errorf("the window of %s is what it was, in the lesson it is smaller", host)
	}
}
