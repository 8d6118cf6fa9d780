//go:build !verbs || double

package rdmacm

// A build without the tag verbs knows no devices of the kernel.

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/roce"
)

func isKernel(*roce.Device) bool { return false }

func newKernel(a *agent) (speaker, error) {
	return nil, fmt.Errorf("%w: this program was built without the tag verbs", ErrNotSupported)
}

func kernelDevice(netip.Addr) (name string, err error) { _, err = newKernel(nil); return "", err }
