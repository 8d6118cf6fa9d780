package qptest

// The peer dies at every step of a transfer: before each of its packets, and after. It vanishes, as
// when the power fails, or its queue pair is reset, destroyed or moved to ERR. Whatever the step,
// every work request of the survivor completes, once and within the time that its retries take; its
// queue pair is in ERR if something could not be done; no byte beside what arrived has changed (the
// oracle looks), and nothing more is sent. If what has vanished is back before the last retry,
// nothing fails at all.
//
// Stages: what is transferred (transfers) → one run counts the packets → one run for each packet,
// and each way to die.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// transfer is work on one connection, of both ends but for XRC.
type transfer struct {
	name  string
	typ   qp.QPType
	kinds []qp.WROpcode
}

var transfers = []transfer{
	{"SEND", qp.RC, []qp.WROpcode{qp.WRSend, qp.WRSendWithImm}},
	{"WRITE", qp.RC, []qp.WROpcode{qp.WRWrite, qp.WRWriteWithImm}},
	{"READ", qp.RC, []qp.WROpcode{qp.WRRead, qp.WRRead}},
	{"atomics", qp.RC, []qp.WROpcode{qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd}},
	{"ATOMIC WRITE", qp.RC, []qp.WROpcode{qp.WRAtomicWrite, qp.WRAtomicWrite}},
	{"FLUSH", qp.RC, []qp.WROpcode{qp.WRWrite, qp.WRFlush, qp.WRAtomicWrite}},
	{"everything", qp.RC, []qp.WROpcode{qp.WRRead, qp.WRSend, qp.WRAtomicFetchAndAdd, qp.WRWriteWithImm, qp.WRFlush}},
	{"UC", qp.UC, []qp.WROpcode{qp.WRSend, qp.WRWrite, qp.WRWriteWithImm}},
	{"XRC", qp.XRCSend, []qp.WROpcode{qp.WRSend, qp.WRRead, qp.WRWriteWithImm}},
}

// manners are ways in which a transfer can go.
var manners = []struct {
	name   string
	change func(p *Plan)
}{
	{"plain", func(*Plan) {}},
	{"selective repeat", func(p *Plan) {
		p.Conns[0].Ends[0].Cfg.Selective, p.Conns[0].Ends[1].Cfg.Selective = true, true
	}},
	{"shared receive queues", func(p *Plan) {
		for i := range p.Conns[0].Ends {
			p.SRQs = append(p.SRQs, SRQPlan{
				Node:   i,
				Init:   qp.SRQInit{MaxWR: 8, MaxSGE: 1},
				Room:   deathSize,
				Pieces: []int{deathSize},
				First:  8,
				Every:  Microsecond,
			})
			p.Conns[0].Ends[i].SRQ = i + 1
		}
	}},
	{"late receives", func(p *Plan) {
		for i := range p.Conns[0].Ends {
			p.Conns[0].Ends[i].RecvFirst, p.Conns[0].Ends[i].RecvEvery = 0, 25*Microsecond
		}
	}},
	{"even packets", func(p *Plan) {
		for i := range p.Nodes {
			p.Nodes[i].MaxRun, p.Nodes[i].Engine.EvenPackets = 16, true
			p.Conns[0].Ends[i].Cfg.RdAtomic, p.Conns[0].Ends[i].Cfg.DestRdAtomic = qp.MaxRdAtomic, qp.MaxRdAtomic
		}
	}},
}

const (
	deathSize  = 600 // bytes of a message: three packets
	deathDelay = 2 * Microsecond
	deathTimer = 6
)

var deathTimeout = qp.Time(wire.AckTimeout(deathTimer)) // 262 us

// plan is the transfer as a world.
func (tr *transfer) plan() *Plan {
	p := &Plan{Seed: 1, Nodes: []NodeConfig{{Addr: "10.1.0.1"}, {Addr: "10.1.0.2"}}, Faults: Faults{Delay: deathDelay}}
	var c ConnPlan
	for i := range c.Ends {
		c.Ends[i] = EndPlan{Node: i, Remote: 8 * deathSize, RecvFirst: 8, RecvEvery: Microsecond,
			Cfg: QPConfig{Type: tr.typ, MTU: wire.MTU256, PSN: wire.PSN(0).Add(uint32(1<<24 - 3)), Timeout: deathTimer, CQE: 64}}
		for k, kind := range tr.kinds {
			o := OpPlan{Kind: kind, Len: deathSize, Flags: qp.SendSignaled, Swap: 0x10002, Local: k * deathSize, Remote: k * deathSize}
			switch kind {
			case qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd, qp.WRAtomicWrite:
				o.Len = 8
			}
			o.Pieces = []int{o.Len}
			c.Ends[i].Ops = append(c.Ends[i].Ops, o)
			c.Ends[i].Recvs = append(c.Ends[i].Recvs, RecvPlan{Off: k * deathSize, Len: deathSize, Pieces: []int{deathSize}})
		}
	}
	if tr.typ == qp.XRCSend {
		c.Ends[1].Cfg.Type = qp.XRCRecv
		c.Ends[0].Recvs, c.Ends[1].Recvs, c.Ends[1].Ops = nil, nil, nil
		p.SRQs = []SRQPlan{{Node: 1, Init: qp.SRQInit{MaxWR: 8, MaxSGE: 1, XRCD: xrcDomain}, Room: deathSize, Pieces: []int{deathSize},
			First: 8, Every: Microsecond}}
	}
	p.Conns = []ConnPlan{c}
	return p
}

