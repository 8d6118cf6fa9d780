package conformance

// The rows of the GID table: each can be sent from and received at.

import "github.com/goroce/goroce/roce"

func rows() []Case {
	return []Case{
		{"connections from every row", rowConnectionsAct, rowConnectionsServe},
		{"datagrams from every row, and answers to them", rowDatagramsAct, rowDatagramsServe},
	}
}

// rowPair is a row of the end that acts and one of the other that can reach each other.
type rowPair struct{ Acts, Serves int }

// maxRowPairs bounds how many are tried: a real device may have hundreds of rows.
const maxRowPairs = 9

// pairs exchanges the tables and says which rows can reach each other, as far as they tell: of the
// same IP version, and link-local if the other is.
func pairs(e *End) (list []rowPair, theirs []roce.GID) {
	mine := e.GIDs()
	e.Tell(mine)
	e.Hear(&theirs)
	act, serve := mine, theirs
	if !e.Acts {
		act, serve = theirs, mine
	}
	for i, a := range act {
		for j, b := range serve {
			alike := a.Is4() == b.Is4() && a.Addr().IsLinkLocalUnicast() == b.Addr().IsLinkLocalUnicast()
			if alike && !a.IsZero() && !b.IsZero() && len(list) < maxRowPairs {
				list = append(list, rowPair{i, j})
			}
		}
	}
	e.Check(len(list) > 0, "no row of %v reaches one of %v", mine, theirs)
	return list, theirs
}

// mine is the row of this end, theirs that of the other.
func (p rowPair) mine(e *End) uint8 {
	if e.Acts {
		return uint8(p.Acts)
	}
	return uint8(p.Serves)
}

// connectRow connects a queue pair of its own from a row of the table.
func connectRow(e *End, p rowPair) {
	e.Make(roce.RC, 64)
	row := p.mine(e)
	gid, err := e.QueryGID(int(row))
	e.Must(err)
	own := e.QP.Endpoint()
	own.GID = gid
	var peer roce.Endpoint
	e.Tell(own)
	e.Hear(&peer)
	o := options()
	o.SGIDIndex, o.MTU = row, roce.MTU256
	e.Must(e.QP.Connect(e.ctx, peer, &o))
	a, err := e.QP.Query()
	e.Must(err)
	e.Check(a.AV.SGIDIndex == row && a.AV.DGID == peer.GID, "row %d to %v, want %d to %v", a.AV.SGIDIndex, a.AV.DGID,
		row, peer.GID)
}

func rowConnectionsAct(e *End) {
	list, _ := pairs(e)
	for i, p := range list {
		connectRow(e, p)
		copy(e.Buf, pattern(8, i))
		e.Sync()
		e.Send(small(e, uint64(i)))
		e.Good(roce.WCSend)
	}
	entry, err := e.QueryGIDEx(list[0].Acts)
	e.Must(err)
	e.Check(entry.GID == e.GIDs()[list[0].Acts] && entry.Index == list[0].Acts && entry.Port == 1 &&
		entry.Type == roce.GIDTypeRoCEv2, "%+v", entry)
}

func rowConnectionsServe(e *End) {
	list, _ := pairs(e)
	for i, p := range list {
		connectRow(e, p)
		e.Recv(uint64(i), 0, 64)
		e.Sync()
		wc := e.Good(roce.WCRecv)
		e.Check(wc.WRID == uint64(i) && wc.ByteLen == 8, "%+v", wc)
		e.Same(e.Buf[:8], i)
	}
}

func rowDatagramsAct(e *End) {
	active(e)
	list, theirs := pairs(e)
	for i, p := range list {
		ah, err := e.PD.CreateAH(e.ctx, roce.AHAttr{DGID: theirs[p.Serves], SGIDIndex: uint8(p.Acts)})
		e.Must(err)
		e.Recv(uint64(i), 0, roce.GRHSize+64)
		e.Sync()
		e.Send(roce.SendWR{
			Opcode:     roce.WRSend,
			Flags:      roce.SendSignaled,
			AH:         ah,
			RemoteQPN:  e.Peer.Endpoint.QPN,
			RemoteQKey: qkey,
		})
		e.Good(roce.WCSend)
		e.Sync() // an answer may come before the question's completion
		wc := e.Good(roce.WCRecv)
		back, err := roce.AHAttrFromWC(&wc, e.Buf)
		e.Must(err)
		e.Check(back.DGID == theirs[p.Serves], "the answer is from %v, not %v, to which the question went", back.DGID,
			theirs[p.Serves])
		e.Must(e.PD.DestroyAH(ah))
	}
}

func rowDatagramsServe(e *End) {
	active(e)
	list, theirs := pairs(e)
	for i, p := range list {
		e.Recv(uint64(i), 0, roce.GRHSize+64)
		e.Sync()
		wc := e.Good(roce.WCRecv)
		e.Sync()
		ah, err := e.PD.CreateAHFromWC(e.ctx, &wc, e.Buf)
		e.Must(err)
		a := ah.Attr()
		e.Check(a.DGID == theirs[p.Acts] && int(a.SGIDIndex) == p.Serves,
			"the answer goes from row %d to %v, want %d to %v", a.SGIDIndex, a.DGID, p.Serves, theirs[p.Acts])
		e.Send(roce.SendWR{
			Opcode:     roce.WRSend,
			Flags:      roce.SendSignaled,
			AH:         ah,
			RemoteQPN:  wc.SrcQP,
			RemoteQKey: qkey,
		})
		e.Good(roce.WCSend)
		e.Must(e.PD.DestroyAH(ah))
	}
}
