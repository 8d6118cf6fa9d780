package main

// The server: it runs commands for the host. Stages: find the virtio port, say hello, then for
// every command a process with four pumps (input, two outputs, exit), each under a window so that
// none can stop the others.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/interop/lab/link"
)

func serve() error {
	hello := setUp()
	port, err := openPort()
	if err != nil {
		return err
	}
	s := &server{conn: link.NewConn(port), procs: map[uint32]*proc{}}
	if err := s.conn.SendJSON(0, link.Hello, hello); err != nil {
		return err
	}
	for {
		f, err := s.conn.Recv()
		if err != nil {
			return fmt.Errorf("read from the host: %w", err)
		}
		s.take(f)
	}
}

// openPort opens the virtio-serial port with our name. It stays a blocking descriptor outside Go's
// poller.
func openPort() (*os.File, error) {
	names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, name := range names {
		if strings.TrimSpace(readString(name)) != link.PortName {
			continue
		}
		dev := "/dev/" + filepath.Base(filepath.Dir(name))
		fd, err := syscall.Open(dev, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", dev, err)
		}
		return os.NewFile(uintptr(fd), dev), nil
	}
	return nil, fmt.Errorf("no virtio port is named %s (found %d ports)", link.PortName, len(names))
}

type server struct {
	conn  *link.Conn
	mu    sync.Mutex
	procs map[uint32]*proc
}

// proc is one running command.
type proc struct {
	cmd    *exec.Cmd
	input  *link.Queue
	output *link.Window
}

func (s *server) take(f link.Frame) {
	s.mu.Lock()
	p := s.procs[f.ID]
	s.mu.Unlock()
	switch {
	case f.Kind == link.Start:
		s.start(f)
	case p == nil: // it ended while the message was under way
	case f.Kind == link.Stdin:
		p.input.Push(f)
	case f.Kind == link.StdinEnd:
		p.input.Close()
	case f.Kind == link.Credit:
		p.output.Give(link.CreditOf(f))
	case f.Kind == link.Signal && len(f.Data) == 1:
		syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(f.Data[0]))
	}
}

func (s *server) start(f link.Frame) {
	var body link.StartBody
	if err := json.Unmarshal(f.Data, &body); err != nil || len(body.Argv) == 0 {
		s.exit(f.ID, link.ExitBody{Error: fmt.Sprintf("start message not understood: %v", err), Code: -1})
		return
	}
	p := &proc{
		cmd:    exec.Command(body.Argv[0], body.Argv[1:]...),
		input:  link.NewQueue(),
		output: link.NewWindow(link.StreamWindow),
	}
	p.cmd.Dir = body.Dir
	p.cmd.Env = append(os.Environ(), body.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipes, err := p.connect(body.Stdin)
	if err == nil {
		err = p.cmd.Start()
	}
	pipes.closeGuestEnds()
	if err != nil {
		pipes.closeOurEnds()
		s.exit(f.ID, link.ExitBody{Error: err.Error(), Code: 127})
		return
	}
	s.mu.Lock()
	s.procs[f.ID] = p
	s.mu.Unlock()
	go s.run(f.ID, p, pipes)
}

// pipes are the two ends of a command's standard streams.
type pipes struct {
	in     *os.File // ours, nil when standard input is /dev/null
	out    *os.File // ours
	err    *os.File // ours
	theirs [3]*os.File
}

func (p *proc) connect(wantInput bool) (*pipes, error) {
	ps := &pipes{}
	var err error
	if ps.out, ps.theirs[1], err = os.Pipe(); err != nil {
		return ps, err
	}
	if ps.err, ps.theirs[2], err = os.Pipe(); err != nil {
		return ps, err
	}
	p.cmd.Stdout, p.cmd.Stderr = ps.theirs[1], ps.theirs[2]
	if wantInput {
		if ps.theirs[0], ps.in, err = os.Pipe(); err != nil {
			return ps, err
		}
		p.cmd.Stdin = ps.theirs[0]
	}
	return ps, nil
}

func (ps *pipes) closeGuestEnds() {
	for _, f := range ps.theirs {
		if f != nil {
			f.Close()
		}
	}
}

func (ps *pipes) closeOurEnds() {
	for _, f := range []*os.File{ps.in, ps.out, ps.err} {
		if f != nil {
			f.Close()
		}
	}
}

// outputGrace is how long a command's outputs are still read after it ended, when a process that it
// left behind holds them open.
const outputGrace = 500 * time.Millisecond

func (s *server) run(id uint32, p *proc, ps *pipes) {
	var outputs sync.WaitGroup
	outputs.Add(2)
	go s.pumpOut(id, link.Stdout, p, ps.out, &outputs)
	go s.pumpOut(id, link.Stderr, p, ps.err, &outputs)
	if ps.in != nil {
		go s.pumpIn(id, p, ps.in)
	}
	err := p.cmd.Wait()
	drained := make(chan struct{})
	go func() { outputs.Wait(); close(drained) }()
	grace := time.NewTimer(outputGrace)
	defer grace.Stop()
	select {
	case <-drained:
	case <-grace.C:
		ps.out.SetReadDeadline(time.Now())
		ps.err.SetReadDeadline(time.Now())
		<-drained
	}
	p.input.Close()
	s.mu.Lock()
	delete(s.procs, id)
	s.mu.Unlock()
	ps.out.Close()
	ps.err.Close()
	s.exit(id, exitBody(p.cmd, err))
}

func exitBody(cmd *exec.Cmd, err error) link.ExitBody {
	if cmd.ProcessState == nil {
		return link.ExitBody{Error: err.Error(), Code: -1}
	}
	body := link.ExitBody{Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		body.Signal = int(ws.Signal())
	}
	return body
}

func (s *server) exit(id uint32, body link.ExitBody) {
	if err := s.conn.SendJSON(id, link.Exit, body); err != nil {
		fail("agent: write to the host: " + err.Error())
	}
}

func (s *server) pumpOut(id uint32, kind link.Kind, p *proc, from *os.File, done *sync.WaitGroup) {
	defer done.Done()
	buf := make([]byte, link.MaxData)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.output.Take(n) || s.conn.Send(id, kind, buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pumpIn keeps consuming after the command closed its input, so that the host is never left waiting
// for credit.
func (s *server) pumpIn(id uint32, p *proc, to *os.File) {
	defer to.Close()
	var broken error
	for {
		f, ok := p.input.Pop()
		if !ok {
			return
		}
		if broken == nil {
			_, broken = to.Write(f.Data)
		}
		if err := s.conn.SendCredit(id, len(f.Data)); err != nil {
			return
		}
	}
}
