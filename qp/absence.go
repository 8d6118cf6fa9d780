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
	absentUnnoticed absence = iota
	// a NAK asks for it, or has, and there is no other one until it comes ...
	absentReported
	// ... or the peer has started over: the packet after it, which has passed by, comes again
	absentPassed
	// a NAK asks for all from it on, or has: what came after it could not be kept
	absentAsked
	// it was here and could not be executed: it is asked for when it can be (readmit)
	absentPostponed
	numAbsences
)

// absenceEvent is something that happens while the expected packet is absent.
type absenceEvent uint8

const (
	whenNextCame  absenceEvent = iota // the packet after it has come, and was dropped
	whenLaterCame                     // one behind that has
	whenNoReceive                     // it came, and there is no receive request for it
	whenMustStay                      // it came, and has to wait for storage
	whenMayCome                       // what it has to wait for is over
	whenNoRoom                        // selective repeat: a later one could not be kept
	whenKept                          // what is behind it is kept: the gap alone is asked for
	numAbsenceEvents
)

// absenceStep is an entry of the table.
type absenceStep struct {
	to  absence
	nak bool // the peer is to get a NAK: one of RNR where whenNoReceive, or of a sequence error
}

// absences is the table. What a responder does with a packet that came, it does in absentUnnoticed
// only.
var absences = [numAbsences][numAbsenceEvents]absenceStep{
	absentUnnoticed: {
		whenNextCame:  {absentPassed, true},
		whenLaterCame: {absentReported, true},
		whenNoReceive: {absentReported, true},
		whenMustStay:  {absentPostponed, false},
		whenMayCome:   {absentUnnoticed, false},
		whenNoRoom:    {absentAsked, true},
		whenKept:      {absentUnnoticed, false},
	},
	absentReported: {
		whenNextCame:  {absentPassed, false},
		whenLaterCame: {absentReported, false},
		whenNoReceive: {absentReported, true},
		whenMustStay:  {absentPostponed, false},
		whenMayCome:   {absentReported, false},
		whenNoRoom:    {absentReported, false},
		whenKept:      {absentReported, false},
	},
	absentPassed: {
		whenNextCame:  {absentPassed, true},
		whenLaterCame: {absentPassed, false},
		whenNoReceive: {absentReported, true},
		whenMustStay:  {absentPostponed, false},
		whenMayCome:   {absentPassed, false},
		whenNoRoom:    {absentPassed, false},
		whenKept:      {absentPassed, false},
	},
	absentAsked: {
		whenNextCame:  {absentPassed, false},
		whenLaterCame: {absentAsked, false},
		whenNoReceive: {absentReported, true},
		whenMustStay:  {absentPostponed, false},
		whenMayCome:   {absentAsked, false},
		whenNoRoom:    {absentAsked, false},
		whenKept:      {absentUnnoticed, false},
	},
	absentPostponed: {
		whenNextCame:  {absentPostponed, false},
		whenLaterCame: {absentPostponed, false},
		whenNoReceive: {absentReported, true},
		whenMustStay:  {absentPostponed, false},
		whenMayCome:   {absentReported, true},
		whenNoRoom:    {absentPostponed, false},
		whenKept:      {absentPostponed, false},
	},
}

// notice takes a step, and says whether the peer is to get a NAK.
func (r *responder) notice(ev absenceEvent) (nak bool) {
	step := absences[r.absent][ev]
	r.absent = step.to
	return step.nak
}
