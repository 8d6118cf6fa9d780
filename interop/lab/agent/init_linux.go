package main

// Process 1 of the guest. Stages: mount the kernel's file systems, start the server, reap whatever
// dies, and switch the machine off when the server ends: a guest without its server is of no use,
// and the host sees QEMU exit.

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// mounts are the file systems that programs in the guest expect, in mounting order.
var mounts = []struct{ fstype, dir string }{
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"devtmpfs", "/dev"},
	{"tmpfs", "/tmp"},
	{"tmpfs", "/run"},
	{"tmpfs", "/dev/shm"},
}

func runInit() {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			powerOff(err)
		}
		if err := syscall.Mount(m.fstype, m.dir, m.fstype, 0, ""); err != nil {
			powerOff(fmt.Errorf("mount %s on %s: %w", m.fstype, m.dir, err))
		}
	}
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("HOME", "/root")
	os.Setenv("LC_ALL", "C")
	server := exec.Command("/init", "serve")
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		powerOff(err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == server.Process.Pid {
			powerOff(fmt.Errorf("the server ended: exit status %d, signal %d", status.ExitStatus(), status.Signal()))
		}
		if err != nil && err != syscall.EINTR {
			powerOff(err)
		}
	}
}

func powerOff(why error) {
	fmt.Fprintln(os.Stderr, "agent: switching off:", why)
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}
