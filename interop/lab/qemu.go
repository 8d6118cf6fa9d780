package lab

// The virtual machine. Stages: put the initramfs together in memory (image archives, then the agent
// with its setup file), build QEMU's command line, start it as a child of the namespace's thread
// with three inherited descriptors.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/goroce/goroce/interop/lab/link"
)

// Descriptors that QEMU inherits, in the order of exec.Cmd.ExtraFiles.
const (
	tapFD    = 3
	agentFD  = 4
	initrdFD = 5
)

const qemuProgram = "qemu-system-x86_64"

// machine is a running QEMU.
type machine struct {
	cmd     *exec.Cmd
	console *tailWriter
	exited  chan struct{} // closed when QEMU is gone
}

// startMachine boots the image. agent is the guest's end of the agent's socket.
func startMachine(ns *netns, cfg Config, im *Image, initrd, tap, agent *os.File, name string) (*machine, error) {
	accel, err := accelerator(cfg)
	if err != nil {
		return nil, err
	}
	m := &machine{console: &tailWriter{to: cfg.Console}, exited: make(chan struct{})}
	m.cmd = exec.Command(qemuProgram,
		"-name", name,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "pc", "-accel", accel, "-cpu", processor(accel),
		"-smp", strconv.Itoa(cfg.CPUs), "-m", strconv.Itoa(cfg.Memory),
		"-kernel", im.file(kernelFile),
		"-initrd", fmt.Sprintf("/proc/self/fd/%d", initrdFD),
		"-append", "console=ttyS0 panic=-1 quiet mitigations=off random.trust_cpu=on no_timer_check tsc=reliable",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-netdev", fmt.Sprintf("tap,id=net,fd=%d", tapFD),
		"-device", "virtio-net-pci,netdev=net,romfile=,mac="+GuestMAC,
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", agentFD),
		"-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=agent,name="+link.PortName,
	)
	if cfg.Wire {
		m.cmd.Args = append(m.cmd.Args, wireDevices(cfg.CPUs)...)
	}
	m.cmd.Stdout, m.cmd.Stderr = m.console, m.console
	m.cmd.ExtraFiles = []*os.File{tap, agent, initrd}
	if err := ns.startApart(m.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", qemuProgram, err)
	}
	go func() {
		m.cmd.Wait()
		close(m.exited)
	}()
	return m, nil
}

// wireTaps are the devices on the host under the ends of the wire.
var wireTaps = [2]string{"wire1", "wire2"}

// wireDevices are two cards with some queues. A driver does zero-copy AF_XDP on those that access
// memory as the guest's platform has them do, and cards of the old kind can not.
func wireDevices(queues int) (args []string) {
	for i, name := range wireTaps {
		mq := map[bool]string{true: "on", false: "off"}[queues > 1]
		args = append(args,
			"-netdev", fmt.Sprintf("tap,id=%[1]s,ifname=%[1]s,queues=%[2]d,script=no,downscript=no,vnet_hdr=off",
				name, queues),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mq=%s,vectors=%d,romfile=,disable-legacy=on,"+
				"iommu_platform=on,mac=02:00:5e:00:03:0%d", name, mq, 2*queues+2, i+1))
	}
	return args
}

// processor is the guest's. Two features that make real ones faster make an emulated one slower, so
// it has neither: the kernel would copy between itself and programs with REP MOVSB, byte by byte,
// at a quarter of the speed, and both stacks would compute CRCs by carry-less multiplication, which
// is emulated bit by bit and loses to tables.
func processor(accel string) string {
	if strings.HasPrefix(accel, "tcg") {
		return "max,-erms,-pclmulqdq"
	}
	return "max"
}

// kill ends QEMU and waits until it is gone.
func (m *machine) kill() {
	m.cmd.Process.Kill()
	<-m.exited
}

// makeInitrd writes the guest's initramfs to a file that exists in memory only.
func makeInitrd(cfg Config, im *Image, agent []byte) (*os.File, error) {
	f, err := memoryFile("goroce-initrd")
	if err != nil {
		return nil, fmt.Errorf("memory for the initramfs: %w", err)
	}
	if err := fillInitrd(f, cfg, im, agent); err != nil {
		f.Close()
		return nil, fmt.Errorf("put the initramfs together: %w", err)
	}
	return f, nil
}

func fillInitrd(f *os.File, cfg Config, im *Image, agent []byte) error {
	names := []string{baseArchive.Name, modulesFile}
	if cfg.Python {
		names = append(names, pythonArchive.Name)
	}
	for _, name := range names {
		from, err := os.Open(im.file(name))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, from)
		from.Close()
		if err != nil {
			return err
		}
	}
	setup, err := json.Marshal(guestSetup(cfg, im))
	if err != nil {
		return err
	}
	c := newCPIO(f)
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "run", "root", "var"} {
		c.add(dir, modeDir|0o755, nil)
	}
	for _, dir := range unmerged {
		c.add("usr/"+dir, modeDir|0o755, nil)
		c.add(dir, modeSymlink|0o777, []byte("usr/"+dir))
	}
	c.add("init", modeRegular|0o755, agent)
	c.add(strings.TrimPrefix(link.SetupPath, "/"), modeRegular|0o644, setup)
	c.add("etc/passwd", modeRegular|0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	c.add("etc/group", modeRegular|0o644, []byte("root:x:0:\n"))
	c.add("etc/hosts", modeRegular|0o644, []byte("127.0.0.1 localhost guest\n"+HostIPv4+" host\n"))
	for there, here := range cfg.Files {
		info, err := os.Stat(here)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(here)
		if err != nil {
			return err
		}
		c.add(merged(there), modeRegular|uint32(info.Mode().Perm()), data)
	}
	return c.close()
}

func guestSetup(cfg Config, im *Image) link.GuestSetup {
	setup := link.GuestSetup{
		MTU:       cfg.MTU,
		Addrs:     []string{GuestIPv4 + prefixIPv4, GuestIPv6 + prefixIPv6},
		HostAddrs: []string{HostIPv4, HostIPv6},
		HostMAC:   HostMAC,
		WantGIDs:  []string{GuestIPv4, GuestIPv6},
		Modules:   im.Manifest.Modules,
		Links:     map[string]string{},
	}
	for program, names := range links {
		for _, name := range names {
			setup.Links["/usr/bin/"+name] = program
		}
	}
	return setup
}

const agentPackage = "github.com/goroce/goroce/interop/lab/agent"

// buildAgent compiles the guest's agent with the go command, which caches all but the last step.
func buildAgent(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "goroce-agent-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, agentPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &complaint, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the guest's agent (inside the goroce module is right): %w: %s",
			err, complaint.Bytes())
	}
	return os.ReadFile(out)
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	mu  sync.Mutex
	to  io.Writer
	buf []byte
}

const tailKeep = 16 << 10

func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailKeep; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	if t.to != nil {
		t.to.Write(p)
	}
	return len(p), nil
}

// has says whether a text is in what is kept, of which tail is the end.
func (t *tailWriter) has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Contains(t.buf, []byte(text))
}

func (t *tailWriter) tail() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastLines(strings.ReplaceAll(string(t.buf), "\r", ""), 20)
}
