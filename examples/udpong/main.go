// Command udpong sends datagrams to and fro over RDMA. It speaks the protocol of rdma-core's
// udpong: either end may be that program, where it can make its socket (docs/rsocket.md, section
// 11).
//
//	udpong               answers
//	udpong -s SERVER     asks, and says how long that took
//
// On one machine the two need an address each: udpong -b 127.0.0.1, udpong -b 127.0.0.2 -s
// 127.0.0.1.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// A message begins with its kind, the client's number, a sequence number, and, in the answer to an
// opEnd, how many messages have come in 32 bits.
const (
	opLogin = iota
	opStart
	opData // the only one without an answer
	opEcho
	opEnd

	atID, atSeq, atCount = 1, 2, 4
	controlSize          = 16
	maxSize              = 2048
)

func main() {
	bind := flag.String("b", "", "this end's `address`; all, if there is none")
	server := flag.String("s", "", "the server's `address`; without this end serves")
	port := flag.String("p", "7174", "`port`")
	size := flag.Int("S", 1000, "`bytes` of a message, 16 to 2048")
	count := flag.Int("C", 1000, "`messages`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0 || *size < controlSize || *size > maxSize || *count < 1:
		flag.Usage()
		os.Exit(2)
	case *server == "":
		err = serve(ctx, net.JoinHostPort(*bind, *port))
	default:
		err = ask(ctx, net.JoinHostPort(*bind, "0"), net.JoinHostPort(*server, *port), *size, *count)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		log.Fatal(err)
	}
}

// listen makes a socket that is closed when ctx ends.
func listen(ctx context.Context, at string) (*rsocket.PacketConn, error) {
	p, err := rsocket.ListenPacket(ctx, at, nil)
	if err == nil {
		context.AfterFunc(ctx, func() { p.Close() })
	}
	return p, err
}

// serve answers all, for ever.
func serve(ctx context.Context, at string) error {
	p, err := listen(ctx, at)
	if err != nil {
		return err
	}
	log.Printf("listening on %v", p.LocalAddr())
	var counts [256]uint32 // by client
	var clients uint8
	for b := make([]byte, maxSize); ; {
		n, from, err := p.ReadFrom(b)
		if err != nil {
			return err
		}
		if n < controlSize {
			continue
		}
		switch b[0] {
		case opLogin:
			log.Printf("client %d is %v", clients, from)
			b[atID] = clients
			clients++
			counts[b[atID]] = 0
		case opStart:
			counts[b[atID]] = 0
		case opEnd:
			binary.BigEndian.PutUint32(b[atCount:], counts[b[atID]])
		default:
			if counts[b[atID]]++; b[0] == opData {
				continue
			}
		}
		if _, err := p.WriteTo(b[:n], from); err != nil {
			log.Print(err)
		}
	}
}

// ask logs in, and sends so many messages that are answered.
func ask(ctx context.Context, at, server string, size, count int) error {
	p, err := listen(ctx, at)
	if err != nil {
		return err
	}
	defer p.Close()
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		return err
	}
	b := make([]byte, maxSize)
	// exchange sends until the answer comes: either may be lost
	exchange := func(op uint8, n int) error {
		b[0], b[atSeq] = op, b[atSeq]+1
		got := make([]byte, maxSize)
		for {
			if _, err := p.WriteTo(b[:n], to); err != nil {
				return err
			}
			p.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			for {
				k, _, err := p.ReadFrom(got)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				if err != nil {
					return err
				}
				if k == n && got[0] == op && got[atSeq] == b[atSeq] {
					copy(b, got[:k])
					return nil
				}
			}
		}
	}
	if err := errors.Join(exchange(opLogin, controlSize), exchange(opStart, controlSize)); err != nil {
		return err
	}
	begin := time.Now()
	for range count {
		if err := exchange(opEcho, size); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	if err := exchange(opEnd, controlSize); err != nil {
		return err
	}
	fmt.Printf("%d messages of %d bytes to and fro, %.1f us each; the server counts %d\n",
		count, size, took.Seconds()*1e6/float64(count), binary.BigEndian.Uint32(b[atCount:]))
	return nil
}
