package cm

import (
	"testing"

	"github.com/goroce/goroce/wire"
)

// TestOptions: what both ends of this stack can do beyond the standard is agreed to, and nothing
// with an older end, another stack, or a NIC with options of its own.
func TestOptions(t *testing.T) {
	says := func(bits uint32) func(*wire.MAD) { return func(m *wire.MAD) { m.SetAttributeModifier(bits) } }
	vendor := func(at int) func(*wire.MAD) { return func(m *wire.MAD) { m[at] = 1 } }
	const ofREQ, ofREP = 24 + 7, 24 + 23 // the low byte of the vendor ID (section 9.2)
	none, short, both := ConnParam{}, ConnParam{SelectiveRepeat: true}, ConnParam{SelectiveRepeat: true, LongWindow: true}
	for _, c := range []struct {
		name            string
		active, passive ConnParam
		req, rep        func(*wire.MAD) // what becomes of the messages
		a, b            ConnParam       // what is agreed to, as each end sees it
		repSays         uint32
	}{
		{"both", both, both, nil, nil, both, both, 0x676f7283},
		{"one without long windows", both, short, nil, nil, short, short, 0x676f7281},
		{"the other without", short, both, nil, nil, short, short, 0x676f7281},
		{"the active side does not want to", none, both, nil, nil, none, none, 0},
		{"the passive side does not want to", both, none, nil, nil, none, none, 0},
		{"an older active side", none, both, says(0), nil, none, none, 0},
		{"an older passive side", both, none, nil, says(0), none, none, 0},
		{"a NIC asks", none, both, says(0x20000001), nil, none, none, 0},
		{"a vendor asks in our words", both, both, vendor(ofREQ), nil, none, none, 0},
		{"a NIC answers", both, none, nil, says(0x20000001), none, none, 0},
		{"a vendor answers in our words", both, both, nil, vendor(ofREP), none, both, 0x676f7283},
		{"more is answered than was asked", none, none, nil, says(0x676f7283), none, none, 0},
		{"a newer active side", both, both, says(0x676f727f), nil, both, both, 0x676f7283},
		{"the answer is made of the request", both, none, nil, says(0x676f7203), none, none, 0},
		{"other words", both, both, says(0x676f7303), nil, none, none, 0},
	} {
		p := newPair(t)
		if _, err := p.m[1].Listen(service, ListenOptions{}); err != nil {
			t.Fatal(err)
		}
		params := p.params()
		params.SelectiveRepeat, params.LongWindow = c.active.SelectiveRepeat, c.active.LongWindow
		a, err := p.m[0].Connect(p.now, params)
		if err != nil {
			t.Fatal(err)
		}
		p.bring(0, c.req)
		b := p.event(1, EventConnectRequest).Conn
		own := ConnParam{QPN: 0x222, SelectiveRepeat: c.passive.SelectiveRepeat, LongWindow: c.passive.LongWindow}
		before, err := b.Negotiate(own)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Accept(p.now, &AcceptParams{ConnParam: own}); err != nil {
			t.Fatal(err)
		}
		if rep := p.bring(1, c.rep); rep != c.repSays {
			t.Errorf("%s: the REP says 0x%x, want 0x%x", c.name, rep, c.repSays)
		}
		p.event(0, EventConnectResponse)
		for i, q := range []QPParams{a.QPParams(), before, b.QPParams()} {
			want := []ConnParam{c.a, c.b, c.b}[i]
			if q.SelectiveRepeat != want.SelectiveRepeat || q.LongWindow != want.LongWindow {
				t.Errorf("%s: %d: selective repeat %v and long windows %v, want %+v", c.name, i, q.SelectiveRepeat, q.LongWindow, want)
			}
		}
	}
}

// bring carries one message from a machine to the other, through what changes it, and returns the
// option bits that it left with.
func (p *pair) bring(from int, change func(*wire.MAD)) uint32 {
	p.t.Helper()
	var msg Message
	if !p.m[from].PollTransmit(&msg) {
		p.t.Fatalf("machine %d sends nothing", from)
	}
	bits := msg.MAD.AttributeModifier()
	if change != nil {
		change(&msg.MAD)
	}
	p.m[1-from].HandleMAD(p.now, Path{Local: p.gid[1-from], Remote: p.gid[from]}, msg.MAD[:])
	return bits
}
