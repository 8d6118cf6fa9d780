//go:build !race

package step

// Raced says that the race detector is built in.
const Raced = false
