//go:build !linux

// The agent is process 1 of a Linux guest; on other systems there is nothing for it to do.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr,
		"agent: this program is the first process of the rxe lab's Linux guest: build it with GOOS=linux")
	os.Exit(1)
}
