//go:build !linux

// Command bench measures goroce against what the machine can do and against its rivals. It needs
// Linux: network namespaces, veth pairs and packet sockets.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux")
	os.Exit(1)
}
