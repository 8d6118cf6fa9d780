package lab

// Commands in the guest, with the manners of os/exec. Stages of one command: Start sends it and
// starts the pump of its input; frames from the agent queue up in deliver and are written out by
// one goroutine; Wait returns when the exit message was reached in that queue, so that all output
// is there.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/interop/lab/link"
)

// A Cmd is a command in the guest. Fields are set before Start.
type Cmd struct {
	Args   []string  // the program, by name or path in the guest, and its arguments
	Env    []string  // added to the guest's environment
	Dir    string    // working folder; empty: /
	Stdin  io.Reader // nil: /dev/null. A Read that never returns delays nothing.
	Stdout io.Writer // nil: thrown away
	Stderr io.Writer // nil: thrown away. The same writer as Stdout is allowed.

	lab     *Lab
	ctx     context.Context
	id      uint32
	started bool
	frames  *link.Queue
	input   *link.Window
	done    chan struct{} // closed when exit is set
	exit    error
}

// An ExitError tells that a command in the guest ran and did not succeed.
type ExitError struct {
	Args   []string
	Code   int            // its exit status, or -1
	Signal syscall.Signal // the signal that ended it, or 0
	Stderr []byte         // the end of its standard error, when Output ran it
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != 0 {
		how = fmt.Sprintf("ended by signal %d (%s)", int(e.Signal), e.Signal)
	}
	text := fmt.Sprintf("guest: %s: %s", strings.Join(e.Args, " "), how)
	if len(e.Stderr) > 0 {
		text += ": " + lastLines(string(e.Stderr), 5)
	}
	return text
}

// Command prepares a command in the guest. When ctx is done before it ends, it gets SIGKILL, with
// its process group.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, args...), lab: l, ctx: ctx}
}

// Start starts the command. That it cannot be executed shows in Wait.
func (c *Cmd) Start() error {
	if c.started {
		return fmt.Errorf("guest: %s was started before: make a new Cmd", c.Args[0])
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.started = true
	c.frames, c.input, c.done = link.NewQueue(), link.NewWindow(link.StreamWindow), make(chan struct{})
	if err := c.lab.enroll(c); err != nil {
		return err
	}
	body := link.StartBody{Argv: c.Args, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin != nil}
	if err := c.lab.conn.SendJSON(c.id, link.Start, body); err != nil {
		err = fmt.Errorf("guest: start %s: %w", c.Args[0], err)
		c.lab.fail(err)
		return err
	}
	go c.receive()
	if c.Stdin != nil {
		go c.sendInput()
	}
	go c.watch()
	return nil
}

// enroll gives the command its number.
func (l *Lab) enroll(c *Cmd) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return l.down
	}
	l.nextID++
	c.id = l.nextID
	l.procs[c.id] = c
	return nil
}

// abandon ends a command without the guest's consent.
func (l *Lab) abandon(c *Cmd, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.procs[c.id] == c {
		delete(l.procs, c.id)
		c.lose(errors.New(why))
	}
}

// deliver takes a message of the agent; it never blocks.
func (c *Cmd) deliver(f link.Frame) {
	if f.Kind == link.Credit {
		c.input.Give(link.CreditOf(f))
		return
	}
	c.frames.Push(f)
}

// lose ends the command because the guest is gone.
func (c *Cmd) lose(why error) {
	data, _ := json.Marshal(link.ExitBody{Error: why.Error(), Code: -1})
	c.frames.Push(link.Frame{ID: c.id, Kind: link.Exit, Data: data})
}

// receive writes the command's output to where it belongs, and ends with its exit message.
func (c *Cmd) receive() {
	var writeErr error
	for {
		f, _ := c.frames.Pop()
		var to io.Writer
		switch f.Kind {
		case link.Stdout:
			to = c.Stdout
		case link.Stderr:
			to = c.Stderr
		case link.Exit:
			c.input.Close()
			if c.exit = c.exitError(f.Data); c.exit == nil {
				c.exit = writeErr
			}
			close(c.done)
			return
		}
		if to != nil && writeErr == nil {
			_, writeErr = to.Write(f.Data)
		}
		c.lab.conn.SendCredit(c.id, len(f.Data)) // an error here shows at the reading side, too
	}
}

