//go:build !linux

// Package netns is for Linux, but for what every test program calls.
package netns

// Own does nothing: there are no network namespaces.
func Own() {}
