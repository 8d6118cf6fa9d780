// Package rdmacm is the RDMA connection manager: queue pairs that find each other by IP address and
// port, as with librdmacm. A peer may be of this stack or a program over a kernel's rdma_cm, and
// does not see a difference (section 9).
//
// # Two ways to use it
//
// [Dial] and [Listen] are for Go programs: connections whose queue pair is in RTS, with contexts
// and errors.
//
//	conn, err := rdmacm.Dial(ctx, "10.0.0.2:7471", &rdmacm.ConnConfig{...})
//	l, err := rdmacm.Listen(ctx, ":7471", &rdmacm.ListenConfig{...}); conn, err := l.Accept(ctx)
//
// [EventChannel] and [ID] are rdma_cma.h's: every call returns at once, and an event says what came
// of it. The names are those of the C calls without rdma_. An ID goes through states: what a call
// needs, and what leads where, is one table (state.go).
//
//	CreateID → ResolveAddr → ResolveRoute → CreateQP → Connect → ESTABLISHED → Disconnect → Close
//	CreateID → BindAddr → Listen → CONNECT_REQUEST: a new ID → CreateQP → Accept → ESTABLISHED
//
// Calls of rdma_cma.h whose name is another one here: rdma_create_ep is Dial and Listen;
// rdma_get_cm_event is EventChannel.Get; rdma_ack_cm_event is nothing, as an Event is its taker's;
// rdma_destroy_id is ID.Close; rdma_notify with COMM_EST is ID.Establish; rdma_set_option is
// SetTOS, SetReuseAddr, SetAFOnly and SetAckTimeout. There is no ECE and no alternate path.
//
// In [PSUDP], and in PSIB with a queue pair of type UD, there are no connections: Connect asks
// which queue pair, with which Q_Key, serves a port, and EventEstablished says where datagrams go.
//
// # Devices
//
// A [Config] has the devices that are used, or none: then one is opened for each local address that
// is used ("udp:ADDRESS"), shared by all of the process, and closed some time after its last ID. An
// address and UDP port 4791 are one process's then, unless processes share it already: two on one
// machine need an address each, or Config.Kind is "hub". Those that have slots of one address from
// elsewhere (docs/library.md) say so in Config: the slot's device, and for all but slot 0 where
// queue pair 1 is.
//
// On a device of the kernel ("verbs:mlx5_0", in a build with the tag verbs) all is done by the
// kernel's connection manager, by way of librdmacm; docs/verbs.md has what is different then. The
// device may be used by other processes too.
//
// # One device, one machine
//
//	IDs ──calls──▶ agent ──▶ cm.Machine ──messages──▶ queue pair 1 ──▶ network
//	    ◀─events── (goroutine) ◀──────────────────────          ◀──
//
// Queue pair 1 belongs to a device. The first ID on it makes an agent (agent.go), which has that
// queue pair (gsi.go), the protocol (package cm, which knows no clock and no socket), and a
// goroutine that sleeps when nothing happens. It is there until the device is closed:
// roce.Device.Close answers ErrBusy while IDs are on it, and otherwise ends it first. A device that
// is closed answers nothing, and Close does not wait for that: a peer that has missed our last
// message learns of the end by asking in vain, which takes it a minute. To spare it that, keep the
// device open for some seconds after the last connection.
//
// # What may be relied on
//
// All methods may be called from any goroutine, at any time; a closed ID answers ErrClosed. Calls
// return errors that name the value and the rule, and match one of this package's Err variables,
// which are those of package roce. What a peer does wrong is an event, or nothing: the machine's
// counters have it. Peers that flood a listener find its backlog full; requests beyond it are
// dropped, and repeated by those who mean them.
package rdmacm
