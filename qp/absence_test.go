package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAbsence tells what happens while a packet is absent, and what the peer gets for it. The
// stories together walk every entry of the table.
func TestAbsence(t *testing.T) {
	type happens struct {
		ev  absenceEvent
		nak bool
	}
	const came = numAbsenceEvents // the expected packet: checkPSN forgets the rest
	walked := map[[2]int]bool{}
	for name, story := range map[string][]happens{
		"one NAK however many come": {{laterCame, true}, {laterCame, false}, {laterCame, false}},
		"lost again: the packet behind it is here for the second time": {{nextCame, true}, {laterCame, false}, {laterCame, false},
			{nextCame, true}, {laterCame, false}, {nextCame, true}},
		"lost, and the one behind it too: that passes by once more than once": {{laterCame, true}, {nextCame, false}, {laterCame, false}, {nextCame, true}},
		"found, and then the next one is lost":                                {{nextCame, true}, {came, false}, {nextCame, true}},
		"no receive request: those behind it say nothing new": {{noReceive, true}, {laterCame, false}, {nextCame, false}, {nextCame, true},
			{came, false}, {noReceive, true}},
		"it waits for storage, and is asked for when it may come": {{mustStay, false}, {nextCame, false}, {laterCame, false}, {mayCome, true},
			{laterCame, false}, {mayCome, false}, {nextCame, false}, {mayCome, false}},
		"there is no room for what is behind it":           {{noRoom, true}, {noRoom, false}, {came, false}, {noRoom, true}, {laterCame, false}, {nextCame, false}},
		"it waits for storage, and there is no room":       {{mustStay, false}, {noRoom, false}, {mayCome, true}},
		"storage without anybody who waits":                {{mayCome, false}, {laterCame, true}},
		"no selective repeat any more":                     {{nextCame, true}, {noRoom, false}, {mayCome, false}, {mustStay, false}},
		"no room, and it finds no receive request":         {{noRoom, true}, {mayCome, false}, {noReceive, true}, {noRoom, false}},
		"no room, and it waits for storage":                {{noRoom, true}, {mustStay, false}},
		"a gap is named alone, and there is no room again": {{noRoom, true}, {gapNamed, false}, {gapNamed, false}, {noRoom, true}},
		"a gap is named beside it":                         {{noReceive, true}, {gapNamed, false}, {mustStay, false}, {gapNamed, false}, {mayCome, true}},
		"a gap is named, and it was lost again":            {{nextCame, true}, {gapNamed, false}, {nextCame, true}},
		"it came after a NAK, all the same": {{laterCame, true}, {noReceive, true}, {mustStay, false}, {noReceive, true}, {mustStay, false},
			{mustStay, false}, {came, false}, {nextCame, true}, {noReceive, true}, {nextCame, false}, {mustStay, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var r responder
			for i, h := range story {
				if h.ev == came {
					r.absent = unnoticed
					continue
				}
				walked[[2]int{int(r.absent), int(h.ev)}] = true
				require.Equal(t, h.nak, r.notice(h.ev), "step %d", i)
			}
		})
	}
	require.Len(t, walked, int(numAbsences)*int(numAbsenceEvents), "entries that no story walks")
}
