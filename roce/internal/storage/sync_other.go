//go:build !linux

package storage

import "errors"

// Works says whether Sync can do anything on this system.
const Works = false

// Sync is for Linux.
func Sync([]byte) error { return errors.ErrUnsupported }
