//go:build !linux

package sniff

import (
	"errors"
	"runtime"

	"github.com/goroce/goroce/trace"
)

// Sniffer captures packets. On this system there is none.
type Sniffer struct {
	Idle func() // never called
}

// Open says that it cannot.
func Open(string, *Options) (*Sniffer, error) {
	return nil, errors.New("sniff: capturing needs Linux (AF_PACKET), and this is " + runtime.GOOS)
}

// Next is never called.
func (*Sniffer) Next(*trace.Record) error { return errors.ErrUnsupported }

// Lost is 0.
func (*Sniffer) Lost() (uint64, error) { return 0, errors.ErrUnsupported }

// End does nothing.
func (*Sniffer) End() error { return nil }

// Close does nothing.
func (*Sniffer) Close() error { return nil }
