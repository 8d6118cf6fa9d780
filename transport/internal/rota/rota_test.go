package rota

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestShare: one that always has something is the first in one Recv of as many as there are sources
// that have something at all, whether each of them floods or trickles.
func TestShare(t *testing.T) {
	const places, recvs = 128, 2 * 2520 // as often the first of any number up to 10
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 14))
		sources, r := 2+rng.IntN(9), Rota{}
		honest := rng.IntN(sources)
		most := make([]int, sources) // that each has for a Recv
		for i := range most {
			most[i] = []int{0, 1, places / 2, places - 1, places, 10 * places}[rng.IntN(6)]
		}
		most[honest] = places
		busy := sources
		for _, n := range most {
			if n == 0 {
				busy--
			}
		}
		got, passed := 0, 0
		for range recvs {
			n, before := 0, got
			for i, first := 0, r.Begin(sources); i < sources; i++ {
				at := (first + i) % sources
				gave := min(most[at], places-n)
				r.Gave(at, gave)
				if n += gave; at == honest {
					got += gave
				}
			}
			if passed++; got >= before+places {
				passed = 0
			}
			if passed >= busy {
				t.Fatalf("seed %d: of %v, source %d was not the first in %d Recvs", seed, most, honest, passed)
			}
		}
		if got < recvs*places/busy {
			t.Errorf("seed %d: of %v, source %d got %d of %d places", seed, most, honest, got, recvs*places)
		}
	}
}

// TestFewer: sources that have gone are not waited for.
func TestFewer(t *testing.T) {
	r := Rota{}
	r.Begin(5)
	r.Gave(4, 1)
	firsts := []int{r.Begin(3)}
	r.Gave(0, 0)
	r.Gave(1, 7)
	r.Gave(2, 7)
	firsts = append(firsts, r.Begin(3), r.Begin(1))
	if !slices.Equal(firsts, []int{0, 2, 0}) {
		t.Errorf("Recvs begin with %v", firsts)
	}
}
