package pin

import (
	"slices"
	"testing"
)

// TestPagesWithout: what is unlocked is what no other region has, whatever the order.
func TestPagesWithout(t *testing.T) {
	p := pages{10, 20}
	for _, c := range []struct{ others, want []pages }{
		{nil, []pages{{10, 20}}},
		{[]pages{{0, 10}, {20, 30}}, []pages{{10, 20}}},
		{[]pages{{10, 20}}, nil},
		{[]pages{{5, 25}}, nil},
		{[]pages{{5, 12}}, []pages{{12, 20}}},
		{[]pages{{18, 25}}, []pages{{10, 18}}},
		{[]pages{{12, 14}}, []pages{{10, 12}, {14, 20}}},
		{[]pages{{12, 14}, {13, 17}, {19, 30}}, []pages{{10, 12}, {17, 19}}},
		{[]pages{{10, 15}, {15, 20}}, nil},
	} {
		if got := p.without(c.others); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v is %v, want %v", p, c.others, got, c.want)
		}
		slices.Reverse(c.others)
		if got := p.without(c.others); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v, backwards, is %v, want %v", p, c.others, got, c.want)
		}
	}
}
