package lives

// Requests that fail on purpose (qp.Purpose), at nodes of some worlds.
//
// Stages: drawing how often (drawPurpose) → the engines ask for each request whether it is to fail
// (purposes). A request that does gives a reason to fail to all connections of its node: which of
// them it is of, an engine does not say.

import (
	"math/rand/v2"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// PurposePlan says that one of so many requests fails on purpose; 0: none.
type PurposePlan struct{ Sends, Recvs int }

// drawPurpose draws it for some worlds. It has dice of its own, so that the other worlds are what
// they were.
func (p *Plan) drawPurpose(d qptest.Dice) {
	if p.Calm || !d.Chance(0.15) {
		return
	}
	p.Purpose = PurposePlan{Sends: qptest.Pick(d, 0, 5, 30, 100), Recvs: qptest.Pick(d, 0, 3, 10, 30)}
}

// What requests fail with: of sends what this side finds wrong, as a refusal is one at both ends.
var (
	sendsFail = []qp.WCStatus{qp.WCLocLenErr, qp.WCLocQPOpErr, qp.WCLocProtErr, qp.WCMWBindErr, qp.WCBadRespErr,
		qp.WCLocAccessErr, qp.WCRNRRetryExcErr, qp.WCFatalErr, qp.WCGeneralErr}
	recvsFail = []qp.WCStatus{qp.NoRecv, qp.NoRecv, qp.NoRecv, qp.WCLocLenErr, qp.WCLocProtErr, qp.WCRemAccessErr,
		qp.WCRemInvReqErr}
)

// purposes is what the engine of node i asks.
func (w *world) purposes(i int) (p qp.Purpose) {
	rnd := rand.New(rand.NewPCG(w.plan.Seed, uint64(i)))
	if n := w.plan.Purpose.Sends; n > 0 {
		p.Send = func(qp.WROpcode) qp.WCStatus {
			if w.coda || rnd.IntN(n) > 0 {
				return qp.WCSuccess
			}
			status := sendsFail[rnd.IntN(len(sendsFail))]
			w.excuseAll(i, status)
			return status
		}
	}
	if n := w.plan.Purpose.Recvs; n > 0 {
		p.Recv = func() qp.WCStatus {
			if w.coda || rnd.IntN(n) > 0 {
				return qp.WCSuccess
			}
			status := recvsFail[rnd.IntN(len(recvsFail))]
			if status == qp.NoRecv {
				w.excuseAll(i, qp.WCRNRRetryExcErr) // of a peer with few retries
			} else {
				w.excuseAll(i, status, qp.WCRemInvReqErr, qp.WCRemOpErr)
			}
			return status
		}
	}
	return p
}

// excuseAll lets requests of all connections of node i fail.
func (w *world) excuseAll(i int, statuses ...qp.WCStatus) {
	for _, a := range w.apps {
		if a.plan.Node == i {
			a.excuseBoth(statuses...)
		}
	}
}
