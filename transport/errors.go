package transport

// What goes wrong with ports.

import "errors"

// OpenError says why a port could not be opened, and what can be done about it.
type OpenError struct {
	Name string // as given to whoever opened it
	// Reason is the rule that was broken, with the value that broke it, and the choices there are.
	Reason string
	Err    error // the system's error, if one caused it
}

// Error is one sentence for people.
func (e *OpenError) Error() string {
	s := "transport: open " + e.Name + ": " + e.Reason
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s
}

// Unwrap returns the system's error.
func (e *OpenError) Unwrap() error { return e.Err }

// Errors for errors.Is.
var (
	ErrClosed       = errors.New("the port is closed")
	ErrNotJoined    = errors.New("the group was not joined")
	ErrNoMulticast  = errors.New("the port has no multicast")
	ErrNotMulticast = errors.New("not a multicast address")
)
