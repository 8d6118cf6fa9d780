package main

// "bench host": what mpirun starts instead of ssh, for a rank at the other end. With -on it waits
// there for a command line, runs it, and ends; with -at it brings one, and ends with it.

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func hostMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench host", flag.ExitOnError)
	on := f.String("on", "", "address where a command is waited for")
	at := f.String("at", "", "address where it is brought; the host's name follows, and the command")
	f.Parse(args)
	if *on == "" {
		return bring(*at, strings.Join(f.Args()[min(1, f.NArg()):], " "))
	}
	l, err := net.Listen("tcp", *on)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString(0)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", "hostname other; "+strings.TrimSuffix(line, "\x00"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS} // two hosts have two names
	return cmd.Run()
}

// bring has a command run at an address, and returns when it has ended.
func bring(at, line string) error {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, line+"\x00"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}
