package soft

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// entropy draws unpredictable numbers for keys, queue pair numbers and starting PSNs: what is hard
// to guess is hard to spoof. It reads ahead, so that a draw costs no system call.
type entropy struct {
	mu   sync.Mutex
	left []byte
	buf  [512]byte
}

// random serves all devices of the process.
var random entropy

// Uint64 may be called from any goroutine.
func (e *entropy) Uint64() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.left) == 0 {
		rand.Read(e.buf[:]) // never fails: the runtime ends the process instead
		e.left = e.buf[:]
	}
	v := binary.LittleEndian.Uint64(e.left)
	clear(e.left[:8]) // what was given away is not kept
	e.left = e.left[8:]
	return v
}
