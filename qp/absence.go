package qp

// What the peer has been told of the expected packet while others come in its place: one machine of
// the responder, so that one loss costs one NAK, however many packets are behind it (section 4.5).
//
// Stages: the states → what happens → the table → a step of it (notice).
//
// When the expected packet arrives, whatever the state, the absence is over (checkPSN). It may
// begin again at once: the packet may find no receive request, or have to wait, and comes again
// then.

// absence is what the peer has been told of the expected packet.
type absence uint8

const (
	// nothing: for all that is known it is on its way
	unnoticed absence = iota
	// a NAK asks for it, or has, and there is no other one until it comes ...
	reported
	// ... or the peer has started over: the packet after it, which has passed by, comes again
	passed
	// a NAK asks for all from it on, or has: what came after it could not be kept
	asked
	// it was here and could not be executed: it is asked for when it can be (readmit)
	postponed
	numAbsences
)

// absenceEvent is something that happens while the expected packet is absent.
type absenceEvent uint8

const (
	nextCame  absenceEvent = iota // the packet after it has come, and was dropped
	laterCame                     // one behind that has
	noReceive                     // it came, and there is no receive request for it
	mustStay                      // it came, and has to wait for storage
	mayCome                       // what it has to wait for is over
	noRoom                        // selective repeat: a later one could not be kept
	gapNamed                      // a NAK asks for the gap alone, as what is behind it is kept
	numAbsenceEvents
)

// absenceStep is an entry of the table.
type absenceStep struct {
	to  absence
	nak bool // the peer is to get a NAK: of noReceive one that says RNR, otherwise a sequence error
}

// absences is the table. What a responder does with a packet that came, it does in unnoticed only.
var absences = [numAbsences][numAbsenceEvents]absenceStep{
	unnoticed: {nextCame: {passed, true}, laterCame: {reported, true}, noReceive: {reported, true}, mustStay: {postponed, false},
		mayCome: {unnoticed, false}, noRoom: {asked, true}, gapNamed: {unnoticed, false}},
	reported: {nextCame: {passed, false}, laterCame: {reported, false}, noReceive: {reported, true}, mustStay: {postponed, false},
		mayCome: {reported, false}, noRoom: {reported, false}, gapNamed: {reported, false}},
	passed: {nextCame: {passed, true}, laterCame: {passed, false}, noReceive: {reported, true}, mustStay: {postponed, false},
		mayCome: {passed, false}, noRoom: {passed, false}, gapNamed: {passed, false}},
	asked: {nextCame: {passed, false}, laterCame: {asked, false}, noReceive: {reported, true}, mustStay: {postponed, false},
		mayCome: {asked, false}, noRoom: {asked, false}, gapNamed: {unnoticed, false}},
	postponed: {nextCame: {postponed, false}, laterCame: {postponed, false}, noReceive: {reported, true}, mustStay: {postponed, false},
		mayCome: {reported, true}, noRoom: {postponed, false}, gapNamed: {postponed, false}},
}

// notice takes a step, and says whether the peer is to get a NAK.
func (r *responder) notice(ev absenceEvent) (nak bool) {
	step := absences[r.absent][ev]
	r.absent = step.to
	return step.nak
}
