package qp

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestAttributes: each row of the table copies the field of its bit and no other, and there is a
// row for every bit that some transition takes, but for the states themselves.
func TestAttributes(t *testing.T) {
	from := QPAttr{State: StateRTS, CurState: StateRTS, PathMTU: wire.MTU1024, QKey: 1, RQPSN: 2, SQPSN: 3, DestQPN: 4,
		AccessFlags: 5, Cap: Cap{MaxSendWR: 6}, AV: AHAttr{FlowLabel: 7}, PKeyIndex: 8, EnSQDAsyncNotify: true,
		SQDraining: true, MaxRdAtomic: 9, MaxDestRdAtomic: 10, MinRNRTimer: 11, Port: 1, Timeout: 12, RetryCnt: 6,
		RNRRetry: 7, SelectiveRepeat: true, LongWindow: true, FlowControl: true, RateLimit: 13}
	source := reflect.ValueOf(from)
	rows, fields := AttrMask(0), map[string]bool{}
	for _, row := range attributes {
		var to QPAttr
		row.copy(&to, &from)
		copied, n := reflect.ValueOf(to), 0
		for i := range copied.NumField() {
			require.False(t, source.Field(i).IsZero(), "%s has no value", copied.Type().Field(i).Name)
			if !copied.Field(i).IsZero() {
				require.True(t, copied.Field(i).Equal(source.Field(i)))
				fields[copied.Type().Field(i).Name] = true
				n++
			}
		}
		require.Equal(t, 1, n, "%v", row.bit)
		require.Zero(t, rows&row.bit, "%v has two rows", row.bit)
		rows |= row.bit
	}
	require.Len(t, fields, len(attributes), "two rows copy one field")
	taken := AttrMask(0)
	for _, row := range transitions {
		for i := range row.need {
			taken |= row.need[i] | row.may[i]
		}
	}
	unchanged := AttrCurState | AttrAltPath | AttrPathMigState // the last two are refused
	require.Equal(t, taken&^unchanged, rows)
}
