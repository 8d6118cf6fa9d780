package play

import (
	"slices"
	"testing"

	"github.com/goroce/goroce/bench/figures"
)

func names(cases []figures.Case) (all []string) {
	for _, c := range cases {
		all = append(all, c.Name)
	}
	return all
}

// A short run leaves out what only a full one plays, unless it was asked for by name.
func TestChoice(t *testing.T) {
	bouts := []figures.Bout{{Name: "one", Cases: []figures.Case{{Name: "a/1"}, {Name: "a/2", Full: true}}},
		{Name: "two", Cases: []figures.Case{{Name: "b/1", Full: true}}}}
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{}, []string{"a/1"}},
		{Options{Full: true}, []string{"a/1", "a/2", "b/1"}},
		{Options{Only: "1$"}, []string{"a/1", "b/1"}},
		{Options{Full: true, Skip: "^a"}, []string{"b/1"}},
		{Options{Only: "c"}, nil},
	} {
		choice, err := c.o.Choice()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		some := figures.Chosen(bouts, choice)
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
	if _, err := (&Options{Skip: "("}).Choice(); err == nil {
		t.Error("a bad expression is taken")
	}
}

// The newest entry of a change log comes first.
func TestChangeDate(t *testing.T) {
	log := "ucx (1.13.1-1) unstable; urgency=medium\n\n  * New upstream release\n\n -- A B <a@b.org>  Mon, 12 Sep 2022 10:22:17 +0100\n\n" +
		"ucx (1.0-1)\n\n -- A B <a@b.org>  Mon, 2 Sep 2019 10:22:17 +0100\n"
	for text, want := range map[string]string{log: " (12 Sep 2022)", "": "", "ucx (1.13.1-1) unstable": ""} {
		if got := ChangeDate([]byte(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
