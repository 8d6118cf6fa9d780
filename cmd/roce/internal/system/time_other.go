//go:build !unix && !windows

package system

import "time"

// ProcessTime is not known here: costs are 0.
func ProcessTime() time.Duration { return 0 }
