package cm

import "fmt"

// check holds everything that a machine keeps against everything else that it keeps.
func (m *Machine) check() error {
	held, armed := 0, 0
	owed := map[*Listener][3]int{}
	for id, c := range m.conns {
		t := traits[c.state]
		switch {
		case c.localID != id || id == 0:
			return fmt.Errorf("0x%x stands under 0x%x", c.localID, id)
		case c.state == StateIdle:
			return fmt.Errorf("0x%x is idle, and not forgotten", id)
		case (c.held != nil) != (t.wait == waitEnd):
			return fmt.Errorf("0x%x in %v: remembered: %v", id, c.state, c.held != nil)
		case (c.deadline != Never) != (t.wait != waitNothing):
			return fmt.Errorf("0x%x in %v has the deadline %v", id, c.state, c.deadline)
		case (c.timer != 0) != (c.deadline != Never):
			return fmt.Errorf("0x%x in %v stands at %d of the timers", id, c.state, c.timer)
		case t.owes == owesNobody && c.listener != nil:
			return fmt.Errorf("0x%x in %v has a listener", id, c.state)
		case (c.open != nil) != (t.owes != owesNobody && c.listener != nil) ||
			(c.asked != nil) != (c.open != nil && t.owes == owesApplication):
			return fmt.Errorf("0x%x in %v has places: %v, %v", id, c.state, c.open != nil, c.asked != nil)
		case c.passive && m.byPeer[c.peer] != c:
			return fmt.Errorf("0x%x in %v is not known by its peer's ID", id, c.state)
		case c.peer != (peerID{}) && !c.query && (m.byQPN[c.peerQPN()] == c) == (c.state == StateRefused):
			return fmt.Errorf("0x%x in %v: known by its peer's queue pair: %v", id, c.state, m.byQPN[c.peerQPN()] == c)
		case (t.wait == waitAnswer || t.wait == waitService) && c.sent == nil:
			return fmt.Errorf("0x%x in %v has nothing to send again", id, c.state)
		}
		if c.held != nil {
			held++
		}
		if c.timer != 0 {
			armed++
		}
		if c.listener != nil {
			o := owed[c.listener]
			o[t.owes]++
			owed[c.listener] = o
		}
	}
	if held != m.held.Len() || held > m.cfg.MaxTimeWait || len(m.conns)-held > m.cfg.MaxConns {
		return fmt.Errorf("%d connections, %d of them remembered, %d in the list", len(m.conns), held, m.held.Len())
	}
	if armed != len(m.timers) {
		return fmt.Errorf("%d connections have deadlines, %d are among the timers", armed, len(m.timers))
	}
	for i, c := range m.timers {
		if c.timer != i+1 || i > 0 && m.timers[(i-1)/2].deadline > c.deadline {
			return fmt.Errorf("the timers are no heap at %d", i)
		}
	}
	for l, o := range owed {
		if o[owesApplication] != l.asked.Len() || o[owesApplication]+o[owesPeer] != l.open.Len() || o[owesApplication] > l.backlog ||
			o[owesApplication]+o[owesPeer] > l.halfOpen {
			return fmt.Errorf("a listener reckons with %d requests, %d for the application, and has %v", l.open.Len(), l.asked.Len(), o)
		}
	}
	return m.checkIndexes()
}

// checkIndexes holds what connections are found by against the connections.
func (m *Machine) checkIndexes() error {
	for p, c := range m.byPeer {
		if c.peer != p || m.conns[c.localID] != c {
			return fmt.Errorf("%v finds 0x%x in %v, which is not it", p, c.localID, c.state)
		}
	}
	for q, c := range m.byQPN {
		if c.peerQPN() != q || m.conns[c.localID] != c || c.state == StateRefused {
			return fmt.Errorf("%v finds 0x%x in %v, which is not it", q, c.localID, c.state)
		}
	}
	return nil
}
