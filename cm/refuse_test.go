package cm

// What is refused: requests of peers that are not right, and arguments of callers.

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goroce/goroce/wire"
)

// TestREQIsJudged walks the rules of section 9.8.
func TestREQIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		wrong func(*wire.CMReq)
		want  wire.CMRejReason
	}{
		"nobody listens": {func(r *wire.CMReq) { r.ServiceID++ }, wire.CMRejInvalidService},
		"another port space": {func(r *wire.CMReq) {
			r.ServiceID = wire.CMServiceID(wire.CMPortSpaceUDP, 7471)
		}, wire.CMRejInvalidService},
		"RD":                     {func(r *wire.CMReq) { r.TransportServiceType = 2 }, wire.CMRejInvalidType},
		"extended, not XRC":      {func(r *wire.CMReq) { r.TransportServiceType = 3 }, wire.CMRejInvalidType},
		"a third's address":      {func(r *wire.CMReq) { r.Primary.LocalGID[15]++ }, wire.CMRejInvalidGID},
		"to a third's address":   {func(r *wire.CMReq) { r.Primary.RemoteGID[15]++ }, wire.CMRejInvalidGID},
		"partition":              {func(r *wire.CMReq) { r.PartitionKey = 0x8001 }, wire.CMRejUnsupported},
		"no MTU":                 {func(r *wire.CMReq) { r.PathMTU = 0 }, wire.CMRejInvalidMTU},
		"MTU 6":                  {func(r *wire.CMReq) { r.PathMTU = 6 }, wire.CMRejInvalidMTU},
		"MTU above the device's": {func(r *wire.CMReq) { r.PathMTU = wire.MTU4096 }, wire.CMRejInvalidMTU},
		"version of the header":  {func(r *wire.CMReq) { r.PrivateData[0] = 1 }, wire.CMRejConsumer},
		"IP version":             {func(r *wire.CMReq) { r.PrivateData[1] = 0x50 }, wire.CMRejConsumer},
		"the other IP version":   {func(r *wire.CMReq) { r.PrivateData[1] = 0x60 }, wire.CMRejConsumer},
	} {
		s := newStage(StateReqRcvd)
		s.m.SetMTU(wire.MTU2048)
		req := s.req
		req.LocalCommID, req.LocalQPN = 1, 1
		c.wrong(&req)
		s.hear(&req)
		var msg Message
		var rej wire.CMRej
		if !s.m.PollTransmit(&msg) || wire.GetCM(&msg.MAD, &rej) != nil {
			t.Errorf("%s: no REJ", name)
		} else if rej.Reason != c.want || rej.LocalCommID != 0 || rej.RemoteCommID != 1 || msg.MAD.TransactionID() != peerTID ||
			msg.Path.Remote != peerPath.Remote {
			t.Errorf("%s: %s, want %v", name, wire.AppendMAD(nil, &msg.MAD), c.want)
		}
		if n, _ := s.m.Len(); n != 1 {
			t.Errorf("%s: a connection was made of it", name)
		}
	}
	s := newStage(StateReqRcvd)
	for i, right := range []func(*wire.CMReq){
		func(r *wire.CMReq) { r.TransportServiceType = 1 },
		func(r *wire.CMReq) { r.TransportServiceType, r.ExtendedTransportType = 3, 1 },
		func(r *wire.CMReq) { r.PathMTU = wire.MTU4096 },
	} {
		req := s.req
		req.LocalCommID, req.LocalQPN = uint32(i+1), uint32(i+1)
		right(&req)
		s.hear(&req)
		if e, ok := s.m.PollEvent(); !ok || e.Type != EventConnectRequest {
			t.Errorf("%+v: refused", req)
		}
	}
}

// TestNotCM: what is no message of the connection manager is counted, and that is all.
func TestNotCM(t *testing.T) {
	s := newStage(StateReqSent)
	good := mad(1, &wire.CMRtu{LocalCommID: 1, RemoteCommID: 2})
	bad := [][]byte{nil, good[:255], append(bytes.Clone(good[:]), 0)}
	for _, i := range []int{0, 1, 2, 3, 16} {
		b := bytes.Clone(good[:])
		b[i] ^= 0x40
		bad = append(bad, b)
	}
	for n, b := range bad {
		s.m.HandleMAD(s.now, peerPath, b)
		if s.m.Stats().Drops[DropNotCM] != uint64(n+1) || s.outcome() != "→ REQ_SENT" {
			t.Errorf("%x", b)
		}
	}
	s.hear(&wire.CMReq{ServiceID: service})
	s.hear(&wire.CMRep{RemoteCommID: s.c.localID})
	if s.m.Stats().Drops[DropMalformed] != 2 {
		t.Error("a REQ and a REP without an ID of their sender")
	}
}