func (c *Cmd) exitError(data []byte) error {
	var body link.ExitBody
	if err := json.Unmarshal(data, &body); err != nil {
		return fmt.Errorf("guest: %s: exit message not understood: %w", c.Args[0], err)
	}
	switch {
	case body.Error != "" && c.ctx.Err() != nil:
		return fmt.Errorf("guest: %s: %s: %w", c.Args[0], body.Error, c.ctx.Err())
	case body.Error != "":
		return fmt.Errorf("guest: %s: %s", c.Args[0], body.Error)
	case body.Code != 0 && c.ctx.Err() != nil:
		return fmt.Errorf("guest: %s: killed: %w", c.Args[0], c.ctx.Err())
	case body.Code != 0:
		return &ExitError{Args: c.Args, Code: body.Code, Signal: syscall.Signal(body.Signal)}
	}
	return nil
}

func (c *Cmd) sendInput() {
	buf := make([]byte, link.MaxData)
	for {
		n, err := c.Stdin.Read(buf)
		if n > 0 && (!c.input.Take(n) || c.lab.conn.Send(c.id, link.Stdin, buf[:n]) != nil) {
			return
		}
		if err != nil {
			c.lab.conn.Send(c.id, link.StdinEnd, nil)
			return
		}
	}
}

func (c *Cmd) watch() {
	select {
	case <-c.done:
	case <-c.ctx.Done():
		c.Signal(syscall.SIGKILL)
		grace := time.NewTimer(c.lab.killGrace)
		defer grace.Stop()
		select {
		case <-c.done:
		case <-grace.C:
			c.lab.abandon(c, "the guest does not answer")
		}
	}
}

// defaultKillGrace is how long the guest may take to kill a command before Wait gives up on it: a
// crashed kernel never does.
const defaultKillGrace = 20 * time.Second

// Signal sends a signal to the command and its process group. A command that has ended ignores it.
func (c *Cmd) Signal(sig syscall.Signal) error {
	if !c.started {
		return fmt.Errorf("guest: %s was not started", c.Args[0])
	}
	return c.lab.conn.Send(c.id, link.Signal, []byte{byte(sig)})
}

// Done is closed when the command has ended and all its output was written. It is nil before Start.
func (c *Cmd) Done() <-chan struct{} { return c.done }

// Wait waits until the command has ended and all its output was written. An exit status other than
// 0 gives an *ExitError.
func (c *Cmd) Wait() error {
	if !c.started {
		return fmt.Errorf("guest: %s was not started", c.Args[0])
	}
	<-c.done
	return c.exit
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output; the end of its standard error is in the
// *ExitError.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	complaint := &tailWriter{to: c.Stderr}
	c.Stdout, c.Stderr = &out, complaint
	err := c.Run()
	var exit *ExitError
	if errors.As(err, &exit) {
		exit.Stderr = []byte(complaint.tail())
	}
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error, in the order
// in which they came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// PutFile writes a file into the guest, folders above it included; mode is its permissions.
func (l *Lab) PutFile(ctx context.Context, there string, mode os.FileMode, content io.Reader) error {
	if !path.IsAbs(there) {
		return fmt.Errorf("put file %q into the guest: an absolute path is right", there)
	}
	c := l.Command(ctx, "/init", "put", there, strconv.FormatUint(uint64(mode.Perm()), 8))
	c.Stdin = content
	_, err := c.Output()
	return err
}

// CopyFile copies a file of the host into the guest with its permissions.
func (l *Lab) CopyFile(ctx context.Context, here, there string) error {
	f, err := os.Open(here)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return l.PutFile(ctx, there, info.Mode(), f)
}

// ReadFile returns the content of a file of the guest.
func (l *Lab) ReadFile(ctx context.Context, there string) ([]byte, error) {
	return l.Command(ctx, "cat", "--", there).Output()
}

// WaitListening waits until a TCP socket in the guest listens on port: most RDMA test programs say
// by this that they are ready.
func (l *Lab) WaitListening(ctx context.Context, port int) error {
	_, err := l.Command(ctx, "/init", "wait-tcp", strconv.Itoa(port)).Output()
	return err
}
