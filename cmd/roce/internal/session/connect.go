package session

import (
	"context"

	"github.com/goroce/goroce/roce"
)

// QKey is the queue key of the test programs' datagrams.
const QKey = 0x11111111

// Path are the attributes that the C programs give their connections: NAKs of a receiver that is
// not ready ask for 0.64 ms, seven retries after timeouts, receiver-not-ready retries for ever. The
// peer may do what access says.
func Path(access roce.Access) roce.ConnectOptions {
	return roce.ConnectOptions{MinRNRTimer: 12, RetryCnt: 7, RNRRetry: 7, HopLimit: 64, Access: access, QKey: QKey}
}

// AV is the address vector of a path to a peer, for its datagrams.
func AV(peer roce.GID, o *roce.ConnectOptions) roce.AHAttr {
	return roce.AHAttr{DGID: peer, SGIDIndex: o.SGIDIndex, SL: o.SL, TrafficClass: o.TrafficClass, HopLimit: o.HopLimit}
}

// Connect takes a queue pair from INIT to RTS: on the path to its peer, or ready for datagrams.
func Connect(ctx context.Context, q *roce.QP, peer roce.Endpoint, o *roce.ConnectOptions) error {
	if q.Type() == roce.UD {
		return q.Activate(o.QKey)
	}
	return q.Connect(ctx, peer, o)
}
