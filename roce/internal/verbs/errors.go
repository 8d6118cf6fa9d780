package verbs

// What a verb answers, an errno, as an error: it names the verb, and is one of the kinds that the
// rest of this module knows.

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

// verbError is an errno that a verb has returned.
type verbError struct {
	verb  string // "ibv_create_qp"
	errno syscall.Errno
	kind  error // the kind, if it is not the usual one
}

// kinds are what an errno means, usually. Others, such as ENODEV of a device that was taken out,
// are errors by themselves, and EPERM and EACCES are os.ErrPermission.
var kinds = map[syscall.Errno]error{
	syscall.EINVAL:          qp.ErrInvalid,
	syscall.EFAULT:          qp.ErrInvalid, // memory that is not there, or read-only
	syscall.EMSGSIZE:        qp.ErrInvalid,
	syscall.ENOENT:          qp.ErrInvalid, // e.g. a group that was not joined
	syscall.ENOMEM:          qp.ErrLimit,
	syscall.ENOSPC:          qp.ErrLimit,
	syscall.EMFILE:          qp.ErrLimit,
	syscall.ENFILE:          qp.ErrLimit,
	syscall.EBUSY:           qp.ErrBusy,
	syscall.EADDRINUSE:      qp.ErrBusy,
	syscall.ENOSYS:          errors.ErrUnsupported,
	syscall.EOPNOTSUPP:      errors.ErrUnsupported,
	syscall.EPROTONOSUPPORT: errors.ErrUnsupported,
	syscall.ENOTTY:          errors.ErrUnsupported, // the kernel is older than the library
	syscall.ENETUNREACH:     soft.ErrUnreachable,
	syscall.EHOSTUNREACH:    soft.ErrUnreachable,
	syscall.ENETDOWN:        soft.ErrUnreachable,
	syscall.EHOSTDOWN:       soft.ErrUnreachable,
	syscall.ETIMEDOUT:       soft.ErrUnreachable, // the neighbour does not answer
	syscall.EADDRNOTAVAIL:   soft.ErrUnreachable,
}

// Error prints "ibv_create_qp: cannot allocate memory".
func (e *verbError) Error() string {
	if e.kind != nil {
		return fmt.Sprintf("%s: %v (%v)", e.verb, e.kind, e.errno)
	}
	return fmt.Sprintf("%s: %v", e.verb, e.errno)
}

// Unwrap returns the errno.
func (e *verbError) Unwrap() error { return e.errno }

// Is says of which kind the error is.
func (e *verbError) Is(target error) bool {
	if e.kind != nil {
		return target == e.kind
	}
	return target == kinds[e.errno]
}

// answered returns what a verb's result means: 0 is success, and a failure is an errno, which some
// providers return negative.
func answered(verb string, result int) error { return answeredAs(verb, result, nil) }

// answeredAs is answered for a verb one of whose errnos means something special.
func answeredAs(verb string, result int, special map[syscall.Errno]error) error {
	if result == 0 {
		return nil
	}
	errno := syscall.Errno(max(result, -result))
	return &verbError{verb, errno, special[errno]}
}

// Refused is the error of a verb that returned no object. err is the errno as cgo gives it.
func Refused(verb string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s failed and did not say why", verb)
	}
	return &verbError{verb: verb, errno: errno}
}

// invalid reports a value that breaks a rule of the verbs.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{qp.ErrInvalid}, args...)...)
}

// unsupported reports something that this device does not have.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errors.ErrUnsupported}, args...)...)
}

// closed is the error of what is used after it was closed.
func closed(what string) error { return fmt.Errorf("%s: %w", what, soft.ErrClosed) }
