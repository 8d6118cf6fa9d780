//go:build !linux

package host

// LinkSpeed is not known without Linux's sysfs.
func LinkSpeed(iface string) (mbps int) { return 0 }
