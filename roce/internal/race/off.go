//go:build !race || !unix

// Package race tells the race detector what it cannot see; without the detector, nothing.
package race

// Received says that frames were received.
func Received() {}

// Sends says that frames are going to be sent.
func Sends() {}
