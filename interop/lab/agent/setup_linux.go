package main

// What the server does before it answers the host. Stages: links to programs, kernel modules,
// addresses, rxe0, and the wait until rxe0 is ACTIVE and its GID table holds the guest's addresses.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/goroce/goroce/interop/lab/link"
)

const portDir = "/sys/class/infiniband/rxe0/ports/1"

// setUp brings the guest to the point where rxe0 can be used, and reports how that went.
func setUp() (hello link.HelloBody) {
	var want link.GuestSetup
	data, err := os.ReadFile(link.SetupPath)
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	stages := []struct {
		name string
		do   func(link.GuestSetup) error
	}{
		{"links", makeLinks},
		{"modules", loadModules},
		{"addresses", addAddresses},
		{"rxe0", addRXE},
		{"active", awaitActive},
	}
	for _, s := range stages {
		if err != nil {
			break
		}
		began := time.Now()
		if err = s.do(want); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
		hello.Stages = append(hello.Stages, link.StageTiming{Stage: s.name, Millis: time.Since(began).Milliseconds()})
	}
	if err != nil {
		hello.Error = err.Error()
	}
	hello.Kernel = strings.TrimSpace(readString("/proc/sys/kernel/osrelease"))
	hello.GIDs = readGIDs()
	return hello
}

func makeLinks(want link.GuestSetup) error {
	for name, target := range want.Links {
		if err := os.Symlink(target, name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func loadModules(want link.GuestSetup) error {
	for _, path := range want.Modules {
		if err := loadModule(path); err != nil {
			return fmt.Errorf("load %s: %w", path, err)
		}
	}
	return nil
}

const sysFinitModule = 313 // finit_module on amd64

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	params := [1]byte{}
	_, _, errno := syscall.Syscall(sysFinitModule, f.Fd(), uintptr(unsafe.Pointer(&params[0])), 0)
	switch errno {
	case 0, syscall.EEXIST, syscall.ENODEV: // ENODEV: made for a feature that this processor lacks
		return nil
	}
	return errno
}

// addAddresses configures lo and eth0. The host is a permanent neighbour: loss that a test asks for
// then hits RoCE packets, and not the address resolution in front of them.
func addAddresses(want link.GuestSetup) error {
	var batch strings.Builder
	batch.WriteString("link set lo up\n")
	fmt.Fprintf(&batch, "link set eth0 mtu %d up\n", want.MTU)
	for _, addr := range want.Addrs {
		nodad := ""
		if strings.Contains(addr, ":") {
			nodad = " nodad"
		}
		fmt.Fprintf(&batch, "addr add %s dev eth0%s\n", addr, nodad)
	}
	for _, addr := range want.HostAddrs {
		fmt.Fprintf(&batch, "neigh replace %s lladdr %s dev eth0 nud permanent\n", addr, want.HostMAC)
	}
	return runWith(batch.String(), "ip", "-batch", "-")
}

func addRXE(link.GuestSetup) error {
	return runWith("", "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0")
}

func runWith(input string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// awaitActive asks sysfs until the port is ACTIVE and all wanted GIDs are there: sysfs offers no
// event to wait for.
func awaitActive(want link.GuestSetup) error {
	deadline := time.Now().Add(90 * time.Second)
	for {
		missing := missingGIDs(want.WantGIDs)
		state := strings.TrimSpace(readString(portDir + "/state"))
		if strings.HasSuffix(state, "ACTIVE") && len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("rxe0 is in state %q (ACTIVE is right), GIDs missing: %v, there: %v",
				state, missing, readGIDs())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func missingGIDs(want []string) (missing []string) {
	have := map[netip.Addr]bool{}
	for _, g := range readGIDs() {
		if addr, err := netip.ParseAddr(g.Addr); err == nil {
			have[addr.Unmap()] = true
		}
	}
	for _, text := range want {
		if addr, err := netip.ParseAddr(text); err != nil || !have[addr] {
			missing = append(missing, text)
		}
	}
	return missing
}

func readGIDs() (gids []link.GID) {
	paths, _ := filepath.Glob(portDir + "/gids/*")
	for _, path := range paths {
		addr := strings.TrimSpace(readString(path))
		index, err := strconv.Atoi(filepath.Base(path))
		if err != nil || addr == "" || strings.Trim(addr, "0:") == "" {
			continue
		}
		kind := strings.TrimSpace(readString(fmt.Sprintf("%s/gid_attrs/types/%d", portDir, index)))
		gids = append(gids, link.GID{Index: index, Addr: addr, Type: kind})
	}
	sort.Slice(gids, func(i, j int) bool { return gids[i].Index < gids[j].Index })
	return gids
}

func readString(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}
