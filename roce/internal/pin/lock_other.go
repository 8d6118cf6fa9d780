//go:build !linux

package pin

import "errors"

func lockPages(pages) error { return errors.ErrUnsupported }
func unlockPages(pages)     {}

// limit says how much the process may lock.
func limit() string { return "it takes Linux" }
