package rsocket

// Errors as package net has them: what programs ask of those of TCP they can ask of ours.

import (
	"errors"
	"net"
)

// opError is an error in the form of package net: a *net.OpError, or nil.
func opError(op string, source, addr net.Addr, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: timely(err)}
}

// timely is an error that says by itself whether a time has passed. net.Error's Timeout asks the
// error in a *net.OpError, and not what that one wraps.
func timely(err error) error {
	var says interface{ Timeout() bool }
	if _, itself := err.(interface{ Timeout() bool }); !itself && errors.As(err, &says) && says.Timeout() {
		return timeoutError{err}
	}
	return err
}

// timeoutError is an error because of a time that has passed.
type timeoutError struct{ error }

func (timeoutError) Timeout() bool { return true }

// Temporary is so of os.ErrDeadlineExceeded and syscall.ETIMEDOUT too.
func (timeoutError) Temporary() bool { return true }

func (e timeoutError) Unwrap() error { return e.error }
