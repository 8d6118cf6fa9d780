// Package librdmacm is the kernel's connection manager, by way of librdmacm, for roce/rdmacm on
// devices of the kernel. All of it is built with the tag verbs only (and librdmacm-dev).
//
//	channel.go  the event channel, which sleeps in Go's poller; events, copied and acknowledged
//	id.go       identifiers: making one, addresses, options, its end
//	connect.go  connecting, and what a queue pair must know of its connection
//	addr.go     addresses, to and fro
//
// # Queue pairs are none of its business
//
// An identifier here never has a queue pair (rdma_create_qp): the library would make it on a
// context of its own, and roce has opened the device already. The queue pair's number travels in
// the connection's parameters, as rdma_connect(3) has it for applications that make their own, and
// rdma_init_qp_attr says with which attributes to bring it to RTR and RTS. Attributes are numbers:
// they are good for a queue pair of any context of the same device.
//
// # Events
//
// Each event is copied and acknowledged before anybody is told of it. So rdma_destroy_id, which
// waits for acknowledgements, waits for nobody who could wait for it, whatever locks its caller
// has.
package librdmacm
