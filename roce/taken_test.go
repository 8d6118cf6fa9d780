package roce

// Memory that is taken back from a peer: docs/rocev2.md, section 7.7. The ways that the engine has
// are in qp/qptest; here is what takes an application's calls.

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// TestTakenBackAfterFailure: a queue pair that has failed because of a request goes on answering
// the READs from before, for as long as they take. An application that moves it to ERR ends that,
// also if it is there already: what it writes afterwards is its own.
func TestTakenBackAfterFailure(t *testing.T) {
	open := func() *Device { // a window so large that our requester does not wait for the READ
		d, err := Open("pipe:after-err", &Config{NoBackground: true, Window: 1 << 20})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return d
	}
	const size = 16 << 20
	a, b := newEnd(t, open(), RC, size), newEnd(t, open(), RC, size)
	one := DefaultConnectOptions()
	one.MaxRdAtomic = 1 // so the READ is one request, which the WRITE follows at once
	must(t, a.qp.Connect(bg, b.qp.Endpoint(), &one))
	must(t, b.qp.Connect(bg, a.qp.Endpoint(), nil))
	must(t, a.qp.PostSend(
		SendWR{WRID: 1, Opcode: WRRead, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		SendWR{WRID: 2, Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}))
	var wcs [8]WC
	poll := func(e *end) int {
		n, err := e.cq.Poll(wcs[:])
		must(t, err)
		return n
	}
	for range 100 {
		if poll(a); b.qp.State() == StateErr {
			break
		}
		poll(b)
	}
	if b.qp.State() != StateErr {
		t.Fatal("the wrong key has not made it fail")
	}
	must(t, b.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState))
	copy(b.buf, bytes.Repeat([]byte("SECRET.."), size/8)) // after Modify(ERR) has returned
	for range 100000 {
		poll(b)
		if n := poll(a); n > 0 {
			if wcs[0].Status == WCSuccess {
				t.Errorf("the READ has succeeded: %+v", wcs[0])
			}
			break
		}
	}
	if n := bytes.Count(a.buf, []byte("SECRET..")) * 8; n > 0 {
		t.Errorf("%d bytes that were written after Modify(ERR) had returned went to the peer", n)
	}
}

// fullPort takes no frames while it is full.
type fullPort struct {
	transport.Port
	full          bool
	refused, took int
}

func (p *fullPort) Send(b *wire.Batch) (int, error) {
	if p.full {
		p.refused += b.Len()
		return 0, nil
	}
	n, err := p.Port.Send(b)
	p.took += n
	return n, err
}

// TestTakenBackBehindFullPort: packets that were made before memory was taken back, and that the
// port had no room for, are copies. They leave later, with what memory held then.
func TestTakenBackBehindFullPort(t *testing.T) {
	for name, take := range map[string]func(e *end) error{
		"Modify(ERR)": func(e *end) error { return e.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState) },
		"RESET":       func(e *end) error { return e.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState) },
		"rights":      func(e *end) error { return e.qp.Modify(bg, &QPAttr{}, AttrAccessFlags) },
		"QP.Close":    func(e *end) error { return e.qp.Close() },
		"MR.Close":    func(e *end) error { return e.mr.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var port *fullPort // b's is the later one
			open := func() *Device {
				d, err := Open(fmt.Sprintf("pipe:full-%s", name), &Config{NoBackground: true, Wrap: func(p transport.Port) transport.Port {
					port = &fullPort{Port: p}
					return port
				}})
				must(t, err)
				t.Cleanup(func() { must(t, d.Close()) })
				return d
			}
			const size = 1 << 20
			a, b := newEnd(t, open(), RC, size), newEnd(t, open(), RC, size)
			connect(t, a, b)
			must(t, a.qp.PostSend(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}))
			var wcs [8]WC
			poll := func(e *end) {
				_, err := e.cq.Poll(wcs[:])
				must(t, err)
			}
			for port.full = true; port.refused == 0; {
				poll(a)
				poll(b)
			}
			must(t, take(b))
			copy(b.buf, bytes.Repeat([]byte("SECRET.."), size/8))
			for port.full = false; port.took == 0; {
				poll(b)
			}
			for range 1000 {
				poll(b)
				poll(a)
			}
			if n := bytes.Count(a.buf, []byte("SECRET..")) * 8; n > 0 {
				t.Errorf("%d bytes went to the peer that were written after the memory had been taken back", n)
			}
		})
	}
}
