// The agent is the whole system of the rxe lab's guest: process 1, the set-up of rxe0 and the
// server that runs commands for the host. It uses the standard library only, so that it builds
// static and starts fast.
//
// One binary, told apart by its first argument:
//
//	(none)            process 1: mount the kernel's file systems, start "serve", reap orphans
//	serve             set up modules, addresses and rxe0, then run commands for the host
//	put PATH MODE     write standard input to PATH
//	wait-tcp PORT     return when a TCP socket listens on PORT
//
// The first is in init_linux.go, the second in setup_linux.go and serve_linux.go, the others in
// files_linux.go.
package main

import (
	"fmt"
	"os"
)

func main() {
	if os.Getpid() == 1 {
		runInit()
	}
	if len(os.Args) < 2 {
		fail("agent: no subcommand; one of serve, put PATH MODE, wait-tcp PORT is needed")
	}
	var err error
	switch name, args := os.Args[1], os.Args[2:]; name {
	case "serve":
		err = serve()
	case "put":
		err = put(args)
	case "wait-tcp":
		err = waitTCP(args)
	default:
		err = fmt.Errorf("subcommand %q is unknown: serve, put and wait-tcp exist", name)
	}
	if err != nil {
		fail("agent: " + err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
