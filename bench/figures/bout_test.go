package figures

import (
	"slices"
	"testing"
)

func names(cases []Case) (all []string) {
	for _, c := range cases {
		all = append(all, c.Name)
	}
	return all
}

// Cases that do not care about the MTU are played at each, others only at theirs.
func TestAt(t *testing.T) {
	cases := []Case{{Name: "any"}, {Name: "small", MTU: 1500}, {Name: "large", MTU: 9000}}
	for mtu, want := range map[int][]string{1500: {"1500/any", "1500/small"}, 9000: {"9000/any", "9000/large"}} {
		here := At(mtu, cases)
		if !slices.Equal(names(here), want) || here[0].MTU != mtu {
			t.Errorf("at MTU %d: %v, want %v", mtu, names(here), want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string][2]string{
		"1500/ours/udp/write-bw/64K": {"ours/udp/write-bw/64K", "ours"}, "9000/raw/udp-stream": {"raw/udp-stream", "raw"},
		"inside/scale/1500": {"inside/scale/1500", "inside"}, "15000/x": {"15000/x", "15000"},
	} {
		if got := [2]string{WithoutMTU(name), Maker(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
