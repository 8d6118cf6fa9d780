// Package host is what ports take from the operating system.
//
//	address.go                     which address a name means, and why one can not be had
//	link.go …                      the interface below a port
//	netlink_linux.go               the same by netlink, which tells when something changes
//	namespace_linux.go             the network namespace in which it is
//	holder_linux.go …              who has a UDP port
//	degraded.go                    what a port has to do without
//	wait_linux.go, berth_linux.go   sleeping and waking, of every port with sockets
//	socket_linux.go                options, addresses and messages of system calls
//	filter_linux.go                classic BPF
//	run_linux.go                   how many packets the kernel takes as one
package host
