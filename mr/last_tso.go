//go:build amd64 && !race

package mr

// The last word of a message, on processors that show stores to others in their order (amd64): a
// plain store of an aligned word is whole, and comes after those before it. sync/atomic has only
// the store that is a barrier for loads too, which costs a small message some 5 ns.

func storeLast64(b []byte, v uint64) { *word64(b) = v }
func storeLast32(b []byte, v uint32) { *word32(b) = v }
