package main

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
		here := at(mtu, cases)
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
		if got := [2]string{withoutMTU(name), maker(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A short run leaves out what only a full one plays, unless it was asked for by name.
func TestChoice(t *testing.T) {
	bouts := []Bout{{Name: "one", Cases: []Case{{Name: "a/1"}, {Name: "a/2", Full: true}}}, {Name: "two", Cases: []Case{{Name: "b/1", Full: true}}}}
	for _, c := range []struct {
		o    options
		want []string
	}{
		{options{}, []string{"a/1"}},
		{options{full: true}, []string{"a/1", "a/2", "b/1"}},
		{options{only: "1$"}, []string{"a/1", "b/1"}},
		{options{full: true, skip: "^a"}, []string{"b/1"}},
		{options{only: "c"}, nil},
	} {
		choice, err := c.o.choice()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		some := chosen(bouts, choice)
		for _, b := range some {
			got = append(got, names(b.Cases)...)
			if len(b.Cases) == 0 {
				t.Errorf("%+v: %s is empty", c.o, b.Name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, got, c.want)
		}
	}
	if len(bouts[0].Cases) != 2 || bouts[0].Cases[1].Name != "a/2" {
		t.Errorf("the choice has changed what there is: %v", names(bouts[0].Cases))
	}
	if _, err := (&options{skip: "("}).choice(); err == nil {
		t.Error("a bad expression is taken")
	}
}

// No case is in two bouts: its samples would be mixed.
func TestBoutsAreApart(t *testing.T) {
	in := map[string]string{}
	for _, b := range allBouts(allPorts) {
		for _, c := range b.Cases {
			if in[c.Name] != "" {
				t.Errorf("%s is in %s and in %s", c.Name, in[c.Name], b.Name)
			}
			in[c.Name] = b.Name
		}
	}
}

// The newest entry of a change log comes first.
func TestChangeDate(t *testing.T) {
	log := "ucx (1.13.1-1) unstable; urgency=medium\n\n  * New upstream release\n\n -- A B <a@b.org>  Mon, 12 Sep 2022 10:22:17 +0100\n\nucx (1.0-1)\n\n -- A B <a@b.org>  Mon, 2 Sep 2019 10:22:17 +0100\n"
	for text, want := range map[string]string{log: " (12 Sep 2022)", "": "", "ucx (1.13.1-1) unstable": ""} {
		if got := changeDate([]byte(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
