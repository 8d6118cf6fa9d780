package gid

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// gids makes addresses of numbers; 0 is an empty row.
func gids(numbers ...int) (list []wire.GID) {
	for _, n := range numbers {
		var g wire.GID
		if n > 0 {
			g, _ = wire.ParseGID(fmt.Sprintf("fd00::%x", n))
		}
		list = append(list, g)
	}
	return list
}

// Addresses come and go, and each is found in its row again.
func TestRowsStayPut(t *testing.T) {
	var table Table
	for i, c := range []struct{ now, want []int }{
		{[]int{1, 2, 3}, []int{1, 2, 3}},
		{[]int{3, 1}, []int{1, 0, 3}},
		{[]int{4, 3, 1}, []int{1, 0, 3, 4}}, // 2 has not lost its row
		{[]int{4, 2, 2, 5}, []int{0, 2, 0, 4, 5}},
		{nil, []int{0, 0, 0, 0, 0}},
		{[]int{5, 4, 3, 2, 1}, []int{1, 2, 3, 4, 5}},
	} {
		if got := table.Set(gids(c.now...)); !slices.Equal(got, gids(c.want...)) {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

// When all rows have had an address, a new one takes the row that has been empty for longest, and
// one that finds none is left out.
func TestFullTable(t *testing.T) {
	var table Table
	var all []int
	for n := range transport.MaxGIDs {
		all = append(all, n+1)
	}
	table.Set(gids(all...))
	table.Set(gids(append(slices.Clone(all[:7]), all[8:]...)...)) // 8 goes first
	table.Set(gids(append(slices.Clone(all[:2]), all[8:]...)...)) // then 3 to 7
	rows := table.Set(gids(append(slices.Clone(all[:2]), append(all[8:], 1000)...)...))
	if i := slices.Index(rows, gids(1000)[0]); i != 7 {
		t.Errorf("the new address is in row %d, not in 8's", i)
	}
	full := table.Set(gids(append(slices.Clone(all[:7]), append(all[8:], 1000, 1001)...)...))
	if len(full) != transport.MaxGIDs || slices.Contains(full, gids(1001)[0]) || slices.Contains(full, wire.GID{}) {
		t.Errorf("the full table: %v", full)
	}
}
