package qp

import (
	"errors"
	"fmt"
)

// The kinds of errors of this package; the errors returned wrap one of them and name the value and
// the rule. The verbs' errno is in brackets.
var (
	ErrInvalid = errors.New("invalid argument")                               // [EINVAL]
	ErrState   = errors.New("not allowed in this state")                      // [EINVAL]
	ErrFull    = errors.New("queue is full")                                  // [ENOMEM]
	ErrLimit   = errors.New("device limit reached")                           // [ENOMEM]
	ErrBusy    = errors.New("still in use")                                   // [EBUSY]
	ErrOverrun = errors.New("completion queue was overrun")                   // IBV_EVENT_CQ_ERR
	ErrUnknown = errors.New("object belongs to another lane or is destroyed") // [EINVAL]
)

// invalid reports a value that breaks a rule of the verbs.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
