//go:build verbs

package verbs

// Sleeping on descriptors of the library in Go's poller, which costs no thread, and the
// asynchronous events of a device.

/*
#include "glue.h"
*/
import "C"

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

// Descriptor is one of the library's, in Go's poller. It is a duplicate, as the library closes its
// own.
type Descriptor struct {
	file  *os.File
	raw   syscall.RawConn
	ended chan struct{} // closed when nobody takes anything any more
}

// Watch makes the library's calls on fd return at once, and calls told, on a goroutine of its own,
// each time that take has taken something.
func Watch(fd int, name string, take func() bool, told func()) (*Descriptor, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	twin, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	d := &Descriptor{file: os.NewFile(uintptr(twin), name), ended: make(chan struct{})}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, err
	}
	go d.run(take, told)
	return d, nil
}

func (d *Descriptor) run(take func() bool, told func()) {
	defer close(d.ended)
	readable := func(uintptr) bool { return take() }
	for d.raw.Read(readable) == nil {
		told()
	}
}

// Close ends the goroutine. It must not be called by it.
func (d *Descriptor) Close() {
	d.file.Close()
	<-d.ended
}

// listen has a goroutine hand on the asynchronous events.
func (d *Device) listen() (err error) {
	event := (*C.struct_ibv_async_event)(C.calloc(1, C.sizeof_struct_ibv_async_event))
	take := func() bool { return C.ibv_get_async_event(d.context, event) == 0 }
	told := func() {
		e := d.event(event)
		// Only now may the object that it is about be destroyed, and its address be another's.
		C.ibv_ack_async_event(event)
		if e.known && d.cfg.Event != nil {
			d.cfg.Event(e.Event)
		}
	}
	d.events, err = Watch(int(d.context.async_fd), d.device+" events", take, told)
	d.freeEvent = func() { C.free(unsafe.Pointer(event)) }
	if err != nil {
		d.freeEvent()
	}
	return err
}

// happened is an event, if it is one for the application.
type happened struct {
	soft.Event
	known bool // it is about this port, or about an object that exists
}

// event reads an event of the library.
func (d *Device) event(e *C.struct_ibv_async_event) happened {
	h := happened{Event: soft.Event{Type: qp.EventType(e.event_type)}}
	switch e.event_type {
	case C.IBV_EVENT_CQ_ERR, C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR,
		C.IBV_EVENT_COMM_EST, C.IBV_EVENT_SQ_DRAINED, C.IBV_EVENT_PATH_MIG, C.IBV_EVENT_PATH_MIG_ERR,
		C.IBV_EVENT_QP_LAST_WQE_REACHED, C.IBV_EVENT_SRQ_ERR, C.IBV_EVENT_SRQ_LIMIT_REACHED:
		switch x := d.find(*(*unsafe.Pointer)(unsafe.Pointer(&e.element))).(type) {
		case *QP:
			h.QP, h.known = x.context, true
		case *CQ:
			x.fail()
			h.CQ, h.known = x.context, true
		case *SRQ:
			h.SRQ, h.known = x.context, true
		}
	case C.IBV_EVENT_DEVICE_FATAL:
		h.known = true
	case C.IBV_EVENT_PORT_ACTIVE, C.IBV_EVENT_PORT_ERR, C.IBV_EVENT_LID_CHANGE, C.IBV_EVENT_PKEY_CHANGE,
		C.IBV_EVENT_GID_CHANGE:
		h.known = *(*C.int)(unsafe.Pointer(&e.element)) == C.int(d.port)
	}
	return h
}

// enlist notes what an object of the library stands for.
func (d *Device) enlist(object unsafe.Pointer, x any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[object] = x
}

// strike forgets an object, before it is destroyed: then its address may be another's.
func (d *Device) strike(object unsafe.Pointer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, object)
}

func (d *Device) find(object unsafe.Pointer) any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live[object]
}
