//go:build race && unix

package soft

import (
	"os"
	"syscall"
)

// Under the race detector, a frame that is received comes after all that were sent before, as with Go's own sockets: package
// syscall tells the detector so for its reads and writes, and the port's system calls go around it. Without this, a program
// that fills memory and then lets a peer access it would be reported.
//
// What stays is worth having: an application that touches memory which the stack is still using is reported.

var null, _ = os.OpenFile(os.DevNull, os.O_RDWR, 0)

func raceReceived() { syscall.Read(int(null.Fd()), make([]byte, 1)) }
func raceSend()     { syscall.Write(int(null.Fd()), make([]byte, 1)) }
