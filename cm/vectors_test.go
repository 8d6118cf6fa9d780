package cm

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/goroce/goroce/wire"
)

// vectors are the MADs of testdata/cm_vectors.json, by name: what a kernel sends, field by field.
func vectors(t *testing.T) map[string]*wire.MAD {
	t.Helper()
	text, err := os.ReadFile("../testdata/cm_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Messages []struct {
			Msg    string `json:"msg"`
			MADHex string `json:"mad_hex"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	mads := map[string]*wire.MAD{}
	for _, m := range file.Messages {
		b, err := hex.DecodeString(m.MADHex)
		if err != nil || len(b) != wire.MADLen {
			t.Fatalf("%s: %d bytes, %v", m.Msg, len(b), err)
		}
		mads[m.Msg] = (*wire.MAD)(b)
	}
	return mads
}

// dealt is random numbers that are known beforehand.
func dealt(numbers ...uint64) func() uint64 {
	return func() uint64 {
		n := numbers[0]
		numbers = numbers[1:]
		return n
	}
}

// The two sides of the vectors: addresses, and what a machine draws: the upper half of its
// transaction IDs, the first PSN, the communication ID.
var (
	vectorActive = Path{
		Local:     wire.GID{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 1},
		Remote:    wire.GID{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 2},
		FlowLabel: 0x3090e,
	}
	vectorPassive = Path{Local: vectorActive.Remote, Remote: vectorActive.Local}
)

// sends wants the machine to send exactly a vector, but for the transaction ID if it is one of its
// own.
func sends(t *testing.T, m *Machine, want *wire.MAD, tid uint64) {
	t.Helper()
	var got Message
	if !m.PollTransmit(&got) {
		t.Fatalf("no %v was sent", want.Attribute())
	}
	expect := *want
	expect.SetTransactionID(tid)
	if got.MAD != expect {
		t.Errorf("sent %s\n%x\nwant %s\n%x", wire.AppendMAD(nil, &got.MAD), got.MAD, wire.AppendMAD(nil, &expect), expect)
	}
	if m.PollTransmit(&got) {
		t.Errorf("sent too: %s", wire.AppendMAD(nil, &got.MAD))
	}
}

// hears wants an event.
func hears(t *testing.T, m *Machine, want EventType) Event {
	t.Helper()
	e, ok := m.PollEvent()
	if !ok || e.Type != want {
		t.Fatalf("event %v (%v), want %v", e.Type, ok, want)
	}
	return e
}

// vectorConnect is what the active side of the vectors asks for.
func vectorConnect() *ConnectParams {
	return &ConnectParams{ServiceID: service, Path: vectorActive, SrcPort: 40001, MTU: wire.MTU1024, Private: []byte("PRIV"),
		ConnParam: ConnParam{QPN: 0x123, ResponderResources: 1, InitiatorDepth: 2, RetryCount: 7, RNRRetryCount: 7}}
}

// TestVectorsActive: the active side sends REQ, RTU and DREQ of the vectors, to the bit, and
// understands REP and DREP.
func TestVectorsActive(t *testing.T) {
	v := vectors(t)
	m := New(Config{Rand: dealt(0, 0xabcdef, 0x11223344), CAGUID: 0x020000fffe000001})
	c, err := m.Connect(0, vectorConnect())
	if err != nil {
		t.Fatal(err)
	}
	sends(t, m, v["REQ"], 0x11223344)
	m.HandleMAD(1, vectorActive, v["REP"][:])
	e := hears(t, m, EventConnectResponse)
	if string(e.Private[:8]) != "REPPRIV\x00" || len(e.Private) != MaxPrivateREP || c.RemoteID() != 0x55667788 {
		t.Errorf("%+v %x", e, c.RemoteID())
	}
	q := c.QPParams()
	if q.DestQPN != 0x456 || q.SQPSN != 0x123456 || q.RQPSN != 0xabcdef || q.MaxRdAtomic != 2 || q.MaxDestRdAtomic != 1 ||
		q.RNRRetry != 7 || q.Timeout != 17 {
		t.Errorf("%+v", q)
	}
	if err := c.Establish(2, nil); err != nil {
		t.Fatal(err)
	}
	sends(t, m, v["RTU"], 0x11223344)
	if err := c.Disconnect(3, nil); err != nil {
		t.Fatal(err)
	}
	sends(t, m, v["DREQ"], 0x11223344)
	m.HandleMAD(4, vectorActive, v["DREP"][:])
	hears(t, m, EventDisconnected)
}

// TestVectorsPassive: the passive side understands REQ, RTU and DREQ of the vectors, and sends REP
// and DREP, or the REJ.
func TestVectorsPassive(t *testing.T) {
	v := vectors(t)
	accepting := New(Config{Rand: dealt(0, 0x123456, 0x55667788), CAGUID: 0x020000fffe000002})
	rejecting := New(Config{Rand: dealt(0, 0x123456, 0x55667788)})
	for _, m := range []*Machine{accepting, rejecting} {
		if _, err := m.Listen(service, ListenOptions{Address: vectorPassive.Local}); err != nil {
			t.Fatal(err)
		}
		m.HandleMAD(1, vectorPassive, v["REQ"][:])
	}
	e := hears(t, rejecting, EventConnectRequest)
	if string(e.Private[:5]) != "PRIV\x00" || e.Header.SrcPort != 40001 || e.Header.Src != vectorActive.Local ||
		e.Header.Dst != vectorActive.Remote {
		t.Errorf("%+v", e)
	}
	if err := e.Conn.Reject(2, wire.CMRejConsumer, nil, nil); err != nil {
		t.Fatal(err)
	}
	sends(t, rejecting, v["REJ"], v["REQ"].TransactionID())

	m, c := accepting, hears(t, accepting, EventConnectRequest).Conn
	p := AcceptParams{ConnParam: ConnParam{QPN: 0x456, ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 7},
		Private: []byte("REPPRIV")}
	before, err := c.Negotiate(p.ConnParam)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Accept(2, &p); err != nil {
		t.Fatal(err)
	}
	sends(t, m, v["REP"], v["REP"].TransactionID())
	want := QPParams{Path: Path{
		Local:     vectorPassive.Local,
		Remote:    vectorPassive.Remote,
		HopLimit:  64,
		FlowLabel: 0x3090e,
	}, PathMTU: wire.MTU1024,
		DestQPN: 0x123, RQPSN: 0x123456, SQPSN: 0xabcdef, MaxDestRdAtomic: 2, MaxRdAtomic: 1, Timeout: 17, RetryCnt: 7, RNRRetry: 7}
	if q := c.QPParams(); q != want || before != want {
		t.Errorf("%+v\n%+v\nwant %+v", q, before, want)
	}
	m.HandleMAD(3, vectorPassive, v["RTU"][:])
	hears(t, m, EventEstablished)
	m.HandleMAD(4, vectorPassive, v["DREQ"][:])
	hears(t, m, EventDisconnected)
	if err := c.Disconnect(5, nil); err != nil {
		t.Fatal(err)
	}
	sends(t, m, v["DREP"], v["DREQ"].TransactionID())
}
