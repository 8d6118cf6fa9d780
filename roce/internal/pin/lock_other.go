//go:build !linux

package pin

import "errors"

func lockPages(pages) error { return errors.ErrUnsupported }
func unlockPages(pages)     {}

// Limit says how much the process may lock.
func Limit() string { return "it takes Linux" }
