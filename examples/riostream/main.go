// Command riostream writes directly into the memory of the other end's program, to and fro. It
// speaks the protocol of rdma-core's riostream -T v: either end may be that program.
//
//	riostream               answers one client
//	riostream -s SERVER     asks, and says how long that took
//
// On one machine the two need an address each: riostream -b 127.0.0.1, riostream -b 127.0.0.2 -s
// 127.0.0.1.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/roce/rsocket"
)

func main() {
	bind := flag.String("b", "", "this end's `address`; all, or what the system chooses, if there is none")
	server := flag.String("s", "", "the server's `address`; without this end serves")
	port := flag.String("p", "7471", "RDMA `port`")
	t := transfer{}
	flag.IntVar(&t.size, "S", 1000, "`bytes` of a write, 2 or more, the same at both ends")
	flag.IntVar(&t.count, "C", 1000, "`writes` in a row, of which the last is looked at")
	flag.IntVar(&t.rounds, "I", 1, "`rounds`")
	flag.Parse()
	if flag.NArg() > 0 || t.size < 2 || t.count < 1 || t.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := connect(ctx, *bind, *server, *port)
	if err != nil {
		log.Fatal(err)
	}
	begin := time.Now()
	if err = t.play(ctx, c, *server != ""); err != nil {
		log.Fatal(err)
	}
	took, n := time.Since(begin), 2*t.count*t.rounds
	fmt.Printf("%d writes of %d bytes, %.2f us each, all as they should be\n", n, t.size, took.Seconds()*1e6/float64(n))
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
}

func connect(ctx context.Context, bind, server, port string) (*rsocket.Conn, error) {
	options := rsocket.Options{Config: rsocket.Config{Maps: 1}} // of the other end's memory
	if server != "" {
		if bind != "" {
			var err error
			if options.Local, err = netip.ParseAddr(bind); err != nil {
				return nil, err
			}
		}
		return (&rsocket.Dialer{Options: options}).Dial(ctx, net.JoinHostPort(server, port))
	}
	l, err := rsocket.Listen(ctx, net.JoinHostPort(bind, port), &options)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	log.Printf("listening on %v", l.Addr())
	return l.AcceptContext(ctx)
}

// transfer is what both ends have agreed on. The last byte of a write says which one it is; what is
// before it counts on from one looked-at write to the next, at each end.
type transfer struct{ size, count, rounds int }

func (t *transfer) play(ctx context.Context, c *rsocket.Conn, asks bool) error {
	target, err := c.Alloc((t.size + 7) &^ 7)
	if err != nil {
		return err
	}
	there := target.Bytes()[:t.size]
	there[t.size-1] = 0xff // of no first write
	if err := c.Expose(target, 0); err != nil {
		return err
	}
	if err := meet(c, asks); err != nil {
		return err
	}
	// Who watches memory does not see that the other end is gone.
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		_, err := c.Read(make([]byte, 1))
		end(fmt.Errorf("the other end has ended: %w", err))
	}()
	out := make([]byte, t.size)
	out[t.size-1] = 0xff
	var written, seen, marker byte
	for turn := range 2 * t.rounds {
		if (turn%2 == 0) == asks {
			written, err = t.write(c, out, marker, written)
		} else if err = watch(ctx, c, there, marker); err == nil {
			seen, err = verify(there[:t.size-1], seen)
		}
		if err != nil {
			return fmt.Errorf("write %d: %w", turn, err)
		}
		marker++
	}
	return nil
}

// meet is 16 bytes in each direction: both have exposed their memory.
func meet(c *rsocket.Conn, asks bool) error {
	var b [16]byte
	for i := range 2 {
		var err error
		if (i == 0) == asks {
			_, err = c.Write(b[:])
		} else {
			_, err = io.ReadFull(c, b[:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes as often as is agreed; the last time it is the next one.
func (t *transfer) write(c *rsocket.Conn, out []byte, marker, next byte) (byte, error) {
	for i := range t.count {
		if i == t.count-1 {
			for at := range out[:t.size-1] {
				out[at] = next
				next++
			}
			out[t.size-1] = marker
		}
		if _, err := c.WriteAt(out, 0); err != nil {
			return next, err
		}
	}
	return next, nil
}

// watch waits until the last byte is the marker.
func watch(ctx context.Context, c *rsocket.Conn, b []byte, marker byte) error {
	last := len(b) - 1
	word := (*uint64)(unsafe.Pointer(&b[last&^7])) // the memory has a whole one
	there := func() bool {
		w := atomic.LoadUint64(word)
		return (*[8]byte)(unsafe.Pointer(&w))[last&7] == marker
	}
	err := c.PollUntil(ctx, there)
	if err == nil || there() { // what was written before the end
		return nil
	}
	return cmp.Or(context.Cause(ctx), err)
}

func verify(b []byte, next byte) (byte, error) {
	for at, is := range b {
		if is != next {
			return next, fmt.Errorf("byte %d is 0x%02x, want 0x%02x", at, is, next)
		}
		next++
	}
	return next, nil
}
