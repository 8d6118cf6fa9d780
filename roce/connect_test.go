package roce

// What Connect and Activate promise, and what keeps devices apart.

import "testing"

// TestConnectGrants: the peer has the rights that Connect was given, whatever Init has granted. Without
// options it has those of Init, or all.
func TestConnectGrants(t *testing.T) {
	const all = RemoteRead | RemoteWrite | RemoteAtomic
	with := func(a Access) *ConnectOptions {
		o := DefaultConnectOptions()
		o.Access = a
		return &o
	}
	da, db := openPipes(t, nil)
	peer := newEnd(t, db, RC, 64).qp.Endpoint()
	for _, typ := range []QPType{RC, UC} {
		q := newEnd(t, da, typ, 64).qp
		for _, c := range []struct {
			name          string
			init          bool
			first, second *ConnectOptions
			want          Access
		}{
			{"all, then nothing", true, nil, with(0), 0},
			{"nothing, then WRITEs", true, with(0), with(RemoteWrite), RemoteWrite},
			{"READs, then no options", true, with(RemoteRead), nil, RemoteRead},
			{"READs", false, nil, with(RemoteRead), RemoteRead},
			{"no options", false, nil, nil, all},
		} {
			if c.init {
				must(t, q.Init(c.first))
			}
			must(t, q.Connect(peer, c.second))
			if attr, err := q.Query(); err != nil || attr.AccessFlags != c.want {
				t.Errorf("%v, %s: the peer may %v, want %v (%v)", typ, c.name, attr.AccessFlags, c.want, err)
			}
			must(t, q.Modify(&QPAttr{State: StateReset}, AttrState))
		}
	}
}

// TestForeignHandle: an address handle works on the device that it was made on, though another one has
// handles and domains of the same numbers.
func TestForeignHandle(t *testing.T) {
	da, db := openPipes(t, nil)
	a, b := newEnd(t, da, UD, 256), newEnd(t, db, UD, 256)
	must(t, a.qp.Activate(1))
	must(t, b.qp.Activate(1))
	for _, e := range []*end{a, b} {
		ah, err := e.pd.CreateAH(AHAttr{DGID: e.dev.GIDs()[0]})
		must(t, err)
		defer func() { must(t, e.pd.DestroyAH(ah)) }()
		for _, to := range []*end{a, b} {
			err := to.qp.PostSend(SendWR{Opcode: WRSend, AH: ah, RemoteQPN: to.qp.QPN(), RemoteQKey: 1})
			if to == e {
				must(t, err)
				continue
			}
			refused(t, err, ErrInvalid, "another device", to.qp.label())
		}
	}
}
