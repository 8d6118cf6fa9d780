//go:build race && unix

// Package race tells the race detector what it cannot see: a frame that is received comes after all
// that were sent before, as with Go's own sockets. Package syscall says so for its reads and
// writes, and the ports' system calls go around it. Without this, a program that fills memory and
// then lets a peer access it would be reported.
//
// What stays is worth having: an application that touches memory which the stack is still using is
// reported.
package race

import (
	"os"
	"syscall"
)

var null, _ = os.OpenFile(os.DevNull, os.O_RDWR, 0)

// Received says that frames were received.
func Received() { syscall.Read(int(null.Fd()), make([]byte, 1)) }

// Sends says that frames are going to be sent.
func Sends() { syscall.Write(int(null.Fd()), make([]byte, 1)) }
