package main

// What an error is to C: an errno, as rdma-core's own providers return it.

// #include <stdint.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/goroce/goroce/roce"
)

// verbose has each error printed with its text, which an errno cannot carry, and where a program
// listens.
var verbose = os.Getenv("GOROCE_DEBUG") != ""

// errnos is the table of kinds; the first that an error matches counts.
var errnos = []struct {
	kind error
	no   syscall.Errno
}{
	{syscall.EADDRINUSE, syscall.EADDRINUSE},
	{syscall.EADDRNOTAVAIL, syscall.EADDRNOTAVAIL},
	{roce.ErrFull, syscall.ENOMEM},
	{roce.ErrLimit, syscall.ENOMEM},
	{roce.ErrBusy, syscall.EBUSY},
	{roce.ErrUnreachable, syscall.EHOSTUNREACH},
	{roce.ErrNotSupported, syscall.EOPNOTSUPP},
	{roce.ErrClosed, syscall.EBADF},
	{roce.ErrInvalid, syscall.EINVAL},
	{roce.ErrState, syscall.EINVAL},
}

// errno is the number of an error; 0: there is none.
func errno(err error) C.int {
	if err == nil {
		return 0
	}
	say(err)
	for _, e := range errnos {
		if errors.Is(err, e.kind) {
			return C.int(e.no)
		}
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return C.int(no)
	}
	return C.int(syscall.EINVAL)
}

// say prints something, if it is asked for.
func say(what ...any) {
	if verbose {
		fmt.Fprintln(os.Stderr, append([]any{"goroce:"}, what...)...)
	}
}

// invalid is the answer to a number that names nothing.
const invalid = C.int(syscall.EINVAL)

// made gives a new object a number, or closes it if there is none left.
func made(of *roce.Device, object any, closeIt func() error, out *C.uint32_t) C.int {
	h := put(of, object)
	if h == 0 {
		closeIt()
		return C.int(syscall.ENOMEM)
	}
	*out = C.uint32_t(h)
	return 0
}
