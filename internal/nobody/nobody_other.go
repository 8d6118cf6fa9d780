//go:build !linux

// Package nobody is for Linux; elsewhere its names are there, so that tests compile.
package nobody

import (
	"errors"
	"os/exec"
	"testing"
)

// Runs skips the test.
func Runs(t testing.TB, _ *exec.Cmd) { t.Skip("programs run as an ordinary user on Linux only") }

// Copies fails.
func Copies(string) (string, error) { return "", errors.ErrUnsupported }

// Folder is one of the test's.
func Folder(t testing.TB) string { return t.TempDir() }
