package told

// The end of the story: what it cost, and what the programs noticed.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/trace/world"
)

// bill is what a play takes.
type bill struct {
	packets, bytes int
	last           int64 // when the last completion came, or what happened last
	completions    int
}

func billOf(p *world.Play) (b bill) {
	for i := range p.Packets {
		x := &p.Packets[i]
		b.packets, b.bytes = b.packets+1, b.bytes+len(x.Bytes)
	}
	b.completions = len(p.Completions)
	for i := range p.Completions {
		b.last = max(b.last, p.Completions[i].Time)
	}
	return b
}

// quiet is when the last packet has arrived or was lost, and the last thing was done by a device.
func quiet(p *world.Play) (last int64) {
	for i := range p.Packets {
		last = max(last, p.Packets[i].Sent, p.Packets[i].Arrived, p.Packets[i].Again)
	}
	for i := range p.Entries {
		if e := &p.Entries[i]; does(e) {
			last = max(last, e.Time)
		}
	}
	return last
}

// cost is about time, packets and bytes.
func (c *comparison) cost() Sentence {
	was, is := billOf(c.before), billOf(c.after)
	what := "the last completion comes"
	rule := "cost"
	if was.completions != is.completions || is.completions == 0 {
		rule, what = "cost until quiet", "all is quiet"
		was.last, is.last = quiet(c.before), quiet(c.after)
	}
	s := Sentence{Kind: Cost, Rule: rule, Section: "", At: is.last, Before: was.last, For: is.last - was.last,
		Count: is.packets, Without: was.packets, Bytes: is.bytes, Spared: was.bytes}
	switch {
	case s.For > 0:
		s.Text = fmt.Sprintf("It costs %s: %s at %s instead of %s", span(s.For), what, at(s.At), at(s.Before))
	case s.For < 0:
		s.Text = fmt.Sprintf("It saves %s: %s at %s instead of %s", span(-s.For), what, at(s.At), at(s.Before))
	default:
		s.Text = fmt.Sprintf("It costs no time: %s at %s, as without the change", what, at(s.At))
	}
	switch {
	case s.Count == s.Without && s.Bytes == s.Spared:
		s.Text += fmt.Sprintf("; %s with %s are sent, as without it.", count(s.Count, "packet"), count(s.Bytes, "byte"))
	default:
		s.Text += fmt.Sprintf("; %s with %s are sent instead of %d with %d.", count(s.Count, "packet"),
			count(s.Bytes, "byte"), s.Without, s.Spared)
	}
	if n := c.inTheWay(s.For); n > 0 {
		s.Packets = []int{n}
		s.Text += fmt.Sprintf(" The time is what packet %d takes on the wire: what is behind it waits.", n)
		if c.after.Packets[n-1].Again > 0 {
			s.Text = strings.Replace(s.Text, "what packet", "what the copy of packet", 1)
		}
	}
	return s
}

// inTheWay is a packet that takes so long to leave, or whose copy does: one that is there only with
// the change; 0: none.
func (c *comparison) inTheWay(d int64) int {
	if p := c.changed[0]; p.Again > 0 && d > 0 && p.Again-p.Arrived == d {
		return p.N
	}
	for i := range c.after.Packets {
		p := &c.after.Packets[i]
		if p.Kind != "cnp" || c.twin(p) != nil {
			continue
		}
		for j := range c.after.Packets[i+1:] {
			if x := &c.after.Packets[i+1+j]; x.From == p.From {
				if d > 0 && x.Sent-p.Sent == d {
					return p.N
				}
				break
			}
		}
	}
	return 0
}

// application is about what the programs have: completions, events, memory.
func (c *comparison) application() Sentence {
	s := c.completions()
	s.Kind = Application
	for i := range c.after.Entries {
		e := &c.after.Entries[i]
		if e.Async && slices.Contains(c.news, e) {
			s.Text += fmt.Sprintf(" %s's program has an event: %s.", c.name(e.Host), eventName(e.Text))
			s.Rule += ", event"
			break
		}
	}
	var parts []string
	for h := range c.after.Hosts {
		if o := c.unlike(h); o.Bytes > 0 {
			s.Memory = append(s.Memory, o)
			part := fmt.Sprintf("%s of %s's memory", count(o.Bytes, "byte"), c.name(h))
			if o.Is != "" {
				part += fmt.Sprintf(" (%q at %d: %s, not %s)", o.Region, o.At, o.Is, o.Was)
			}
			parts = append(parts, part)
		}
	}
	if len(parts) > 0 {
		s.Text = strings.Replace(s.Text, "No program notices", "No completion tells of it", 1)
		s.Text = strings.Replace(s.Text, "The programs notice nothing", "The completions tell nothing", 1)
		one := len(parts) == 1 && s.Memory[0].Bytes == 1
		s.Text += fmt.Sprintf(" But at the end %s %s not what %s without the change.", strings.Join(parts, " and "),
			map[bool]string{true: "is", false: "are"}[one], map[bool]string{true: "it is", false: "they are"}[one])
	}
	return s
}

// eventName is the name at the beginning of an event's words.
func eventName(text string) string {
	if i := bytes.IndexByte([]byte(text), ':'); i > 0 {
		return text[:i]
	}
	return text
}

