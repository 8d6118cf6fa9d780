package netns

// A network for a whole test program: on that of the machine there are other test programs, which
// use the same ports and groups, and so much traffic that packets are lost.

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownEnv is the environment variable of a test program that has a network of its own. Programs that
// it starts inherit both.
const ownEnv = "GOROCE_TEST_OWN_NETWORK"

// Own gives the test program a network namespace of its own, whose lo is up, and in which UDP port
// 4791 is free: it executes the program once more, as the same process. TestMain calls it first.
// Without root the program stays on the network of the machine, so tests still choose addresses
// that no other program is likely to have.
func Own() {
	if os.Getenv(ownEnv) != "" {
		if err := raiseLoopback(); err != nil {
			panic(fmt.Sprint("lo of our own network namespace: ", err))
		}
		return
	}
	runtime.LockOSThread() // what a thread unshares is kept by the program that it executes
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return
	}
	program, err := os.Executable()
	if err == nil {
		err = syscall.Exec(program, os.Args, append(os.Environ(), ownEnv+"=1"))
	}
	panic(fmt.Sprint("executing the test program once more: ", err))
}

// raiseLoopback takes lo up. It is so already where a program that this one was started by has it.
func raiseLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
