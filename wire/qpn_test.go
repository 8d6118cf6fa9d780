package wire

import (
	"math/rand/v2"
	"testing"
)

// Each number has one lane, which its space says too, and numbers that are drawn are the space's
// own.
func TestQPNSpace(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 1))
	for _, whole := range []QPNSpace{{}, {Mask: 0xff0000, Value: 0x120000}, {Mask: 0x000f00, Value: 0x000500}} {
		for _, lanes := range []int{1, 2, 4, 64} {
			for range 1000 {
				qpn := whole.Number(random.Uint32())
				if qpn > QPNMask || !whole.Owns(qpn) {
					t.Fatalf("%+v: 0x%x was drawn", whole, qpn)
				}
				for i := range lanes {
					lane := whole.Lane(i, lanes)
					if got := lane.Owns(qpn); got != (LaneOf(qpn, lanes) == i) {
						t.Fatalf("%+v, lane %d of %d: owns 0x%06x: %v", whole, i, lanes, qpn, got)
					}
					if drawn := lane.Number(random.Uint32()); !lane.Owns(drawn) || !whole.Owns(drawn) {
						t.Fatalf("%+v, lane %d of %d: 0x%06x was drawn", whole, i, lanes, drawn)
					}
					if again := whole.Lane(lanes-1-i, lanes).Lane(i, lanes); again != lane {
						t.Fatalf("%+v, lane %d of %d: %+v, and again %+v", whole, i, lanes, lane, again)
					}
				}
			}
			if all := (QPNSpace{}); !all.Owns(random.Uint32()) || LaneOf(random.Uint32(), 1) != 0 {
				t.Error("the zero value is not all numbers")
			}
		}
	}
	if (QPNSpace{Mask: 0xff0000, Value: 0x120000}).Owns(0x130001) {
		t.Error("a number of somebody else")
	}
}

// TestQPNSpaceNumbers: all of a space are there, once each.
func TestQPNSpaceNumbers(t *testing.T) {
	for _, s := range []QPNSpace{{Mask: 0xfff00f, Value: 0x123005}, {Mask: 0x0fffff}, {Mask: 0xaaaaaa, Value: 0x8}, {Mask: 0xfffffe}} {
		seen := map[uint32]bool{}
		for i := range uint32(1) << s.Bits() {
			n := s.Number(i)
			if seen[n] || !s.Owns(n) || n > QPNMask {
				t.Fatalf("%+v: 0x%06x is number %d, there before: %v", s, n, i, seen[n])
			}
			seen[n] = true
		}
	}
}

// TestOwnerOf: a number is in the space of the owner that it names, and of no other.
func TestOwnerOf(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 2))
	for owners := 1; owners <= MaxOwners; owners *= 2 {
		for range 1000 {
			qpn := random.Uint32() & QPNMask
			for i := range owners {
				if got := (QPNSpace{}).Owner(i, owners).Owns(qpn); got != (OwnerOf(qpn, owners) == i) {
					t.Fatalf("owner %d of %d: owns 0x%06x: %v", i, owners, qpn, got)
				}
			}
		}
	}
}
