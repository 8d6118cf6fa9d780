// Package hub is how a process shares an address with others: what it says to their hub (package
// roce/hub), and what it keeps of it. A hub hands out sockets: it makes all slots of an
// address (udp.MakeSlots), gives each process one, and has queue pair 1 for all.
//
//	conn.go       the connection of the two; descriptors beside messages
//	attach.go     which device has its slot of a hub
//	protocol.go   messages between the two, and descriptors beside them (this package's seam)
//	folder.go     where the hub's socket is, and who may come
//	start.go      a hub on demand
//	client.go     a process: its slot, until it leaves or the hub does; a new hub is joined anew
//	qp1.go        queue pair 1 as that process has it (rdmacm.QP1)
//	strays.go     packets that come to another process than their own
//	ledger.go     what messages say of connections: whose peers are to be told if the process dies
//	shelf.go      all sockets of an address in one descriptor, for the hub that comes next
package hub
