package qptest

// Nodes with several addresses, some rows of whose GID tables are empty, and datagrams to groups,
// of which a queue pair may be in several, the sender too.
//
// Stages: the rows of a node; which a plan gives to connections; groups; how a player uses them.

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// rowsOf are the rows of a node's GID table: its address, and more; "" is an empty row.
func rowsOf(cfg NodeConfig) (rows []wire.GID) {
	for _, text := range append([]string{cfg.Addr}, cfg.More...) {
		var g wire.GID
		if text != "" {
			g = wire.GIDFrom(netip.MustParseAddr(text))
		}
		rows = append(rows, g)
	}
	return rows
}

// SetGIDs gives the node another GID table.
func (n *Node) SetGIDs(rows ...wire.GID) {
	n.GIDs = rows
	n.Control(func() error { n.Engine.SetGIDs(rows); return nil })
}

// GID is the address that the queue pair sends from.
func (q *QP) GID() wire.GID { return q.Node.GIDs[q.Cfg.Row] }

// groups are those of the plans: two of each IP version.
var groups = func() (list []wire.GID) {
	for _, text := range []string{"239.1.1.1", "239.129.1.1", "ff15::1:1", "ff05::1:1"} {
		list = append(list, wire.GIDFrom(netip.MustParseAddr(text)))
	}
	return list
}()

// drawRows gives a world more addresses, and its datagrams groups.
func (p *Plan) drawRows(d Dice) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		four, six := fmt.Sprintf("10.2.0.%d", i+1), fmt.Sprintf("fe80::%d", i+1)
		n.More = []string{"", four, six, fmt.Sprintf("10.3.0.%d", i+1)}
	}
	for i := range p.Conns {
		c := &p.Conns[i]
		row := Pick[uint8](d, 0, 2, 3, 4)
		for j := range c.Ends {
			e := &c.Ends[j]
			if e.Cfg.Row = row; row == 4 && d.Chance(0.5) {
				e.Cfg.Row = 2 // the ends' rows need not be the same
			}
			if e.Cfg.Type == qp.UD {
				e.drawGroups(d, rowsOf(p.Nodes[e.Node])[e.Cfg.Row].Is4())
			}
		}
	}
}

// drawGroups chooses the groups that an end is in, and datagrams that go to one.
func (e *EndPlan) drawGroups(d Dice, four bool) {
	e.Groups = uint8(d.IntN(1 << len(groups)))
	for i := range e.Ops {
		if o := &e.Ops[i]; d.Chance(0.3) {
			o.Group = 1 + d.IntN(2)
			if !four {
				o.Group += 2
			}
		}
	}
}

// attach attaches the queue pair to its groups, and makes handles to send to all that it can.
func (p *player) attach() {
	n := p.q.Node
	p.q.Groups = map[wire.GID]bool{}
	for i, g := range groups {
		if p.plan.Groups&(1<<i) != 0 {
			n.Control(func() error { return n.Engine.AttachMulticast(p.q.QP, g) })
			p.q.Groups[g] = true
			n.JoinOnce(g)
		}
		if g.Is4() == p.q.GID().Is4() {
			n.Control(func() (err error) {
				p.groups[i], err = n.Engine.CreateAH(n.PD, qp.AHAttr{
					DGID:         g,
					SGIDIndex:    p.q.Cfg.Row,
					TrafficClass: p.q.Cfg.TrafficClass,
				})
				return err
			})
		}
	}
}
