//go:build !double && !verbs

package roce

// The second kind of device of a build that has none: withHW is false, and the compiler leaves out
// every branch of posting and polling that asks for it.

import (
	"errors"
	"fmt"
	"strings"
)

const withHW = false

// hwQP, hwCQ and hwSRQ are the concrete types that posts and polls go to.
type (
	hwQP  struct{}
	hwCQ  struct{}
	hwSRQ struct{}
)

func isHW(name string) bool { return strings.HasPrefix(name, "verbs:") }

func hwDevices() []DeviceInfo { return nil }

// openHW says what a build needs for the devices of the kernel.
func openHW(*Device, *Config) (provider, error) {
	return nil, fmt.Errorf("%w: this program was built without libibverbs: go build -tags verbs, with libibverbs-dev "+
		"and a C compiler",
		ErrNotSupported)
}

func (*hwQP) PostSend([]SendWR) (int, error)    { return 0, errors.ErrUnsupported }
func (*hwQP) PostSendAll([]SendWR) (int, error) { return 0, errors.ErrUnsupported }
func (*hwQP) PostRecv([]RecvWR) (int, error)    { return 0, errors.ErrUnsupported }
func (*hwSRQ) PostRecv([]RecvWR) (int, error)   { return 0, errors.ErrUnsupported }
func (*hwCQ) Poll([]WC) (int, error)            { return 0, errors.ErrUnsupported }
func (*hwCQ) PollEx([]WCEx) (int, error)        { return 0, errors.ErrUnsupported }
