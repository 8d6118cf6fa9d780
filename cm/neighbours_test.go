package cm

// Neighbours of the simulated world who mean no good. One kind floods listeners from addresses of
// its own, and never says the last word. The other forges messages in the names of devices, but
// sees none of theirs, so that of what is secret it can only guess.
// Stages: the flood → forgeries → what nobody may lose by them.

import (
	"github.com/goroce/goroce/wire"
)

// bother has the neighbours of a world send for a while.
func (w *world) bother() {
	within := func(t Time) Time { return Time(w.rnd.Int64N(int64(t))) }
	if w.flood {
		victim, service := w.devices[w.rnd.IntN(len(w.devices))], services[w.rnd.IntN(len(services))]
		for range 1 + w.rnd.IntN(3) {
			gid := w.gid(50 + len(w.floods))
			if w.v6 && w.chance(0.5) {
				gid[7] = byte(50 + len(w.floods)) // in another network
			}
			w.floods = append(w.floods, gid)
			for range 10 + w.rnd.IntN(40) {
				w.in(within(5*second), func() { w.floodWith(gid, victim, service) })
			}
		}
	}
	if w.forge {
		for range 10 + w.rnd.IntN(40) {
			w.in(within(10*second), w.forgery)
		}
	}
}

// floodWith sends one message of a flood: mostly requests, and answers to nothing.
func (w *world) floodWith(gid wire.GID, to *device, service uint64) {
	id := w.rnd.Uint32() | 1
	path := Path{Local: gid, Remote: to.gid}
	switch w.rnd.IntN(8) {
	case 0:
		w.query(path, id, service)
	case 1:
		w.strike(path, w.guess(id, w.rnd.Uint32()))
	default:
		w.request(path, w.rnd.Uint64(), id, w.rnd.Uint32()&0xffffff, service)
	}
}

// floodHears is what a flood does with an answer: it asks for time.
func (w *world) floodHears(path Path, mad *wire.MAD) {
	var rep wire.CMRep
	if wire.GetCM(mad, &rep) == nil && w.chance(0.5) {
		w.strike(Path{Local: path.Remote, Remote: path.Local},
			&wire.CMMra{LocalCommID: rep.RemoteCommID, RemoteCommID: rep.LocalCommID, MessageMRAed: wire.CMWhichREP, ServiceTimeout: 31})
	}
}

// forgery is one message in the name of a device. Of a connection that is in use one of the two IDs
// may be guessed, or the queue pair, but not both IDs.
func (w *world) forgery() {
	to, as := w.devices[w.rnd.IntN(len(w.devices))], w.devices[w.rnd.IntN(len(w.devices))]
	path := Path{Local: as.gid, Remote: to.gid}
	id, ours, qpn := w.rnd.Uint32()|1, w.rnd.Uint32(), w.rnd.Uint32()&0xffffff
	if e := w.inUse(to, as); e != nil {
		switch w.rnd.IntN(3) {
		case 0:
			id = e.c.remoteID
		case 1:
			ours = e.c.localID
		}
		if w.chance(0.5) {
			qpn = e.c.theirs.QPN
		}
	}
	switch service := append(services, nobody)[w.rnd.IntN(len(services)+1)]; w.rnd.IntN(4) {
	case 0:
		w.query(path, id, service)
	case 1:
		w.request(path, as.guid, id, qpn, service)
	case 2: // as one that gives up does before it knows the other's ID
		rej := &wire.CMRej{LocalCommID: id, Reason: wire.CMRejTimeout, ARILen: 8}
		for i := range 8 {
			rej.ARI[i] = byte(as.guid >> (56 - 8*i))
		}
		w.strike(path, rej)
	default:
		w.strike(path, w.guess(id, ours))
	}
}

// inUse is an established connection of a device with another; nil if there is none.
func (w *world) inUse(d, with *device) *end {
	for _, e := range w.ends {
		if e.d == d && !e.dead && e.c.path.Remote == with.gid && e.c.state == StateEstablished {
			return e
		}
	}
	return nil
}

// guess is a message of a connection with these IDs, which ends it if both are right.
func (w *world) guess(id, ours uint32) wire.CMMessage {
	switch w.rnd.IntN(5) {
	case 0:
		return &wire.CMDreq{LocalCommID: id, RemoteCommID: ours}
	case 1:
		return &wire.CMDrep{LocalCommID: id, RemoteCommID: ours}
	case 2:
		return &wire.CMRej{LocalCommID: id, RemoteCommID: ours, Reason: wire.CMRejReason(1 + w.rnd.IntN(30))}
	case 3:
		return &wire.CMRep{LocalCommID: id, RemoteCommID: ours, LocalQPN: w.rnd.Uint32() & 0xffffff}
	}
	return &wire.CMMra{LocalCommID: id, RemoteCommID: ours, ServiceTimeout: 31}
}

