//go:build linux

package hub

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// TestRouter: whom each message is for, and what a process may say.
func TestRouter(t *testing.T) {
	at := &address{addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}
	row := func(i int) wire.GID { return wire.GID(at.addrs[i].As16()) }
	one, three := &process{at: at, slot: 1, ledger: hub.NewLedger()}, &process{at: at, slot: 3, ledger: hub.NewLedger()}
	r := newRouter(8)
	r.slots[1], r.slots[3] = one, three
	require.True(t, r.listen(one, hub.Service{ID: 7, Address: row(0)}))
	require.True(t, r.listen(one, hub.Service{ID: 7, Address: row(0)}), "it has it")
	require.False(t, r.listen(three, hub.Service{ID: 7, Address: row(0)}))
	require.True(t, r.listen(three, hub.Service{ID: 7}))
	require.True(t, r.listen(three, hub.Service{ID: 8, Only: 4}))
	mad := func(msg wire.CMMessage) *wire.MAD {
		m := new(wire.MAD)
		wire.PutCM(m, 1, msg)
		return m
	}
	for _, c := range []struct {
		what string
		row  int
		msg  wire.CMMessage
		want []*process
	}{
		{"a request, for who says most", 0, &wire.CMReq{ServiceID: 7}, []*process{one}},
		{"for who listens on all", 1, &wire.CMReq{ServiceID: 7}, []*process{three}},
		{"for who listens on all of the version", 0, &wire.CMReq{ServiceID: 8}, []*process{three}},
		{"and not on the other", 1, &wire.CMReq{ServiceID: 8}, nil},
		{"a query", 0, &wire.CMSidrReq{ServiceID: 7}, []*process{one}},
		{"for nobody", 0, &wire.CMSidrReq{ServiceID: 9}, nil},
		{"its answer", 0, &wire.CMSidrRep{RequestID: 3 << 24}, []*process{three}},
		{"an answer", 0, &wire.CMRep{RemoteCommID: 1<<24 | 5}, []*process{one}},
		{"to who has left", 0, &wire.CMRep{RemoteCommID: 2 << 24}, nil},
		{"to no slot", 0, &wire.CMRep{RemoteCommID: 200 << 24}, nil},
		{"an end", 0, &wire.CMDreq{RemoteCommID: 3 << 24}, []*process{three}},
		{"a refusal", 0, &wire.CMRej{RemoteCommID: 3 << 24}, []*process{three}},
		{"a refusal by who knows no ID", 0, &wire.CMRej{}, []*process{one, three}},
	} {
		require.Equal(t, c.want, r.to(&cm.Path{Local: row(c.row)}, mad(c.msg)), c.what)
	}
	again := mad(&wire.CMReq{LocalCommID: 55, ServiceID: 7})
	three.ledger.Received(&cm.Path{Local: row(0)}, again)
	require.Equal(t, []*process{three}, r.to(&cm.Path{Local: row(0)}, again), "a copy, for who has the first")
	own := &cm.Path{Local: row(1)}
	require.True(t, r.own(three, own, mad(&wire.CMReq{LocalCommID: 3<<24 | 9})))
	require.True(t, r.own(three, own, mad(&wire.CMRej{RemoteCommID: 9})), "a refusal has no ID of ours")
	require.False(t, r.own(three, own, mad(&wire.CMReq{LocalCommID: 1<<24 | 9})), "another's ID")
	require.False(t, r.own(three, &cm.Path{Local: wire.GID{15: 1}}, mad(&wire.CMReq{LocalCommID: 3 << 24})), "another address")
	require.False(t, r.own(three, own, new(wire.MAD)))
	require.ElementsMatch(t, []hub.Service{{ID: 7}, {ID: 8, Only: 4}}, r.services(three))
	r.unlisten(one, hub.Service{ID: 7})
	require.Len(t, r.services(three), 2, "it is another's")
	r.unlisten(three, hub.Service{ID: 7})
	require.Len(t, r.services(three), 1)
}
