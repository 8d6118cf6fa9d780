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
		"one NAK however many come": {{whenLaterCame, true}, {whenLaterCame, false}, {whenLaterCame, false}},
		"lost again: the packet behind it is here for the second time": {{whenNextCame, true}, {whenLaterCame, false},
			{whenLaterCame, false},
			{whenNextCame, true}, {whenLaterCame, false}, {whenNextCame, true}},
		"lost, and the one behind it too: that passes by once more than once": {{whenLaterCame, true}, {whenNextCame, false},
			{whenLaterCame, false}, {whenNextCame, true}},
		"found, and then the next one is lost": {{whenNextCame, true}, {came, false}, {whenNextCame, true}},
		"no receive request: those behind it say nothing new": {{whenNoReceive, true}, {whenLaterCame, false}, {whenNextCame, false},
			{whenNextCame, true},
			{came, false}, {whenNoReceive, true}},
		"it waits for storage, and is asked for when it may come": {{whenMustStay, false}, {whenNextCame, false}, {whenLaterCame, false},
			{whenMayCome, true},
			{whenLaterCame, false}, {whenMayCome, false}, {whenNextCame, false}, {whenMayCome, false}},
		"there is no room for what is behind it": {{whenNoRoom, true}, {whenNoRoom, false}, {came, false}, {whenNoRoom, true},
			{whenLaterCame, false}, {whenNextCame, false}},
		"it waits for storage, and there is no room": {{whenMustStay, false}, {whenNoRoom, false}, {whenMayCome, true}},
		"storage without anybody who waits":          {{whenMayCome, false}, {whenLaterCame, true}},
		"no selective repeat any more": {{whenNextCame, true}, {whenNoRoom, false}, {whenMayCome, false},
			{whenMustStay, false}},
		"no room, and it finds no receive request": {{whenNoRoom, true}, {whenMayCome, false}, {whenNoReceive, true},
			{whenNoRoom, false}},
		"no room, and it waits for storage": {{whenNoRoom, true}, {whenMustStay, false}},
		"a gap is named alone, and there is no room again": {{whenNoRoom, true}, {whenKept, false}, {whenKept, false},
			{whenNoRoom, true}},
		"a gap is named beside it": {{whenNoReceive, true}, {whenKept, false}, {whenMustStay, false},
			{whenKept, false}, {whenMayCome, true}},
		"a gap is named, and it was lost again": {{whenNextCame, true}, {whenKept, false}, {whenNextCame, true}},
		"it came after a NAK, all the same": {{whenLaterCame, true}, {whenNoReceive, true}, {whenMustStay, false}, {whenNoReceive, true},
			{whenMustStay, false},
			{whenMustStay, false}, {came, false}, {whenNextCame, true}, {whenNoReceive, true}, {whenNextCame, false},
			{whenMustStay, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var r responder
			for i, h := range story {
				if h.ev == came {
					r.absent = absentUnnoticed
					continue
				}
				walked[[2]int{int(r.absent), int(h.ev)}] = true
				require.Equal(t, h.nak, r.notice(h.ev), "step %d", i)
			}
		})
	}
	require.Len(t, walked, int(numAbsences)*int(numAbsenceEvents), "entries that no story walks")
}
