package repertoire

import (
	"regexp"
	"slices"
	"testing"
)

// No case is in two bouts: its samples would be mixed.
func TestBoutsAreApart(t *testing.T) {
	in := map[string]string{}
	for _, b := range AllBouts(AllPorts) {
		for _, c := range b.Cases {
			if in[c.Name] != "" {
				t.Errorf("%s is in %s and in %s", c.Name, in[c.Name], b.Name)
			}
			in[c.Name] = b.Name
		}
	}
}

// Every bar must be about cases of its bout, or it would never be measured.
func TestBarsNameCases(t *testing.T) {
	for _, b := range AllBouts(AllPorts) {
		var names []string
		for _, c := range b.Cases {
			names = append(names, c.Name)
		}
		for _, bar := range b.Bars {
			against := regexp.MustCompile("^(" + bar.Against + ")$")
			if !slices.Contains(names, bar.Ours) || bar.Against != "" && !slices.ContainsFunc(names, against.MatchString) {
				t.Errorf("%s: %s: no case %s, or none of %s", b.Name, bar.What, bar.Ours, bar.Against)
			}
		}
	}
}
