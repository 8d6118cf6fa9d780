package cm

import (
	"testing"

	"github.com/goroce/goroce/wire"
)

// TestResolve: a query brings the queue pair, its Q_Key and private data, also if the first answer
// is lost; then both sides forget it.
func TestResolve(t *testing.T) {
	p := newPair(t)
	service := wire.CMServiceID(wire.CMPortSpaceUDP, 7174)
	l, err := p.m[1].Listen(service, ListenOptions{})
	p.must(err)
	asking, err := p.m[0].Resolve(p.now, &ResolveParams{
		ServiceID: service,
		Path:      p.params().Path,
		SrcPort:   4000,
		Private:   []byte("who?"),
		Context:   7,
	})
	p.must(err)
	e := p.event(1, EventSIDRRequest)
	if e.Listener != l || e.Header.SrcPort != 4000 || string(e.Private[:5]) != "who?\x00" || len(e.Private) != MaxPrivateSIDRREQ ||
		e.Query.ServiceID() != service {
		t.Errorf("%+v", e)
	}
	p.must(e.Query.Answer(p.now, &Answer{QPN: 0x77, QKey: 0x01234567, Private: []byte("me")}))
	p.lose(1)
	p.now = p.m[0].PollTimeout()
	p.m[0].HandleTimeout(p.now)
	got := p.event(0, EventResolved)
	if got.Query != asking || got.Status != wire.CMSidrOK || got.QPN != 0x77 || got.QKey != 0x01234567 ||
		string(got.Private[:3]) != "me\x00" || len(got.Private) != MaxPrivateSIDRREP {
		t.Errorf("%+v", got)
	}
	if asking.State() != StateIdle || e.Query.State() != StateSIDRRepSent || got.Query.Context != 7 || asking.Path().Remote != p.gid[1] {
		t.Errorf("%v, %v", asking.State(), e.Query.State())
	}
	p.quiet(1)
	p.now = p.m[1].PollTimeout()
	p.m[1].HandleTimeout(p.now)
	for i, m := range p.m {
		if n, held := m.Len(); n+held != 0 {
			t.Errorf("machine %d: %d queries, %d remembered", i, n, held)
		}
	}
}

// TestResolveRefused: a query that cannot be answered is refused at once, with the reason; one that
// the application closes, too.
func TestResolveRefused(t *testing.T) {
	for name, c := range map[string]struct {
		wrong func(*wire.CMSidrReq)
		want  wire.CMSidrStatus
	}{
		"nobody serves it":      {func(r *wire.CMSidrReq) { r.ServiceID++ }, wire.CMSidrUnsupported},
		"partition":             {func(r *wire.CMSidrReq) { r.PartitionKey = 1 }, wire.CMSidrRejected},
		"version of the header": {func(r *wire.CMSidrReq) { r.PrivateData[0] = 1 }, wire.CMSidrRejected},
		"the other IP version":  {func(r *wire.CMSidrReq) { r.PrivateData[1] = 0x60 }, wire.CMSidrRejected},
		"closed":                {func(*wire.CMSidrReq) {}, wire.CMSidrRejected},
	} {
		s := newStage(StateReqSent)
		req := s.query()
		c.wrong(req)
		s.hear(req)
		if e, ok := s.m.PollEvent(); ok {
			e.Query.Close(s.now)
		}
		var msg Message
		var rep wire.CMSidrRep
		if !s.m.PollTransmit(&msg) || wire.GetCM(&msg.MAD, &rep) != nil || rep.Status != c.want || rep.RequestID != peerID1 ||
			rep.ServiceID != req.ServiceID {
			t.Errorf("%s: %s", name, wire.AppendMAD(nil, &msg.MAD))
		}
	}
}

// TestNames: what is printed in messages for people.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		StateReqSent.String(): "REQ_SENT", State(40).String(): "state 40", EventConnectRequest.String(): "CONNECT_REQUEST",
		EventType(0).String(): "event 0", EventType(99).String(): "event 99", DropBacklog.String(): "backlog", gotREP.String(): "a REP",
	} {
		if got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
	}
	c := newStage(StateReqRcvd).c
	if !c.Passive() || c.ServiceID() != service || c.Path().Remote != peerPath.Remote || c.Path().HopLimit != 64 {
		t.Errorf("%+v", c)
	}
}
