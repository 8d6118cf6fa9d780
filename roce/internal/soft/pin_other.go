//go:build !linux

package soft

import "errors"

func lockPages(pages) error { return errors.ErrUnsupported }
func unlockPages(pages)     {}

// pinLimit says how much the process may pin.
func pinLimit() string { return "it takes Linux" }
