// Package mr holds registered memory: protection domains, memory regions, memory windows, and the
// table that turns the 32-bit keys of packets and scatter/gather entries into bytes that may be
// touched.
//
// Every read and every write of registered memory goes through this package, in four steps:
//
//  1. an application registers a slice in a protection domain and is given a key ([Table.Register],
//     table.go);
//  2. a lane brackets each of its turns with [Reader.Enter] and [Reader.Exit] (reader.go);
//  3. within the turn it asks [Table.Local] or [Table.Remote] for a number of bytes under a key;
//     the answer is a checked [Span] or a [Status] that says which rule was broken (access.go);
//  4. the span copies bytes in or out, or executes an atomic (span.go).
//
// Looking up takes no lock and allocates nothing. Registering, binding and deregistering take one
// mutex; deregistering then waits until every lane that could still hold the memory has left its
// turn, so that no byte of the buffer changes after [Table.Deregister] has returned.
//
// Keys are 32 random bits as far as a peer can tell (see keys in table.go): guessing one takes 2^31
// tries on average. Over RC each of them costs the attacker its connection. Over UC a wrong key
// costs nothing but the message: ten million packets a second find a key in some four minutes. So
// give the right RemoteWrite to UC queue pairs only if the peer, and who can send in its name, may
// write.
//
// Rule numbers such as "7.2" name sections of docs/rocev2.md; "C10-74" and the like are
// compliance statements of the InfiniBand Architecture Specification, volume 1.
package mr

import (
	"errors"
	"strings"
)

// PD is the handle of a protection domain. A key works only for queue pairs of the same domain. 0
// is never valid, and the handle of a freed domain comes again after four billion others.
type PD uint32

// Access is a set of rights, with the values of ibv_access_flags.
type Access uint32

// The rights a region or window can grant. Local reading needs none.
const (
	LocalWrite   Access = 1 << 0 // receives, READ replies and atomic results may be written here
	RemoteWrite  Access = 1 << 1 // peers may RDMA WRITE (and ATOMIC WRITE); needs LocalWrite
	RemoteRead   Access = 1 << 2 // peers may RDMA READ
	RemoteAtomic Access = 1 << 3 // peers may compare-and-swap and fetch-and-add; needs LocalWrite
	MWBind       Access = 1 << 4 // windows may be bound to the region
	ZeroBased    Access = 1 << 5 // addresses count from 0 instead of from the buffer's address

	OnDemand        Access = 1 << 6 // accepted and without effect: a table pins nothing
	HugeTLB         Access = 1 << 7 // accepted and without effect: a hint about page sizes
	FlushGlobal     Access = 1 << 8 // peers may FLUSH for global visibility
	FlushPersistent Access = 1 << 9 // peers may FLUSH to persistent storage: of a file mapping

	RelaxedOrdering Access = 1 << 20 // accepted and without effect, like all of OptionalAccess

	// OptionalAccess is the range of rights that a device ignores if it does not know them.
	OptionalAccess Access = 0x3ff << 20

	// RemoteAny is every right that concerns a peer.
	RemoteAny = RemoteWrite | RemoteRead | RemoteAtomic | FlushGlobal | FlushPersistent

	knownAccess = LocalWrite | RemoteAny | MWBind | ZeroBased | OnDemand | HugeTLB | OptionalAccess
)

var accessNames = [...]string{
	"LocalWrite", "RemoteWrite", "RemoteRead", "RemoteAtomic", "MWBind", "ZeroBased",
	"OnDemand", "HugeTLB", "FlushGlobal", "FlushPersistent", 20: "RelaxedOrdering",
}

// String lists the rights by name, joined with "|"; "0" when there are none. Bits without a name
// are printed as bitN.
func (a Access) String() string {
	if a == 0 {
		return "0"
	}
	var names []string
	for i := range 32 {
		switch {
		case a&(1<<i) == 0:
		case i < len(accessNames) && accessNames[i] != "":
			names = append(names, accessNames[i])
		default:
			names = append(names, "bit"+string(rune('0'+i/10))+string(rune('0'+i%10)))
		}
	}
	return strings.Join(names, "|")
}

// Status is the verdict on one access by key. It is a small integer rather than an error because it
// is made per packet; what a peer is told about it (NAK 61H, 62H, ...) is the engine's decision.
type Status uint8

// The verdicts, in the order in which the checks are made.
const (
	OK         Status = iota
	BadKey            // no region or window has this key, or not any longer
	BadPD             // the key belongs to another protection domain
	BadState          // the key names an object that is not in the state the operation needs
	BadAccess         // the right was not granted, or the window belongs to another QP
	BadRange          // the range is not inside the region
	Misaligned        // an atomic's address is not a multiple of 8
	Faulted           // the memory is not there any more, or may not be accessed so (Span)
)

var statusNames = [...]string{
	"OK", "bad key", "wrong protection domain", "wrong state", "access not granted", "range not inside the region",
	"misaligned", "memory is gone or protected",
}

// String says the verdict in words.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// Classes of error, for errors.Is. The errors themselves say which value broke which rule.
var (
	ErrInvalid = errors.New("invalid argument")            // EINVAL: such a call never succeeds
	ErrBusy    = errors.New("still in use")                // EBUSY: something depends on the object
	ErrFull    = errors.New("no room in the memory table") // ENOMEM: a limit below has been reached
)

// Limits of one table, those that the Linux soft-RoCE driver reports for a device (section 12.3).
const (
	MaxRegions = 1<<19 - 1
	MaxWindows = 1<<19 - 1
	MaxPDs     = 1 << 20
)