// unlike compares the bytes of a host's regions in the end. Few that lie together are named.
func (c *comparison) unlike(host int) (o Other) {
	h := &c.after.Hosts[host]
	o.Host = host
	first, last, of := 0, 0, 0
	var was, is []byte
	for _, r := range h.Regions {
		a, b := c.before.Memory(h.Name, r.Name), c.after.Memory(h.Name, r.Name)
		seen := false
		for i := range min(len(a), len(b)) {
			if a[i] == b[i] {
				continue
			}
			if !seen {
				o.Region, was, is, first, seen, of = r.Name, a, b, i, true, of+1
			}
			last = i
			o.Bytes++
		}
	}
	begin, end := first&^7, first&^7+8
	if of != 1 || last >= end || end > min(len(was), len(is)) {
		o.Region = ""
		return o
	}
	o.At = begin
	a, b := binary.NativeEndian.Uint64(was[begin:]), binary.NativeEndian.Uint64(is[begin:])
	if max(a, b) < 1<<16 {
		o.Was, o.Is = strconv.FormatUint(a, 10), strconv.FormatUint(b, 10)
		return o
	}
	o.At, o.Was, o.Is = first, raw(was[first:last+1]), raw(is[first:last+1])
	return o
}

// raw are bytes as a reader knows them: text, or hexadecimal.
func raw(b []byte) string {
	for _, x := range b {
		if x < ' ' || x > '~' {
			return fmt.Sprintf("0x%x", b)
		}
	}
	return strconv.Quote(string(b))
}

// got are a host's completions.
func got(p *world.Play, host int) (all []*world.Completion) {
	for i := range p.Completions {
		if p.Completions[i].Host == host {
			all = append(all, &p.Completions[i])
		}
	}
	return all
}

// completions compares what the programs' completion queues had, host by host.
func (c *comparison) completions() Sentence {
	var latest *world.Completion
	var late, total = int64(0), 0
	for h := range c.after.Hosts {
		was, is := got(c.before, h), got(c.after, h)
		if s, differs := c.unequal(h, was, is); differs {
			return s
		}
		for i := range is {
			total++
			if d := is[i].Time - was[i].Time; max(d, -d) > max(late, -late) {
				latest, late = is[i], d
			}
		}
	}
	if latest == nil {
		text := fmt.Sprintf("No program notices: the same %s come at the same times.", count(total, "completion"))
		switch total {
		case 0:
			text = "No program notices: there are no completions, as without the change."
		case 1:
			text = "No program notices: the same completion comes at the same time."
		}
		return Sentence{Rule: "nothing", Text: text, Count: total}
	}
	s := Sentence{Rule: "later", Host: latest.Host, At: latest.Time, Before: latest.Time - late, For: late,
		WR: latest.WRID}
	than := "later"
	if late < 0 {
		than = "sooner"
	}
	s.Text = fmt.Sprintf("The programs notice nothing but the time: the completion of %s's wr %d says %s, as without "+
		"the change, %s "+
		"%s", c.name(s.Host), latest.WRID, latest.Status, span(max(late, -late)), than)
	if s.At != billOf(c.after).last {
		s.Text += fmt.Sprintf(", at %s instead of %s", at(s.At), at(s.Before))
	}
	s.Text += "."
	return s
}

// same says whether two completions tell a program the same.
func same(a, b *world.Completion) bool { return a.WC == b.WC && a.CQ == b.CQ }

// unequal says what is the first thing that a host's completions differ in.
func (c *comparison) unequal(h int, was, is []*world.Completion) (s Sentence, differs bool) {
	i := 0
	for i < min(len(was), len(is)) && same(was[i], is[i]) {
		i++
	}
	s = Sentence{Host: h, Count: len(is), Without: len(was)}
	who := c.name(h) + "'s program"
	switch {
	case i == len(was) && i == len(is):
		return s, false
	case i < len(was) && i < len(is) && was[i].WRID == is[i].WRID && was[i].QPN == is[i].QPN:
		s.Rule, s.At, s.WR = "other status", is[i].Time, is[i].WRID
		s.Text = fmt.Sprintf("%s notices: its wr %d ends with %s (%d) at %s, and not with %s (%d).", who, is[i].WRID,
			is[i].Status, is[i].Number, at(s.At), was[i].Status, was[i].Number)
		if is[i].Number == was[i].Number {
			s.Rule, s.Spared, s.Code = "other length", is[i].Length, was[i].Length
			s.Text = fmt.Sprintf("%s notices: the completion of its wr %d is of %d bytes at %s, and not of %d.", who,
				is[i].WRID,
				s.Spared, at(s.At), s.Code)
		}
	case len(is) < len(was):
		missing := missingOf(was, is)
		s.Rule, s.WR = "fewer", missing.WRID
		s.Text = fmt.Sprintf("%s waits in vain: of %s it gets %d, and the one of wr %d (%s) never comes.", who,
			count(len(was), "completion"), len(is), missing.WRID, missing.Status)
	case len(is) > len(was):
		more := missingOf(is, was)
		s.Rule, s.At, s.WR = "more", more.Time, more.WRID
		s.Text = fmt.Sprintf("%s gets %s and not %d: that of wr %d (%s) comes at %s.", who, count(len(is),
			"completion"),
			len(was), more.WRID, more.Status, at(s.At))
	default:
		s.Rule, s.At, s.WR, s.Other = "other order", is[i].Time, is[i].WRID, was[i].WRID
		s.Text = fmt.Sprintf("%s sees its completions in another order: wr %d (%s) comes at %s where wr %d (%s) "+
			"came.", who,
			is[i].WRID, is[i].Status, at(s.At), was[i].WRID, was[i].Status)
	}
	return s, true
}

// missingOf is the first completion of a longer list that has none like it in the other.
func missingOf(long, short []*world.Completion) *world.Completion {
	for _, x := range long {
		if !slices.ContainsFunc(short, func(y *world.Completion) bool {
			return x.WRID == y.WRID && x.QPN == y.QPN &&
				x.Op == y.Op
		}) {
			return x
		}
	}
	return long[len(long)-1]
}