// nobodys is the attempt that a neighbour's requests name.
var nobodys = []byte{0xff, 0xff, 0xff, 0xff}

func (w *world) request(path Path, guid uint64, id, qpn uint32, service uint64) {
	req := &wire.CMReq{ServiceID: service, LocalCommID: id, LocalQPN: qpn, LocalCAGUID: guid, PartitionKey: defaultPKey,
		PathMTU: wire.MTU1024, LocalCMResponseTimeout: 20, MaxCMRetries: 15, Primary: wire.CMPath{
			LocalGID:        path.Local,
			RemoteGID:       path.Remote,
			LocalAckTimeout: 17,
		}}
	_ = putPrivate(req.PrivateData[:], service, 9, path, nobodys)
	w.strike(path, req)
}

func (w *world) query(path Path, id uint32, service uint64) {
	req := &wire.CMSidrReq{RequestID: id, PartitionKey: defaultPKey, ServiceID: service}
	_ = putPrivate(req.PrivateData[:], service, 9, path, nobodys)
	w.strike(path, req)
}

// strike brings a neighbour's message to where it goes.
func (w *world) strike(path Path, msg wire.CMMessage) {
	w.strikes++
	b := mad(w.rnd.Uint64(), msg)
	w.note("a neighbour as %v: %s", path.Local, wire.AppendMAD(nil, b))
	w.arrive(path, b)
}

// isFlood says whether an address is a flood's.
func (w *world) isFlood(gid wire.GID) bool {
	for _, f := range w.floods {
		if f == gid {
			return true
		}
	}
	return false
}

// holdings are the places of a device's listeners, counted anew: of each address those that wait
// for the application, and all.
func (d *device) holdings() map[*Listener]map[wire.GID][2]int {
	has := map[*Listener]map[wire.GID][2]int{}
	for _, c := range d.m.conns {
		if l := c.listener; l != nil {
			if has[l] == nil {
				has[l] = map[wire.GID][2]int{}
			}
			n := has[l][c.path.Remote]
			if n[1]++; traits[c.state].owes == owesApplication {
				n[0]++
			}
			has[l][c.path.Remote] = n
		}
	}
	return has
}

// takes gives a device a message, and holds what it does with its places against the shares: of n
// sources none is turned away, and none loses a place by another's message, that has less than half
// an n-th of them.
func (w *world) takes(d *device, from Path, mad *wire.MAD) {
	if !w.flood {
		d.m.HandleMAD(w.now, from, mad[:])
		return
	}
	before, drops := d.holdings(), d.m.stats.Drops[DropBacklog]
	d.m.HandleMAD(w.now, from, mad[:])
	after := d.holdings()
	for l, had := range before {
		for gid, n := range had {
			if now := after[l][gid]; gid != from.Remote && now[1] < n[1] && !l.fairTo(now, len(had)) {
				w.fail("%s: %v has lost a place to %v, with %v of %d and %d left, and %d sources",
					d.name, gid, from.Remote, now, l.backlog, l.halfOpen, len(had))
			}
		}
	}
	var req wire.CMReq
	if wire.GetCM(mad, &req) != nil || d.m.stats.Drops[DropBacklog] == drops {
		return
	}
	if d.m.byPeer[peerID{gid: from.Remote, guid: req.LocalCAGUID, id: req.LocalCommID}] != nil {
		return // the drop is the one whose place it has
	}
	l := d.m.listener(req.ServiceID, d.gid)
	if now, n := after[l][from.Remote], len(after[l])+1; !l.fairTo(now, n) {
		w.fail("%s: %v was turned away, with %v of %d and %d, and %d sources", d.name, from.Remote, now, l.backlog, l.halfOpen, n)
	}
}

// fairTo says whether a source that has so many places of a listener has its share of either kind.
func (l *Listener) fairTo(has [2]int, sources int) bool {
	return has[0] >= l.backlog/(2*sources) || has[1] >= l.halfOpen/(2*sources)
}

// parted says whether the other end of a connection has ended it, or has gone.
func (w *world) parted(e *end) bool {
	for _, p := range w.ends {
		if p.d.gid == e.c.path.Remote && p.c.localID == e.c.remoteID && p != e {
			return p.left || p.dead || p.closed || p.terminal != 0
		}
	}
	return true // nobody was there
}
