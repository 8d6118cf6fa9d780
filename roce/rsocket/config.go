package rsocket

// How large a connection is, and how it waits.

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Config says what connections are like. The zero Config is the default.
type Config struct {
	// SendBuffer and ReceiveBuffer are the bytes of a connection's registered memory, 4096 to 1
	// GiB; 0 is 256 KiB each (librdmacm: 128 KiB). The receive buffer bounds what the other end may
	// send ahead.
	SendBuffer, ReceiveBuffer int
	// Depth is how many messages may be under way in each direction, 16 to 65534; 0 is 384, as
	// librdmacm has it. A message has up to 64 KiB.
	Depth int
	// Maps is how many pieces of memory the other end may expose to this one (Conn.Expose there), 0
	// to 128.
	Maps int

	// Polling has calls that wait poll until what they wait for is there, which takes a processor
	// and saves some microseconds. Otherwise they poll for some microseconds and then sleep.
	Polling bool
	// KeepAlive is how often the other end's device is asked for a sign of life: without, a call
	// that reads waits for ever for a program that was killed. 0 is 15 s, as package net has it;
	// less is never. Conn.SetKeepAlive changes it.
	KeepAlive time.Duration
	// Linger is how long Conn.Close waits at most until the other end has all that was written; 0
	// is 5 s. Less than 0: Close returns at once, and 5 s are spent in the background. So does TCP,
	// and net/http counts on it: it closes connections whose peer is dead while others wait for it.
	// But here what has not arrived when the process ends is lost, and until then the connection is
	// on its device, whose Close says ErrBusy.
	Linger time.Duration
}

// What stands for 0 in a Config.
const (
	defaultBuffer    = 256 << 10
	defaultDepth     = 384
	defaultKeepAlive = 15 * time.Second
	defaultLinger    = 5 * time.Second
)

// filled is the Config with its defaults, or what is wrong with it.
func (c *Config) filled() (Config, error) {
	f := Config{}
	if c != nil {
		f = *c
	}
	or := func(n *int, instead int) {
		if *n == 0 {
			*n = instead
		}
	}
	or(&f.SendBuffer, defaultBuffer)
	or(&f.ReceiveBuffer, defaultBuffer)
	or(&f.Depth, defaultDepth)
	if f.KeepAlive == 0 {
		f.KeepAlive = defaultKeepAlive
	}
	if f.Linger == 0 {
		f.Linger = defaultLinger
	}
	f.ReceiveBuffer &^= 1 // it has two halves
	for _, n := range []struct {
		name            string
		is, least, most int
	}{{"SendBuffer", f.SendBuffer, 4096, 1 << 30}, {"ReceiveBuffer", f.ReceiveBuffer, 4096, 1 << 30},
		{"Depth", f.Depth, 16, 65534}, {"Maps", f.Maps, 0, 128}} {
		if n.is < n.least || n.is > n.most {
			return f, fmt.Errorf("rsocket: Config.%s is %d: %w: want %d to %d",
				n.name, n.is, roce.ErrInvalid, n.least, n.most)
		}
	}
	return f, nil
}

// inline is what a queue pair must take as inline data: an entry of a table.
const inline = stream.MapSize

// queuePair is the size of the queue pair of a connection.
func (c *Config) queuePair() roce.QPCap {
	return roce.QPCap{MaxSendWR: uint32(c.Depth + stream.ControlDepth), MaxRecvWR: uint32(stream.ReceiveDepth(c.Depth)),
		MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: inline}
}
