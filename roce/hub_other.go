//go:build !linux

package roce

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/roce/internal/soft"
)

// hubName tells whether a name is that of a device whose address several processes have.
func hubName(name string) (where string, ok bool) { return strings.CutPrefix(name, "hub:") }

// openHub is for Linux, whose kernel steers packets to processes.
func openHub(*Device, string, *Config, func(*Config) (*soft.Device, error)) (provider, error) {
	return nil, fmt.Errorf("%w: several processes with one address need Linux", ErrNotSupported)
}
