// Package verbs is the other kind of RNIC: a device of the kernel, by way of libibverbs. It is for
// NICs with a driver, and for rxe. All that needs C is built with the tag verbs only (and
// libibverbs-dev), so that without it nothing of this module has to do with cgo.
//
//	lib.go       which devices there are, and opening one
//	device.go    what it can do, its port, its end
//	gids.go      its addresses
//	event.go     asynchronous events, and sleeping on a descriptor of the library in Go's poller
//	memory.go    protection domains, regions, windows, address handles
//	cq.go        completion queues: one ibv_poll_cq a poll
//	qp.go        queue pairs: their life
//	modify.go    the attributes of a queue pair, to and fro
//	post.go      one chained ibv_post_send or ibv_post_recv a batch
//	counters.go  what the driver counts, out of sysfs
//	errors.go    errno as an error that names the verb
//
// # Memory that C sees
//
// Work requests are written into memory of C that each queue pair has, and completions are read out
// of memory of C that each completion queue has: no call passes a pointer to Go memory, and none
// allocates. Registered memory may be Go's: it is pinned, and kept from being collected until its
// region is closed, even if the application forgets all about it, because the device would go on
// writing there.
//
// # Who may do what
//
// All methods may be called from any goroutine. Posts to one queue take turns, and so do polls of
// one completion queue. Closing an object twice does nothing, and using it afterwards is an error:
// no pointer to a dead object reaches C.
//
// # Processes that fork
//
// Starting programs by os/exec is safe: the child shares this process's memory until it becomes the
// other program. C code in the same process that forks and goes on has to call ibv_fork_init first,
// unless the kernel is Linux 5.12 or newer. The child must use nothing of what was made before.
package verbs
