package roce

// What Connect and Activate promise, and what keeps devices apart.

import (
	"testing"

	"github.com/goroce/goroce/transport"
)

// TestConnectGrants: the peer has the rights that Connect was given, whatever Init has granted.
// Without options it has those of Init, or all.
func TestConnectGrants(t *testing.T) {
	const all = RemoteRead | RemoteWrite | RemoteAtomic | FlushGlobal | FlushPersistent
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
			must(t, q.Connect(bg, peer, c.second))
			if attr, err := q.Query(); err != nil || attr.AccessFlags != c.want {
				t.Errorf("%v, %s: the peer may %v, want %v (%v)", typ, c.name, attr.AccessFlags, c.want, err)
			}
			must(t, q.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		}
	}
}

// shortPort is a port on an interface with a smaller MTU.
type shortPort struct {
	transport.Port
	mtu *int
}

func (p shortPort) Info() transport.Info {
	i := p.Port.Info()
	i.NetMTU = *p.mtu
	return i
}

// TestPortMTU: no queue pair makes packets that the interface does not carry. A path MTU that is
// too large is refused, and a datagram that is too long fails when its turn comes.
func TestPortMTU(t *testing.T) {
	mtu := 1500
	da, _ := openPipes(t, func(p transport.Port) transport.Port { return shortPort{p, &mtu} })
	rc, ud := newEnd(t, da, RC, 64), newEnd(t, da, UD, 8192)
	peer := Endpoint{GID: da.GIDs()[0], QPN: 17}
	o := DefaultConnectOptions()
	o.MTU = MTU2048
	refused(t, rc.qp.Connect(bg, peer, &o), ErrInvalid, "path_mtu 4", "1024 bytes")
	mtu = 9000 // later than the device has asked
	if p := da.QueryPort(); p.ActiveMTU != MTU1024 || p.NetMTU != 9000 {
		t.Errorf("%+v", p)
	}
	must(t, rc.qp.Connect(bg, peer, nil))
	if attr, err := rc.qp.Query(); err != nil || attr.PathMTU != MTU1024 {
		t.Errorf("path MTU %v, %v", attr.PathMTU, err)
	}

	must(t, ud.qp.Activate(1))
	ah, err := ud.pd.CreateAH(bg, AHAttr{DGID: da.GIDs()[0]})
	must(t, err)
	defer func() { must(t, ud.pd.DestroyAH(ah)) }()
	ud.recv(0, ud.mr.SGE(4096, 4096))
	for _, c := range []struct {
		size int
		want WCStatus
	}{{1024, WCSuccess}, {1025, WCLocLenErr}} {
		ud.post(SendWR{Opcode: WRSend, AH: ah, RemoteQPN: ud.qp.QPN(), RemoteQKey: 1, SGL: []SGE{ud.mr.SGE(0, c.size)}})
		wc := ud.waitAny()
		for wc.Opcode == WCRecv {
			wc = ud.waitAny()
		}
		if wc.Status != c.want {
			t.Errorf("%d bytes by UD where the port's MTU is 1024: %v, want %v", c.size, wc.Status, c.want)
		}
	}
}

// TestForeignHandle: an address handle works on the device that it was made on, though another one
// has handles and domains of the same numbers.
func TestForeignHandle(t *testing.T) {
	da, db := openPipes(t, nil)
	a, b := newEnd(t, da, UD, 256), newEnd(t, db, UD, 256)
	must(t, a.qp.Activate(1))
	must(t, b.qp.Activate(1))
	for _, e := range []*end{a, b} {
		ah, err := e.pd.CreateAH(bg, AHAttr{DGID: e.dev.GIDs()[0]})
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

// TestSmallerPeer: the path MTU is what both ports take, as the endpoints say it.
func TestSmallerPeer(t *testing.T) {
	mtu := 1500
	da, _ := openPipes(t, nil)
	db, _ := openPipes(t, func(p transport.Port) transport.Port { return shortPort{p, &mtu} })
	a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
	connect(t, a, b)
	for _, e := range []*end{a, b} {
		if attr, err := e.qp.Query(); err != nil || attr.PathMTU != MTU1024 {
			t.Errorf("path MTU %v, %v", attr.PathMTU, err)
		}
	}
}
