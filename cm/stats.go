package cm

import "github.com/goroce/goroce/wire"

// Stats counts what a machine did, message by message as Linux's cm_tx_msgs, cm_tx_retries,
// cm_rx_msgs and cm_rx_duplicates do; the index is the attribute less wire.CMAttrREQ.
type Stats struct {
	Sent       [numAttributes]uint64
	Retried    [numAttributes]uint64 // of those sent: by the timer
	Received   [numAttributes]uint64
	Duplicates [numAttributes]uint64 // of those received: copies, that were answered again
	Drops      [NumDrops]uint64
}

const numAttributes = int(wire.CMAttrAPR-wire.CMAttrREQ) + 1

// Drop is why a message came to nothing.
type Drop uint8

const (
	DropNotCM      Drop = iota // not 256 bytes, or not a message of the connection manager
	DropMalformed              // a field has a value that it cannot have
	DropUnknown                // of a connection that is not known
	DropAddress                // of a connection with another address
	DropUnexpected             // in this state there is nothing to do about it
	DropBacklog                // a request that its listener has no place for
	DropLimit                  // a request that the machine has no place for
	DropFull                   // a message of ours, as too many wait to be sent

	NumDrops = 8
)

var dropNames = [NumDrops]string{"not_cm", "malformed", "unknown", "address", "unexpected", "backlog", "limit", "full"}

// String prints the reason's name.
func (d Drop) String() string { return dropNames[d] }

// Stats returns the counters.
func (m *Machine) Stats() Stats { return m.stats }

func (m *Machine) drop(d Drop) { m.stats.Drops[d]++ }
