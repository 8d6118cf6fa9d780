//go:build !linux

package rsocket

import (
	"fmt"

	"github.com/goroce/goroce/roce"
)

// signs stand for a file descriptor that this system does not have.
type signs struct{ shown Readiness }

func newSigns() (*signs, error) {
	return nil, fmt.Errorf("%w: only Linux has descriptors of readiness", roce.ErrNotSupported)
}

func (*signs) fd() int              { return -1 }
func (*signs) show(Readiness, bool) {}
func (*signs) close()               {}
