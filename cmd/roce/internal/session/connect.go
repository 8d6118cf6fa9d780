package session

import (
	"fmt"

	"github.com/goroce/goroce/roce"
)

// QKey is the queue key of the test programs' datagrams.
const QKey = 0x11111111

// Values that the C programs give their connections: NAKs of a receiver that is not ready ask for 0.64 ms, seven retries after
// timeouts, receiver-not-ready retries for ever.
const (
	minRNRTimer = 12
	retryCount  = 7
	rnrForEver  = 7
	hopLimit    = 64
)

// Path is what two ends agreed on for one pair of queue pairs.
type Path struct {
	PSN, PeerPSN roce.PSN
	PeerQPN      uint32
	PeerGID      roce.GID
	MTU          roce.MTU
	GIDIndex     int
	SL, TClass   int
	Timeout      int  // code: 4.096 us * 2^n
	Serve, Ask   int  // RC: READs and atomics of the peer this end remembers, and own ones outstanding
	Selective    bool // RC: selective repeat, which both ends must be ready for
}

// AV is the address vector of the path.
func (p *Path) AV() roce.AHAttr {
	return roce.AHAttr{DGID: p.PeerGID, SGIDIndex: uint8(p.GIDIndex), SL: uint8(p.SL), TrafficClass: uint8(p.TClass), HopLimit: hopLimit}
}

// Init takes a new queue pair to INIT, where receives may be posted.
func Init(q *roce.QP, access roce.Access) error {
	a := roce.QPAttr{State: roce.StateInit, Port: 1, AccessFlags: access, QKey: QKey}
	mask := roce.AttrState | roce.AttrPKeyIndex | roce.AttrPort
	if q.Type() == roce.UD {
		return q.Modify(&a, mask|roce.AttrQKey)
	}
	return q.Modify(&a, mask|roce.AttrAccessFlags)
}

// Connect takes a queue pair from INIT to RTS on the path.
func Connect(q *roce.QP, p *Path) error {
	rtr := roce.QPAttr{State: roce.StateRTR, AV: p.AV(), PathMTU: p.MTU, DestQPN: p.PeerQPN, RQPSN: p.PeerPSN,
		MaxDestRdAtomic: uint8(p.Serve), MinRNRTimer: minRNRTimer}
	rts := roce.QPAttr{State: roce.StateRTS, SQPSN: p.PSN, Timeout: uint8(p.Timeout), RetryCnt: retryCount, RNRRetry: rnrForEver,
		MaxRdAtomic: uint8(p.Ask)}
	masks := connectMasks[q.Type()]
	if p.Selective {
		rtr.SelectiveRepeat = true
		masks.rtr |= roce.AttrSelectiveRepeat
	}
	if err := q.Modify(&rtr, roce.AttrState|masks.rtr); err != nil {
		return fmt.Errorf("Failed to modify QP to RTR: %w", err)
	}
	if err := q.Modify(&rts, roce.AttrState|masks.rts); err != nil {
		return fmt.Errorf("Failed to modify QP to RTS: %w", err)
	}
	return nil
}

const connectedRTR = roce.AttrAV | roce.AttrPathMTU | roce.AttrDestQPN | roce.AttrRQPSN

// connectMasks are the attributes that each type takes on its way.
var connectMasks = map[roce.QPType]struct{ rtr, rts roce.AttrMask }{
	roce.RC: {connectedRTR | roce.AttrMaxDestRdAtomic | roce.AttrMinRNRTimer,
		roce.AttrSQPSN | roce.AttrTimeout | roce.AttrRetryCnt | roce.AttrRNRRetry | roce.AttrMaxRdAtomic},
	roce.UC: {connectedRTR, roce.AttrSQPSN},
	roce.UD: {0, roce.AttrSQPSN},
}
