package hub

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// step is a message that a process sends or receives.
type step struct {
	sent, received wire.CMMessage
	from           *cm.Path // nil: the peer's
}

// The connection of the tests, and its messages.
var (
	path      = cm.Path{Local: wire.GID{15: 1}, Remote: wire.GID{15: 2}}
	elsewhere = &cm.Path{Local: path.Local, Remote: wire.GID{15: 3}}
	known     = []cm.Estate{{Path: path, LocalID: own, RemoteID: peer, LocalQPN: 11, RemoteQPN: 22}}
	req       = &wire.CMReq{LocalCommID: own, LocalQPN: 11}
	rep       = &wire.CMRep{LocalCommID: peer, RemoteCommID: own, LocalQPN: 22}
	xrc       = &wire.CMRep{LocalCommID: peer, RemoteCommID: own, LocalEECN: 22}
	dials     = []step{{sent: req}, {sent: req}, {received: rep}, {received: rep}, {sent: &wire.CMRtu{LocalCommID: own}}}
	serves    = []step{{received: &wire.CMReq{LocalCommID: peer, LocalQPN: 22}},
		{sent: &wire.CMRep{LocalCommID: own, RemoteCommID: peer, LocalQPN: 11}}}
	dreq = step{sent: &wire.CMDreq{LocalCommID: own, RemoteCommID: peer}}
	drep = step{received: &wire.CMDrep{LocalCommID: peer, RemoteCommID: own}}
)

const own, peer = 0x05000001, 0x777

func mad(msg wire.CMMessage) *wire.MAD {
	m := new(wire.MAD)
	wire.PutCM(m, 1, msg)
	return m
}

// TestLedger: what messages say of connections, from both sides, to their end.
func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		left  []cm.Estate
		len   int
	}{
		"nothing":                      {},
		"asked for":                    {dials[:1], nil, 1},
		"dialed":                       {dials, known, 1},
		"dialed, with XRC":             {append(dials[:1:1], step{received: xrc}), known, 1},
		"accepted":                     {serves, known, 1},
		"said by somebody else":        {append(dials[:1:1], step{received: rep, from: elsewhere}), nil, 1},
		"refused by the peer":          {append(dials[:1:1], step{received: &wire.CMRej{RemoteCommID: own}}), nil, 0},
		"ended by somebody else":       {append(dials[:5:5], step{received: &wire.CMDrep{LocalCommID: 1, RemoteCommID: own}}), known, 1},
		"refused by us":                {append(serves[:1:1], step{sent: &wire.CMRej{RemoteCommID: peer}}), nil, 0},
		"asked to end":                 {append(dials[:5:5], dreq), known, 1},
		"asked to end, answered":       {append(dials[:5:5], dreq, drep), nil, 0},
		"the peer's end, answered":     {append(serves[:2:2], step{sent: &wire.CMDrep{LocalCommID: own, RemoteCommID: peer}}), nil, 0},
		"asked to end, never answered": {append(dials[:5:5], repeated(dreq, maxLeaves)...), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger()
			for _, s := range c.steps {
				from := &path
				if s.from != nil {
					from = s.from
				}
				if s.sent != nil {
					l.Sent(from, mad(s.sent))
				} else {
					l.Received(from, mad(s.received))
				}
			}
			require.ElementsMatch(t, c.left, l.Estates())
			require.Equal(t, c.len, l.Len())
			other := NewLedger()
			all := l.All()
			other.Learn(&all)
			require.Equal(t, l.asked, other.asked)
			require.Equal(t, l.peers, other.peers)
			require.ElementsMatch(t, c.left, other.Estates(), "told to another hub")
		})
	}
}

// TestLedgerIsBounded: requests that nobody answers take no more than their room, and what is no
// message is none.
func TestLedgerIsBounded(t *testing.T) {
	l := NewLedger()
	for i := range uint32(2 * maxAsked) { // requests that nobody answers
		l.Received(&path, mad(&wire.CMReq{LocalCommID: i}))
	}
	require.LessOrEqual(t, len(l.asked), maxAsked)
	l.Sent(&path, new(wire.MAD))
	l.Received(&path, new(wire.MAD))
}

func repeated[T any](x T, n int) (list []T) {
	for range n {
		list = append(list, x)
	}
	return list
}