// death is how and when.
type death struct {
	at     int     // packets of the transfer that leave before
	whose  int     // the end that dies
	act    ActKind // unless it vanishes
	vanish bool
	back   bool // in time for the last retry
	late   bool // the packet before has arrived
}

func (x *death) String() string {
	if x.vanish {
		return fmt.Sprintf("all vanishes after %d packets, back %v", x.at, x.back)
	}
	return fmt.Sprintf("end %d does act %d after %d packets, late %v", x.whose, x.act, x.at, x.late)
}

// ways are those to die after so many packets.
func ways(at int) []death {
	all := []death{{at: at, vanish: true}, {at: at, vanish: true, back: true}}
	for i, act := range []ActKind{ActError, ActReset, ActDestroy} {
		for who := range 2 {
			all = append(all, death{at: at, whose: who, act: act, late: (at+i+who)%2 == 0})
		}
	}
	return all
}

// run plays the transfer with a death, or to its end, and returns how many packets it took.
func (x *death) run(p *Plan) (packets int, err error) {
	w := NewWorld(p.Seed)
	var conn [2]*player
	died, dead := qp.Never, false
	w.Faults = p.Faults
	w.Faults.Drop = func(*wire.Packet) bool {
		if packets++; x != nil && packets == x.at+1 {
			if died = w.Now; x.vanish {
				dead = true
				if x.back {
					w.After(6*deathTimeout, func() { dead = false })
				}
			} else if x.late {
				w.After(deathDelay+1, func() { conn[x.whose].act(x.act) })
			} else {
				w.After(0, func() { conn[x.whose].act(x.act) })
			}
		}
		return dead
	}
	conn = p.stage(w)[0]
	if err := w.Run(); err != nil {
		return packets, err
	}
	if err := w.AtRest(); err != nil || x == nil {
		return packets, err
	}
	dead = false // the network is back; nobody has anything to say
	if !x.back && w.lastSend > died+9*deathTimeout {
		w.Fail("the last send completed %d ns after the death, all retries take %d", w.lastSend-died, 8*deathTimeout)
	}
	before := packets
	for i, a := range conn {
		if a.gone || !x.vanish && i == x.whose {
			continue
		}
		if err := a.outcome(x.back); err != nil {
			return packets, err
		}
		a.act(ActError) // and gives its receives back
		if a.plan.SRQ == 0 && len(a.plan.Recvs) > 0 && len(a.q.RecvWCs) != a.nextRcv {
			w.Fail("%s: %d completions of %d receives", a.q, len(a.q.RecvWCs), a.nextRcv)
		}
	}
	if err := w.Run(); err != nil {
		return packets, err
	}
	if packets > before {
		w.Fail("%d packets were sent when all was over", packets-before)
	}
	return packets, w.AtRest()
}

// outcome holds what an end that lives on has got against what it posted. Nothing may have failed
// if its peer is alive again.
func (p *player) outcome(again bool) error {
	failed := 0
	for i, wc := range p.q.SendWCs {
		switch {
		case failed > 0 && wc.Status != qp.WCWRFlushErr:
			return fmt.Errorf("%s: completion %d is %q, behind one that failed", p.q, i, wc.Status)
		case failed > 0 || wc.Status != qp.WCSuccess:
			failed++
		}
	}
	if n := len(p.q.SendWCs); n != len(p.plan.Ops) {
		return fmt.Errorf("%s: %d completions of %d sends", p.q, n, len(p.plan.Ops))
	}
	if s := p.q.State(); failed > 0 && (again || s != qp.StateErr) {
		return fmt.Errorf("%s: %d sends have failed, and it is in %v", p.q, failed, s)
	}
	return nil
}

// TestPeerDies kills the peer at each step of each transfer.
func TestPeerDies(t *testing.T) {
	for i := range transfers {
		tr := &transfers[i]
		for _, m := range manners {
			if tr.typ != qp.RC && m.name == "selective repeat" || tr.typ == qp.XRCSend && m.name == "shared receive queues" {
				continue
			}
			t.Run(tr.name+", "+m.name, func(t *testing.T) {
				plan := tr.plan()
				m.change(plan)
				packets, err := (*death)(nil).run(plan)
				if err != nil || packets < 2 {
					t.Fatalf("without a death: %d packets, %v", packets, err)
				}
				for at := range packets {
					for _, x := range ways(at) {
						if _, err := x.run(plan); err != nil {
							t.Fatalf("%v: %v", &x, err)
						}
					}
				}
			})
		}
	}
}
