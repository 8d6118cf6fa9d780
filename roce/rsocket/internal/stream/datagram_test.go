package stream

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDatagramFormat: the bytes of section 11.
func TestDatagramFormat(t *testing.T) {
	four, six := netip.MustParseAddrPort("192.0.2.1:7174"), netip.MustParseAddrPort("[2001:db8::1]:7174")
	const v6 = "20010db8000000000000000000000001"
	for text, b := range map[string][]byte{
		"04081c06" + "c0000201":                 AppendHeader(nil, four),
		"06181c06" + "00000000" + v6:            AppendHeader(nil, six),
		"5555555504071000" + "00123456c0000201": Ask{QPN: 0x123456, Addr: four.Addr()}.Append(nil),
		"5555555506001c00" + "00123456" + v6:    Ask{Data: true, QPN: 0x123456, Addr: six.Addr()}.Append(nil),
	} {
		require.Equal(t, text, hex.EncodeToString(b))
	}
}

// FuzzDatagram: whatever comes is no datagram, or one that would be written so.
func FuzzDatagram(f *testing.F) {
	addr := netip.MustParseAddrPort("[2001:db8::1]:7174")
	f.Add(append(AppendHeader(nil, addr), "data"...))
	f.Add(append(Ask{Data: true, QPN: 1, Addr: addr.Addr()}.Append(nil), "data"...))
	f.Fuzz(func(t *testing.T, in []byte) {
		if from, data, ok := ParseHeader(in); ok {
			again, rest, ok := ParseHeader(append(AppendHeader(nil, from), data...))
			require.True(t, ok)
			require.Equal(t, from, again)
			require.Equal(t, data, rest)
			require.Len(t, in, HeaderSize(from.Addr())+len(data))
		}
		if ask, data, ok := ParseAsk(in); ok {
			again, rest, ok := ParseAsk(append(ask.Append(nil), data...))
			require.True(t, ok)
			require.Equal(t, ask, again)
			require.Equal(t, data, rest)
		}
	})
}
