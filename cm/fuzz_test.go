package cm

// FuzzMachine: any bytes become a story for two machines and a hostile peer, who knows every ID:
// calls, messages that arrive, are lost, doubled or changed, invented messages, time. Nothing may
// panic, what a machine keeps must fit together after every act, and when all is closed and silent
// nothing may be left.

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/wire"
)

// plot reads decisions from bytes; at their end everything is 0.
type plot struct {
	*pair
	data  []byte
	conns []*Conn
	mail  []Message // on its way to the machine of the other parity
}

func (p *plot) byte() int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b)
}

func FuzzMachine(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range 16 {
		b := make([]byte, 30+n*40)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &plot{pair: newPair(t), data: data}
		for _, m := range p.m {
			m.cfg.MaxConns, m.cfg.MaxTimeWait = 20, 10
			for _, s := range services {
				if _, err := m.Listen(s, ListenOptions{Backlog: 3, HalfOpen: 5}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for len(p.data) > 0 {
			p.act()
			p.collect()
		}
		p.finish()
	})
}

// collect takes what the machines give, and checks them.
func (p *plot) collect() {
	for i, m := range p.m {
		for msg := (Message{}); m.PollTransmit(&msg); {
			if len(p.mail) < 64 {
				p.mail = append(p.mail, msg)
			}
		}
		for {
			e, ok := m.PollEvent()
			if !ok {
				break
			}
			if e.Type == EventConnectRequest || e.Type == EventSIDRRequest {
				p.conns = append(p.conns, e.conn())
			}
		}
		if err := m.check(); err != nil {
			p.t.Fatalf("machine %d: %v", i, err)
		}
	}
}

// act does one thing.
func (p *plot) act() {
	side := p.byte() & 1
	m, path := p.m[side], Path{Local: p.gid[side], Remote: p.gid[1-side]}
	switch p.byte() % 8 {
	case 0:
		if c, err := m.Connect(p.now, &ConnectParams{ServiceID: services[p.byte()%3], Path: path, MTU: wire.MTU1024,
			ConnParam: ConnParam{QPN: uint32(p.byte() % 4)}, MaxRetries: uint8(p.byte() % 4)}); err == nil {
			p.conns = append(p.conns, c)
		}
	case 1:
		if q, err := m.Resolve(p.now, &ResolveParams{ServiceID: services[p.byte()%3], Path: path, MaxRetries: 1}); err == nil {
			p.conns = append(p.conns, (*Conn)(q))
		}
	case 2, 3:
		p.call()
	case 4, 5, 6:
		p.deliver()
	case 7:
		p.now += Time(1) << (p.byte() % 40)
		for _, m := range p.m {
			m.HandleTimeout(p.now)
		}
	}
}

// call makes any call on any connection.
func (p *plot) call() {
	if len(p.conns) == 0 {
		return
	}
	c := p.conns[p.byte()%len(p.conns)]
	s := &stage{m: c.m, c: c, now: p.now}
	if on := input(p.byte() % (int(callClose) + 1)); !c.query || on == callAccept || on == callClose {
		_ = s.call(on)
	}
}

// deliver takes a message that is on its way, or one that another was turned into: with bytes
// changed, or with another attribute, so that its IDs are somebody's.
func (p *plot) deliver() {
	if len(p.mail) == 0 {
		return
	}
	i, how := p.byte()%len(p.mail), p.byte()
	msg := p.mail[i]
	for range how >> 4 & 3 {
		msg.MAD[p.byte()] = byte(p.byte())
	}
	if how>>6 == 3 {
		msg.MAD[17] = byte(int(wire.CMAttrREQ) + p.byte()%numAttributes)
	}
	if how&1 == 0 {
		p.mail = append(p.mail[:i], p.mail[i+1:]...)
	}
	for j, m := range p.m {
		if p.gid[j] == msg.Path.Remote {
			from := Path{Local: msg.Path.Remote, Remote: msg.Path.Local}
			m.HandleMAD(p.now, from, msg.MAD[:wire.MADLen-how&2])
		}
	}
}

// finish closes everything, and waits.
func (p *plot) finish() {
	for _, c := range p.conns {
		c.Close(p.now)
	}
	for range 2000 {
		p.collect()
		next := min(p.m[0].PollTimeout(), p.m[1].PollTimeout())
		if next == Never {
			break
		}
		p.now = max(p.now, next)
		for _, m := range p.m {
			m.HandleTimeout(p.now)
		}
	}
	for i, m := range p.m {
		if len(m.conns)+len(m.byPeer)+len(m.byQPN)+len(m.timers) != 0 {
			p.t.Fatalf("machine %d: %d connections, %d and %d in the indexes, %d deadlines are left", i,
				len(m.conns), len(m.byPeer), len(m.byQPN), len(m.timers))
		}
	}
}
