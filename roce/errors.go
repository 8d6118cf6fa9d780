package roce

// Errors. A failed call returns an *Error that names the call and the device (a post: a
// *PostError); below it is the error of the layer that refused, which names the value and the rule;
// at the bottom is one of the sentinels, for errors.Is. A peer's misbehaviour is never an error of
// a call: it is the status of a completion, a counter, or an asynchronous event.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

// The kinds of errors; the verbs' errno is in brackets.
var (
	ErrInvalid = qp.ErrInvalid  // a value breaks a rule, the text says which [EINVAL]
	ErrState   = qp.ErrState    // the queue pair's state does not allow it [EINVAL]
	ErrFull    = qp.ErrFull     // the queue has no free slot: poll completions first [ENOMEM]
	ErrLimit   = qp.ErrLimit    // the device has no more of these [ENOMEM]
	ErrBusy    = qp.ErrBusy     // something else still uses the object, the text says what [EBUSY]
	ErrOverrun = qp.ErrOverrun  // completions were lost: the completion queue was too small
	ErrClosed  = soft.ErrClosed // the object or its owner is closed [EBADF]

	// ErrTooLong is why requests have failed whose completions say VendorErrTooLong; packages that
	// turn completions into errors say it there [ETIMEDOUT]
	ErrTooLong = errors.New("long packets do not arrive, and short ones do: the path MTU is too large for the path, " +
		"which drops what is longer and says nothing; use a smaller one (1024 fits every Ethernet), or mend the path")

	// ErrUnreachable: no route, or the next hop does not answer ARP or neighbour solicitations
	// [EHOSTUNREACH]
	ErrUnreachable = soft.ErrUnreachable

	// ErrNotSupported: this device, build or system has no such thing, the text says which
	// [EOPNOTSUPP]
	ErrNotSupported = errors.ErrUnsupported
)

// Error says which call on which device failed and why. errors.Is and errors.As look through it.
type Error struct {
	Op     string // the call, "CreateQP"
	Device string // the device's name, "udp:127.0.0.1"; empty: the call concerns none
	Err    error  // why
}

// Error prints "roce: CreateQP on udp:127.0.0.1: <why>".
func (e *Error) Error() string {
	if e.Device == "" {
		return fmt.Sprintf("roce: %s: %v", e.Op, e.Err)
	}
	why := strings.TrimPrefix(e.Err.Error(), "transport: open "+e.Device+": ") // it has been said
	return fmt.Sprintf("roce: %s on %s: %s", e.Op, e.Device, why)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is maps the memory table's kinds of errors to this package's, so that a caller needs to know one
// set only.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrInvalid:
		return errors.Is(e.Err, mr.ErrInvalid)
	case ErrBusy:
		return errors.Is(e.Err, mr.ErrBusy)
	case ErrLimit:
		return errors.Is(e.Err, mr.ErrFull)
	}
	return false
}

// PostError says which work request of a PostSend or PostRecv was refused. Those before it were
// posted, those after it were not looked at (ibv_post_send's bad_wr).
type PostError struct {
	Op    string // "PostSend" or "PostRecv"
	QPN   uint32 // 0: on a shared receive queue
	Index int    // of the refused work request
	Err   error  // why
}

// Error prints "roce: PostSend on QP 0x00001a, request 2: <why>".
func (e *PostError) Error() string {
	if e.QPN == 0 {
		return fmt.Sprintf("roce: %s on an SRQ, request %d: %v", e.Op, e.Index, e.Err)
	}
	return fmt.Sprintf("roce: %s on QP 0x%06x, request %d: %v", e.Op, e.QPN, e.Index, e.Err)
}

// Unwrap returns the cause.
func (e *PostError) Unwrap() error { return e.Err }

// fail wraps a lower layer's error; nil stays nil.
func (d *Device) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Device: d.name, Err: err}
}
