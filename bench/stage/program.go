//go:build linux

// Programs on the stage. Stages of one play of two: the server starts at B and opens its port; the
// client runs at A until it ends or its time is up; then the server may finish, and is killed if it
// does not.
package stage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is a command line with its environment.
type Program struct {
	Args []string
	Env  []string // added to ours
}

// Play is a server and its client.
type Play struct {
	Server, Client Program
	Ready          Port          // that the server opens when it is ready; zero: do not wait
	Limit          time.Duration // for the client, and for what the server still does after it
	Back           bool          // of a Bottleneck: the client is at the receiver
	Stays          bool          // the server never ends by itself: it is killed after the client
}

// Port is a port that a server opens.
type Port struct {
	Proto  string // "tcp" or "udp"
	Number int
}

// finishing is how long a server may live on after its client: most end by themselves, some wait
// for ever.
const finishing = time.Second

// Outcome is what came of a play.
type Outcome struct {
	Server, Client []byte    // what they wrote to their standard output
	Began, Ended   time.Time // the life of the client
}

// Run performs a play.
func (s *Stage) Run(ctx context.Context, p Play) (Outcome, error) { return s.run(ctx, s.B, p) }

// run has the server at an end.
func (s *Stage) run(ctx context.Context, there *End, p Play) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Limit+finishing)
	defer cancel()
	server, err := there.start(ctx, p.Server)
	if err != nil {
		return o, fmt.Errorf("server: %w", err)
	}
	defer server.stop()
	if err := server.waitOpen(ctx, p.Ready); err != nil {
		return o, fmt.Errorf("server: %w", err)
	}
	o.Began = time.Now()
	client, err := s.A.start(ctx, p.Client)
	if err != nil {
		return o, fmt.Errorf("client: %w", err)
	}
	defer client.stop()
	err = client.wait(ctx)
	o.Ended, o.Client = time.Now(), client.stdout.Bytes()
	if err != nil {
		server.stop()
		return o, fmt.Errorf("client: %w; server: %s", err, server.lastWords())
	}
	patience := finishing
	if p.Stays {
		patience = 0
	}
	select {
	case <-server.ended:
		err = server.err
	case <-time.After(patience):
		server.stop()
	}
	if err != nil {
		err = fmt.Errorf("server: %w", server.explain(err))
	}
	o.Server = server.stdout.Bytes()
	return o, err
}

// Run runs a program alone and returns its standard output.
func (e *End) Run(ctx context.Context, p Program, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	proc, err := e.start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer proc.stop()
	err = proc.wait(ctx)
	return proc.stdout.Bytes(), err
}

// process is a started program.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
	err            error // valid when ended is closed
}

func (e *End) start(ctx context.Context, p Program) (*process, error) {
	proc := &process{cmd: exec.CommandContext(ctx, p.Args[0], p.Args[1:]...), ended: make(chan struct{})}
	proc.cmd.Env = append(os.Environ(), p.Env...)
	proc.cmd.Stdout, proc.cmd.Stderr = &proc.stdout, &proc.stderr
	proc.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	proc.cmd.Cancel = func() error { return proc.kill() }
	proc.cmd.WaitDelay = finishing
	if err := e.thread.Start(proc.cmd); err != nil {
		return nil, err
	}
	go func() {
		proc.err = proc.cmd.Wait()
		close(proc.ended)
	}()
	return proc, nil
}

// wait waits for the end of a program; ctx kills it.
func (p *process) wait(ctx context.Context) error {
	<-p.ended
	if ctx.Err() != nil {
		return p.explain(fmt.Errorf("%w: did not end in time", ctx.Err()))
	}
	if p.err != nil {
		return p.explain(p.err)
	}
	return nil
}

// stop kills the program with all that it started, which may go on when it has ended.
func (p *process) stop() {
	_ = p.kill() // or nothing is left
	<-p.ended
}

// kill kills the program's process group.
func (p *process) kill() error {
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != syscall.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

// explain adds what the program complained of.
func (p *process) explain(err error) error {
	return fmt.Errorf("%s: %w: %s", p.cmd.Path, err, p.lastWords())
}

// lastWords are the end of what the program complained of, or else of what it said.
func (p *process) lastWords() string {
	said := strings.TrimSpace(p.stderr.String())
	if said == "" {
		said = strings.TrimSpace(p.stdout.String())
	}
	if len(said) > 600 {
		said = "… " + said[len(said)-600:]
	}
	return said
}

// waitOpen waits until a socket in the program's namespace has the port.
func (p *process) waitOpen(ctx context.Context, port Port) error {
	if port.Proto == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if isOpen(p.cmd.Process.Pid, port) {
			return nil
		}
		select {
		case <-p.ended:
			return p.explain(errors.New("ended before it was ready"))
		case <-ctx.Done():
			return p.explain(fmt.Errorf("%s port %d did not open", port.Proto, port.Number))
		case <-tick.C:
		}
	}
}

// stateOpen is how /proc/net shows a socket that waits for peers: LISTEN, and for UDP "closed".
var stateOpen = map[string]string{"tcp": "0A", "udp": "07"}

// isOpen looks the port up in the tables of the process's namespace.
func isOpen(pid int, port Port) bool {
	want := fmt.Sprintf(":%04X", port.Number)
	for _, table := range []string{port.Proto, port.Proto + "6"} {
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/net/" + table)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			col := strings.Fields(lines.Text())
			if len(col) > 3 && strings.HasSuffix(col[1], want) && col[3] == stateOpen[port.Proto] {
				return true
			}
		}
	}
	return false
}
