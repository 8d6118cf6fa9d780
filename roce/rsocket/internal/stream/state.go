package stream

// How an end comes to its end: one machine, in a table (section 6). What is sent because of it is
// noted in the table too.

// State says what the application of an end may still do.
type State uint8

// The states. Closing ends by itself: when the other end has acknowledged the disconnect.
const (
	Open         State = iota // read and write
	ReadOnly                  // it has ended writing, and has told
	WriteOnly                 // it has ended reading, or the other end has ended writing
	Closing                   // it has ended both, or both ends have ended writing, and it tells
	Disconnected              // nothing can come and nothing can go
	Failed                    // the same, by an error
	states
)

func (s State) String() string {
	return [...]string{"open", "read-only", "write-only", "closing", "disconnected", "failed"}[s]
}

// MayRead says whether more may come than is here.
func (s State) MayRead() bool { return s == Open || s == ReadOnly }

// MayWrite says whether the application may write.
func (s State) MayWrite() bool { return s == Open || s == WriteOnly }

// Over says that the other end is not talked to any more.
func (s State) Over() bool { return s == Disconnected || s == Failed }

// An event moves an end towards its end.
type event uint8

const (
	endWrite        event = iota // the application ends writing,
	endRead                      // reading,
	endBoth                      // both
	gotShutdown                  // the other end has ended writing,
	gotDisconnect                // or both
	toldDisconnect               // it has acknowledged that this one has
	connectionFails              // a work request or a rule is broken
	events
)

// A move is where an event leads from a state, and what is then owed to the other end.
type move struct {
	to   State
	owes owed
}

// owed is a control message that waits to be sent.
type owed uint8

const (
	nothing owed = iota
	shutdown
	disconnect // also as the answer to one, which says that all before it has arrived
)

var moves = [states][events]move{
	Open: {endWrite: {ReadOnly, shutdown}, endRead: {WriteOnly, nothing}, endBoth: {Closing, disconnect},
		gotShutdown: {WriteOnly, nothing}, gotDisconnect: {Disconnected, disconnect},
		toldDisconnect: {Open, nothing}, connectionFails: {Failed, nothing}},
	ReadOnly: {endWrite: {ReadOnly, nothing}, endRead: {Closing, disconnect}, endBoth: {Closing, disconnect},
		gotShutdown: {Closing, disconnect}, gotDisconnect: {Disconnected, disconnect},
		toldDisconnect: {ReadOnly, nothing}, connectionFails: {Failed, nothing}},
	WriteOnly: {endWrite: {Closing, disconnect}, endRead: {WriteOnly, nothing}, endBoth: {Closing, disconnect},
		gotShutdown: {WriteOnly, nothing}, gotDisconnect: {Disconnected, disconnect},
		toldDisconnect: {WriteOnly, nothing}, connectionFails: {Failed, nothing}},
	Closing: {endWrite: {Closing, nothing}, endRead: {Closing, nothing}, endBoth: {Closing, nothing},
		gotShutdown: {Closing, nothing}, gotDisconnect: {Disconnected, nothing},
		toldDisconnect: {Disconnected, nothing}, connectionFails: {Failed, nothing}},
	Disconnected: {endWrite: {Disconnected, nothing}, endRead: {Disconnected, nothing},
		endBoth: {Disconnected, nothing}, gotShutdown: {Disconnected, nothing}, gotDisconnect: {Disconnected, nothing},
		toldDisconnect: {Disconnected, nothing}, connectionFails: {Disconnected, nothing}},
	Failed: {endWrite: {Failed, nothing}, endRead: {Failed, nothing}, endBoth: {Failed, nothing},
		gotShutdown: {Failed, nothing}, gotDisconnect: {Failed, nothing},
		toldDisconnect: {Failed, nothing}, connectionFails: {Failed, nothing}},
}
