// Command engine is the stack behind libibverbs.so.1: a library for C (-buildmode=c-shared) that
// the C library loads when the first device is opened. It takes the structures of
// <infiniband/verbs.h> as they are and makes of each call one of package roce, so that no records
// lie between the two.
//
//	main.go     what it is, and how it keeps house (this file)
//	handles.go  the objects that C names by number
//	errno.go    what an error is to C
//	device.go   devices, their attributes and events
//	memory.go   protection domains, regions, windows, address handles
//	cq.go       completion channels and queues; polling
//	qp.go       queue pairs, shared receive queues, XRC domains
//	post.go     work requests
//	cm.go       the devices of the connection manager
//	cmid.go     its event channels and IDs
//	cmevent.go  what it tells
//	pcap.go     a program's packets in files
//
// What C owns and what Go owns: the public structures (ibv_qp and the like) are C's, made and freed
// by ../verbs; the objects are Go's, and a structure's field handle names one. Functions return 0
// or an errno.
package main

import "C"

import (
	"runtime"
	"runtime/debug"
)

// An application in C counts on its memory staying small more than on a collector that seldom runs.
// Threads of C's that are in Go need one of its processors each, and the stack's own goroutines one
// beside them.
func init() {
	if runtime.GOMAXPROCS(0) < 2 { // what is set so no longer follows the machine
		runtime.GOMAXPROCS(2)
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(256 << 20)
}

func main() {}

// goroce_grow_stack grows the stack of the goroutine that serves this thread of C's, once and for
// all its calls: a signal's handler may run on it.
//
//export goroce_grow_stack
func goroce_grow_stack() int32 {
	var room [96 << 10]byte
	for i := range room {
		room[i] = byte(i)
	}
	return int32(room[len(table.free)%len(room)])
}
