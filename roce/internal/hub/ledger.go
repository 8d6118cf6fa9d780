package hub

// What the messages of the connection manager that a process has sent and received say of its
// connections, so that their peers can be told when it has ended without a word. Hub and process
// keep one each: a new hub knows nothing until the processes tell it.
//
// Stages: what is kept; messages out; messages in; what is left.

import (
	"cmp"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// Ledger is that of a process. It is for one goroutine at a time.
type Ledger struct {
	conns map[uint32]*entry // by the process's communication ID
	asked map[request]uint32
	peers map[request]uint32 // of connections: the process's ID
}

// entry is a connection; RemoteID is 0 until the peer has accepted.
type entry struct {
	cm.Estate
	leaves int // how often the process has sent its DREQ
}

// request is a peer's REQ that is not answered, whose queue pair asked has.
type request struct {
	from wire.GID
	id   uint32
}

const (
	// maxAsked is how many requests are kept. One that goes for others costs its peer the word that
	// its connection is over, if the process is killed.
	maxAsked = 1 << 16
	// maxLeaves is how often a DREQ is sent: once, and 15 times again.
	maxLeaves = 16
)

// NewLedger is an empty one.
func NewLedger() *Ledger {
	return &Ledger{conns: map[uint32]*entry{}, asked: map[request]uint32{}, peers: map[request]uint32{}}
}

// Len is how many connections there are, or are being made.
func (l *Ledger) Len() int { return len(l.conns) }

// Sent takes in what the process sends.
func (l *Ledger) Sent(p *cm.Path, m *wire.MAD) {
	said, err := wire.ParseCM(m)
	if err != nil {
		return
	}
	switch said := said.(type) {
	case *wire.CMReq:
		if l.conns[said.LocalCommID] == nil {
			l.Take(&cm.Estate{Path: *p, LocalID: said.LocalCommID, LocalQPN: said.LocalQPN})
		}
	case *wire.CMRep:
		if l.conns[said.LocalCommID] != nil {
			break
		}
		from := request{p.Remote, said.RemoteCommID}
		l.Take(&cm.Estate{Path: *p, LocalID: said.LocalCommID, RemoteID: said.RemoteCommID,
			LocalQPN: cmp.Or(said.LocalQPN, said.LocalEECN), RemoteQPN: l.asked[from]})
		delete(l.asked, from)
	case *wire.CMDreq:
		if e := l.conns[said.LocalCommID]; e != nil {
			if e.leaves++; e.leaves == maxLeaves {
				l.forget(said.LocalCommID)
			}
		}
	case *wire.CMRej:
		l.forget(said.LocalCommID)
		delete(l.asked, request{p.Remote, said.RemoteCommID})
	case *wire.CMDrep:
		l.forget(said.LocalCommID)
	}
}

// forget ends a connection.
func (l *Ledger) forget(id uint32) {
	if e := l.conns[id]; e != nil {
		if r := (request{e.Path.Remote, e.RemoteID}); l.peers[r] == id {
			delete(l.peers, r)
		}
		delete(l.conns, id)
	}
}

// Received takes in what comes for the process.
func (l *Ledger) Received(from *cm.Path, m *wire.MAD) {
	said, err := wire.ParseCM(m)
	if err != nil {
		return
	}
	switch said := said.(type) {
	case *wire.CMReq:
		if len(l.asked) >= maxAsked {
			for other := range l.asked {
				delete(l.asked, other)
				break
			}
		}
		if r := (request{from.Remote, said.LocalCommID}); l.peers[r] == 0 { // else it is a copy
			l.asked[r] = said.LocalQPN
		}
	case *wire.CMRep:
		if e := l.of(from, said.RemoteCommID); e != nil && e.RemoteID == 0 {
			e.RemoteID, e.RemoteQPN = said.LocalCommID, cmp.Or(said.LocalQPN, said.LocalEECN)
			l.peers[request{from.Remote, e.RemoteID}] = e.LocalID
		}
	case *wire.CMRej:
		l.over(from, said.RemoteCommID, said.LocalCommID)
	case *wire.CMDrep:
		l.over(from, said.RemoteCommID, said.LocalCommID)
	}
}

// of is the connection that a peer can speak of.
func (l *Ledger) of(from *cm.Path, id uint32) *entry {
	if e := l.conns[id]; e != nil && e.Path.Remote == from.Remote {
		return e
	}
	return nil
}

// over ends one, whose peer says so.
func (l *Ledger) over(from *cm.Path, id, remote uint32) {
	if e := l.of(from, id); e != nil && (e.RemoteID == 0 || e.RemoteID == remote) {
		l.forget(id)
	}
}

// HasPeer tells whether the process knows the request of a peer, by the peer's communication ID:
// then it knows the copies too.
func (l *Ledger) HasPeer(from wire.GID, id uint32) bool {
	r := request{from, id}
	_, asked := l.asked[r]
	_, met := l.peers[r]
	return asked || met
}

// Take adds a connection, unless there is one of that ID.
func (l *Ledger) Take(e *cm.Estate) {
	if l.conns[e.LocalID] != nil {
		return
	}
	l.conns[e.LocalID] = &entry{Estate: *e}
	if e.RemoteID != 0 {
		l.peers[request{e.Path.Remote, e.RemoteID}] = e.LocalID
	}
}

// Learn adds what was known to another hub.
func (l *Ledger) Learn(k *Known) {
	for i := range k.Estates {
		l.Take(&k.Estates[i])
	}
	for _, r := range k.Asked {
		if len(l.asked) < maxAsked {
			l.asked[request{r.From, r.ID}] = r.QPN
		}
	}
}

// All is what there is, for another hub.
func (l *Ledger) All() (k Known) {
	for _, e := range l.conns {
		k.Estates = append(k.Estates, e.Estate)
	}
	for r, qpn := range l.asked {
		k.Asked = append(k.Asked, Request{r.from, r.id, qpn})
	}
	return k
}

// Estates are the connections whose peers believe in them.
func (l *Ledger) Estates() (left []cm.Estate) {
	for _, e := range l.conns {
		if e.RemoteID != 0 {
			left = append(left, e.Estate)
		}
	}
	return left
}
