//go:build !linux

package transport

// linkSpeed is not known without Linux's sysfs.
func linkSpeed(iface string) (mbps int) { return 0 }
