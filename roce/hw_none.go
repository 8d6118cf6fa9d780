//go:build !double

package roce

// The second kind of device of a build that has none: withHW is false, and the compiler leaves out
// every branch that asks for it.

import "errors"

const withHW = false

// hwQP and hwCQ are the concrete types that posts and polls go to.
type (
	hwQP struct{}
	hwCQ struct{}
)

func isHW(string) bool { return false }

func openHW(*Device, *Config) (provider, error) { return nil, errors.ErrUnsupported }

func (*hwQP) PostSend([]SendWR) (int, error) { return 0, errors.ErrUnsupported }
func (*hwQP) PostRecv([]RecvWR) (int, error) { return 0, errors.ErrUnsupported }
func (*hwCQ) Poll([]WC) (int, error)         { return 0, errors.ErrUnsupported }
