// Package gid is the rows in which a port has its addresses.
package gid

// Stages: an update, in three steps; what the rows hold now.

import (
	"slices"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Table gives addresses rows that they keep: transport.Info.GIDs has the rule. The zero Table is
// empty. One caller at a time.
type Table struct {
	rows  []row
	clock uint64 // counts departures
}

// row is an address, and whether it is there. Its place is its own until another needs it.
type row struct {
	gid   wire.GID
	there bool
	left  uint64 // clock when it went
}

// Set says which addresses there are now, the best first, and returns the rows. First those go that
// are not there any more, then those that were there before come back, each to its row, and then
// the others find one. An address that finds none, because MaxGIDs others are there, is left out.
func (t *Table) Set(now []wire.GID) []wire.GID {
	for i := range t.rows {
		if r := &t.rows[i]; r.there && !slices.Contains(now, r.gid) {
			t.clock++
			r.there, r.left = false, t.clock
		}
	}
	var strangers []wire.GID
	for _, g := range now {
		if i := slices.IndexFunc(t.rows, func(r row) bool { return r.gid == g }); i >= 0 {
			t.rows[i].there = true
		} else if !slices.Contains(strangers, g) {
			strangers = append(strangers, g)
		}
	}
	for _, g := range strangers {
		t.enter(g)
	}
	return t.GIDs()
}

// enter finds a row for an address that has none.
func (t *Table) enter(g wire.GID) {
	if len(t.rows) < transport.MaxGIDs {
		t.rows = append(t.rows, row{gid: g, there: true})
		return
	}
	best := -1
	for i := range t.rows {
		if r := &t.rows[i]; !r.there && (best < 0 || r.left < t.rows[best].left) {
			best = i
		}
	}
	if best >= 0 {
		t.rows[best] = row{gid: g, there: true}
	}
}

// GIDs returns the rows, empty ones as zero GIDs. The slice is the caller's.
func (t *Table) GIDs() []wire.GID {
	list := make([]wire.GID, len(t.rows))
	for i := range t.rows {
		if r := &t.rows[i]; r.there {
			list[i] = r.gid
		}
	}
	return list
}
