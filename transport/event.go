package transport

// What happens below a port: ports tell of it, if they can. Stages: the events, who tells them.

// Event is a change of what is below a port. It says what has changed, and Info how it is now.
type Event uint8

// The events.
const (
	LinkUp        Event = iota + 1 // Info.Up: packets can come and go
	LinkDown                       // no longer
	AddressGone                    // Info.GIDs: a row is empty now, or has another address
	AddressBack                    // Info.GIDs: a row has an address that it had not
	MTUChanged                     // Info.NetMTU
	InterfaceGone                  // the interface was removed: nothing comes back
)

// eventNames are for String.
var eventNames = [...]string{LinkUp: "link up", LinkDown: "link down", AddressGone: "address gone",
	AddressBack: "address back", MTUChanged: "MTU changed", InterfaceGone: "interface gone"}

// String says it in words.
func (e Event) String() string {
	if int(e) >= len(eventNames) || e == 0 {
		return "unknown event"
	}
	return eventNames[e]
}

// Notifier is a port that tells of events: those with sockets on Linux, and pipes, of which tests
// ask it.
type Notifier interface {
	// Events is where they come: what has changed since the port was opened. The first port of
	// several lanes tells those of the address; the channel of the others is nil. Close closes it.
	//
	// Nobody must read: some events wait, and what comes when there is no room is dropped. So who
	// reads one late reads all that wait, and then asks Info: it misses nothing that still counts.
	// A look at an empty channel costs a few nanoseconds, and may be part of every turn. Events may
	// be called from any goroutine, but not after Close.
	Events() <-chan Event
}

// Events are those of p if it is a Notifier. Otherwise the channel is nil: nothing ever comes.
func Events(p Port) <-chan Event {
	if n, ok := p.(Notifier); ok {
		return n.Events()
	}
	return nil
}