// TestPrivateData: each message takes what it has room for, and not a byte more; and the other side
// gets all of it, with zeros behind (section 9.5).
func TestPrivateData(t *testing.T) {
	long := bytes.Repeat([]byte{7}, 300)
	for what, c := range map[string]struct {
		most int
		by   []input
		call func(s *stage, private []byte) error
	}{
		"REQ":           {MaxPrivateREQ, nil, func(s *stage, b []byte) error { return connectWith(s, service, b) }},
		"REQ, raw":      {MaxPrivateREQRaw, nil, func(s *stage, b []byte) error { return connectWith(s, 0x77, b) }},
		"SIDR_REQ":      {MaxPrivateSIDRREQ, nil, func(s *stage, b []byte) error { return resolveWith(s, service, b) }},
		"SIDR_REQ, raw": {MaxPrivateSIDRREQRaw, nil, func(s *stage, b []byte) error { return resolveWith(s, 0x77, b) }},
		"REP":           {MaxPrivateREP, nil, func(s *stage, b []byte) error { return s.c.Accept(s.now, &AcceptParams{Private: b}) }},
		"REJ":           {MaxPrivateREJ, nil, func(s *stage, b []byte) error { return s.c.Reject(s.now, 28, nil, b) }},
		"ARI":           {MaxARI, nil, func(s *stage, b []byte) error { return s.c.Reject(s.now, 28, b, nil) }},
		"RTU":           {MaxPrivateRTU, []input{callAccept}, func(s *stage, b []byte) error { return s.c.Establish(s.now, b) }},
		"DREQ":          {MaxPrivateDREQ, []input{callAccept, gotRTU}, func(s *stage, b []byte) error { return s.c.Disconnect(s.now, b) }},
		"DREP": {MaxPrivateDREP, []input{callAccept, gotRTU, gotDREQ}, func(s *stage, b []byte) error {
			return s.c.Disconnect(s.now, b)
		}},
	} {
		s := newStage(StateReqRcvd)
		for _, on := range c.by {
			s.do(on)
		}
		before := s.c.state
		if err := c.call(s, long[:c.most+1]); !errors.Is(err, ErrInvalid) || s.c.state != before {
			t.Errorf("%s of %d bytes: %v, %v", what, c.most+1, err, s.c.state)
		}
		if err := c.call(s, long[:c.most]); err != nil {
			t.Errorf("%s of %d bytes: %v", what, c.most, err)
		}
	}
	s := newStage(StateSIDRReqRcvd)
	if err := (*Query)(s.c).Answer(s.now, &Answer{Private: long[:MaxPrivateSIDRREP+1]}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := (*Query)(s.c).Answer(s.now, &Answer{Private: long[:MaxPrivateSIDRREP]}); err != nil {
		t.Error(err)
	}
}

func connectWith(s *stage, service uint64, private []byte) error {
	_, err := s.m.Connect(s.now, &ConnectParams{ServiceID: service, Path: peerPath, MTU: 1, Private: private})
	return err
}

func resolveWith(s *stage, service uint64, private []byte) error {
	_, err := s.m.Resolve(s.now, &ResolveParams{ServiceID: service, Path: peerPath, Private: private})
	return err
}

// TestArguments: what is out of range is named, and nothing is left behind.
func TestArguments(t *testing.T) {
	p := newPair(t)
	m := p.m[0]
	for name, wrong := range map[string]func(*ConnectParams){
		"transport":        func(c *ConnectParams) { c.Transport = 2 },
		"MTU":              func(c *ConnectParams) { c.MTU = 0 },
		"response timeout": func(c *ConnectParams) { c.ResponseTimeout = 32 },
		"lifetime":         func(c *ConnectParams) { c.PacketLifetime = 32 },
		"retries":          func(c *ConnectParams) { c.MaxRetries = 16 },
		"QPN":              func(c *ConnectParams) { c.QPN = 1 << 24 },
		"retry count":      func(c *ConnectParams) { c.RetryCount = 8 },
		"RNR retry count":  func(c *ConnectParams) { c.RNRRetryCount = 8 },
		"no address":       func(c *ConnectParams) { c.Path.Remote = wire.GID{} },
		"multicast":        func(c *ConnectParams) { c.Path.Remote = wire.GID{10: 0xff, 11: 0xff, 12: 224} },
		"IP versions":      func(c *ConnectParams) { c.Path.Remote = wire.GID{0xfd} },
		"flow label":       func(c *ConnectParams) { c.Path.FlowLabel = 1 << 20 },
		"SL":               func(c *ConnectParams) { c.Path.SL = 16 },
	} {
		c := p.params()
		wrong(c)
		if _, err := m.Connect(p.now, c); !errors.Is(err, ErrInvalid) {
			t.Errorf("Connect, %s: %v", name, err)
		}
	}
	path := p.params().Path
	for name, r := range map[string]ResolveParams{"response timeout": {Path: path, ResponseTimeout: 32},
		"retries": {Path: path, MaxRetries: 16}, "path": {}} {
		if _, err := m.Resolve(p.now, &r); !errors.Is(err, ErrInvalid) {
			t.Errorf("Resolve, %s: %v", name, err)
		}
	}
	for name, o := range map[string]ListenOptions{"IP version": {Only: 5}, "backlog": {Backlog: -1}, "half-open": {HalfOpen: -1}} {
		if _, err := m.Listen(service, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("Listen, %s: %v", name, err)
		}
	}
	if n, _ := m.Len(); n != 0 || m.PollTimeout() != Never || len(p.lose(0)) != 0 {
		t.Error("something was left behind")
	}
	s := newStage(StateReqRcvd)
	if _, err := s.c.Negotiate(ConnParam{QPN: 1 << 24}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := s.c.Accept(s.now, &AcceptParams{ConnParam: ConnParam{RNRRetryCount: 8}}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := s.c.MRA(s.now, 32); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	s.c.Close(s.now)
	s.c.Close(s.now)
	if _, err := s.c.Negotiate(ConnParam{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	q := newStage(StateSIDRReqRcvd)
	if err := (*Query)(q.c).Answer(q.now, &Answer{QPN: 1 << 24}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestXRC: a REP says the queue pair where others have an EE context (section 9.2).
func TestXRC(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	params := p.params()
	params.Transport = XRC
	a, b := p.connect(params, 0x222)
	if qa, qb := a.QPParams(), b.QPParams(); qa.Transport != XRC || qb.Transport != XRC || qa.DestQPN != 0x222 ||
		qb.DestQPN != params.QPN || !a.theirs.SRQ {
		t.Errorf("%+v\n%+v", qa, qb)
	}
	if (b.sent != nil) || a.sent.Attribute() != wire.CMAttrRTU {
		t.Error("what is kept to be sent again")
	}
}

// TestNegotiation: the lower of what both sides say counts, as initiator and as responder (section
// 9.9).
func TestNegotiation(t *testing.T) {
	for _, c := range []struct {
		activeServes, activeWants, passiveServes, passiveWants uint8 // READs and ATOMICs
		toPassive, toActive                                    uint8 // outstanding in the end
	}{
		{1, 1, 1, 1, 1, 1}, {4, 9, 7, 255, 7, 4}, {255, 255, 255, 255, 16, 16}, {0, 16, 255, 255, 16, 0}, {16, 0, 255, 255, 0, 16},
		{200, 3, 255, 2, 3, 2},
	} {
		p := newPair(t)
		for _, m := range p.m {
			m.cfg.RdAtomic = 16
		}
		p.listen(1, ListenOptions{})
		params := p.params()
		params.ResponderResources, params.InitiatorDepth, params.FlowControl = c.activeServes, c.activeWants, true
		a, err := p.m[0].Connect(p.now, params)
		p.must(err)
		b := p.event(1, EventConnectRequest).Conn
		p.must(b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{
			QPN:                2,
			ResponderResources: c.passiveServes,
			InitiatorDepth:     c.passiveWants,
			SRQ:                true,
		}}))
		if e := p.event(0, EventConnectResponse); !e.Param.SRQ || e.Param.QPN != 2 || e.Param.InitiatorDepth != c.toPassive ||
			e.Param.ResponderResources != c.toActive {
			t.Errorf("%+v: %+v", c, e.Param)
		}
		qa, qb := a.QPParams(), b.QPParams()
		if qa.MaxRdAtomic != c.toPassive || qb.MaxDestRdAtomic < c.toPassive || qb.MaxRdAtomic != c.toActive ||
			qa.MaxDestRdAtomic < c.toActive || !qb.FlowControl || qa.FlowControl {
			t.Errorf("%+v:\n%+v\n%+v", c, qa, qb)
		}
	}
	for _, c := range []struct{ delay, lifetime, want uint8 }{{15, 16, 17}, {16, 16, 18}, {17, 16, 18}, {18, 16, 19}, {20, 16, 20},
		{0, 16, 17}, {31, 31, 31}, {0, 0, 2}} {
		if got := ackTimeout(c.delay, c.lifetime); got != c.want {
			t.Errorf("ack delay %d, lifetime %d: %d, want %d", c.delay, c.lifetime, got, c.want)
		}
	}
}
