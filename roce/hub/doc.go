// Package hub lets many processes share an address: it makes the sockets of the address and gives
// each process those of a slot, to which the kernel steers what is for that process's queue pairs.
// What they send or receive does not go through the hub, but for the messages of the connection
// manager (queue pair 1 is one, for all) and packets of foreign senders that come to another
// process than their own, which should be few.
//
//	process ── hub:10.0.0.2 ──┐   slot 1: its sockets, its part of the queue pair numbers and of
//	process ── hub:10.0.0.2 ──┤   slot 2  the communication IDs
//	…                         │
//	        hub ──────────────┴   slot 0: queue pair 1
//
// One hub serves a user in a network namespace: the command "roce hub". A process that opens
// "hub:ADDRESS" starts one if there is none, which ends some seconds after the last process.
//
//	hub.go       the socket, who comes, and addresses (Serve)
//	address.go   an address: its slots, who has which, and queue pair 1
//	router.go    which process a message of the connection manager is for, or a packet
//	process.go   a process, from when it joins until its call ends
//	ends.go      how its part of the address ends
//	status.go    what the hub knows, for who asks (Ask)
//
// # What ends, and what goes on
//
// A process that ends in any way leaves its slot at once; one that becomes another program (exec)
// within 6 s. The peers of its connections are told by the hub (cm.Machine.Inherit), as the
// process would have done it; its listeners are gone; its slot is given to others last, with the
// deck of its queue pair numbers, so that none comes again before all others have, and a peer that
// still knows one meets nobody.
//
// If the hub ends, processes go on: their packets do not go through it. Connections cannot be made
// or ended meanwhile (messages are repeated by their senders). The next hub, which the first
// process that notices starts, gets all sockets from any of the processes (package internal/hub,
// the shelf), and from each what it has. What is lost: peers of a process that ends while there is
// no hub, or before it has called the next one, are not told, and find out by their own timeouts.
//
// # Whom it trusts
//
// Processes of one user only, which it isolates from each other's faults, not from malice: each
// could change where the kernel steers packets, read what waits in the sockets of others (all are
// on the shelf), trace or kill them. Another user's process gets nothing: the socket is in a folder
// that only the user may enter, and whoever calls is asked for by SO_PEERCRED.
package hub
