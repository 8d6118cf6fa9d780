//go:build !js

package main

// Elsewhere than in a browser there is nothing to do.

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this program is for the browser: go generate ./trace/page has it compiled for it")
	os.Exit(2)
}
