package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/hub"
)

func init() {
	more = append(more, hubCommand)
}

func hubCommand() *cobra.Command {
	var cfg hub.Config
	var ready int
	var detach bool
	c := &cobra.Command{
		Use:   "hub",
		Short: "Let many processes of this user share addresses: devices named hub:ADDRESS",
		Long: `hub serves the processes of this user in this network namespace that open devices named hub:ADDRESS or hub:INTERFACE.
It gives each its own sockets of the address, to which the kernel steers; what they send and receive does not go through it.

A process that opens such a device starts a hub if there is none, which ends 10 s after the last process. Started by hand it
stays. If it ends earlier, processes go on, and call the next hub.`,
		Example: `  roce hub
  roce hub --processes 15
  roce ps`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg.Log = func(format string, args ...any) {
				fmt.Fprintf(c.OutOrStdout(), "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
			}
			if ready >= 0 {
				closeInherited(ready)
			}
			if detach {
				return startDetached(cfg, ready)
			}
			h, err := hub.New(cfg)
			if err != nil {
				return err
			}
			cfg.Log("hub at %s, for up to %d processes an address", h.Path(), h.Processes)
			if ready >= 0 {
				f := os.NewFile(uintptr(ready), "ready")
				_, err := f.Write([]byte("\n"))
				if err = errors.Join(err, f.Close()); err != nil {
					return fmt.Errorf("--ready %d: %w", ready, err)
				}
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return h.Serve(ctx)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVarP(&cfg.Processes, "processes", "n", hub.DefaultProcesses,
		"how many may have an address, one less than a power of two; with more each has fewer queue pairs")
	f.DurationVar(&cfg.Idle, "idle", 0, "end when nobody has called for so long (default never)")
	f.BoolVar(&detach, "detach", false, "go on in the background")
	f.IntVar(&ready, "ready", -1, "write a byte to this `descriptor` when processes may call, and close it")
	return c
}

// startDetached starts the hub as nobody's child, in a session of its own.
func startDetached(cfg hub.Config, ready int) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(own, "hub", "--processes", strconv.Itoa(cfg.Processes), "--idle", cfg.Idle.String())
	if ready >= 0 {
		c.Args = append(c.Args, "--ready", "3")
		c.ExtraFiles = []*os.File{os.NewFile(uintptr(ready), "ready")}
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

// closeInherited closes what a program that needs a hub has left open to what it starts, as C
// programs do: locks, pipes and ports would stay as long as the hub. What Go has opened itself goes
// to no other program, and is told by that.
func closeInherited(but int) {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range all {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || fd == but {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
