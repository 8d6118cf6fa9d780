//go:build !amd64 || race

package mr

// The last word of a message, where the order of stores must be asked for, and for the race
// detector, which wants to see that.

import "sync/atomic"

func storeLast64(b []byte, v uint64) { atomic.StoreUint64(word64(b), v) }
func storeLast32(b []byte, v uint32) { atomic.StoreUint32(word32(b), v) }
