//go:build !linux

package system

// KeepOn does nothing here.
func KeepOn(last bool) (undo func()) { return func() {} }
