// Command rcopy copies files over RDMA. It speaks the protocol of rdma-core's rcopy: either end may
// be that program.
//
//	rcopy                                takes files
//	rcopy SOURCE SERVER[:DESTINATION]    copies a file, without a destination to the same name
//
// The server writes wherever a client wants: that is for a network that is trusted.
//
// On one machine the two need an address each: rcopy -b 127.0.0.1, rcopy -b 127.0.0.2 SOURCE
// 127.0.0.1.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// A header is in front of each message; rcopy sends it as it lies in memory.
type header struct {
	Version, Command uint8
	Len              uint16 // of the message, with the header
	Data             uint32 // open: mode of the file; an answer: 0 or an errno
	ID               uint64
}

const headerSize = 16

// The commands. An answer is a header with the bit answer set.
const (
	cmdOpen  = 1 // the path follows, up to a zero
	cmdClose = 2
	cmdWrite = 3 // 64 bits of size follow, and then the file
	answer   = 0x80
)

func main() {
	bind := flag.String("b", "", "this end's `address`; all, or what the system chooses, if there is none")
	port := flag.String("p", "7427", "RDMA `port`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch flag.NArg() {
	case 0:
		err = serve(ctx, net.JoinHostPort(*bind, *port), func(at string) { log.Printf("listening on %s", at) })
	case 2:
		server, path, _ := strings.Cut(flag.Arg(1), ":")
		if path == "" {
			path = flag.Arg(0)
		}
		err = send(ctx, flag.Arg(0), net.JoinHostPort(server, *port), path, *bind)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// serve takes the files of one client after the other, until ctx ends. ready is told where.
func serve(ctx context.Context, address string, ready func(at string)) error {
	l, err := rsocket.Listen(ctx, address, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	context.AfterFunc(ctx, func() { l.Close() })
	ready(l.Addr().String())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
		if err := errors.Join(take(c), c.Close()); err != nil {
			log.Printf("%v: %v", c.RemoteAddr(), err)
		}
		stop()
	}
}

// take does what a client asks for.
func take(c net.Conn) error {
	var file *os.File
	defer func() { file.Close() }()
	for {
		var h header
		if err := binary.Read(c, binary.NativeEndian, &h); err != nil {
			return ignoreEOF(err)
		}
		if h.Version != 0 || h.Len < headerSize {
			return fmt.Errorf("a message of version %d with %d bytes", h.Version, h.Len)
		}
		var err error
		switch rest := int64(h.Len) - headerSize; h.Command {
		case cmdOpen:
			var path []byte
			if path, err = io.ReadAll(io.LimitReader(c, rest)); err == nil {
				name, _, _ := strings.Cut(string(path), "\x00")
				file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, os.FileMode(h.Data).Perm())
			}
		case cmdWrite:
			var size uint64
			if err = binary.Read(c, binary.NativeEndian, &size); err == nil {
				_, err = io.CopyN(file, c, int64(size))
			}
		case cmdClose:
			err = file.Close()
			file = nil
		default:
			err = syscall.EINVAL
		}
		if told := binary.Write(c, binary.NativeEndian, header{
			Command: h.Command | answer,
			Len:     headerSize,
			Data:    errno(err),
			ID:      h.ID,
		}); err == nil {
			err = told
		}
		if err != nil {
			return err
		}
	}
}

// ignoreEOF: a client that has nothing more to say just leaves.
func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// errno is what a client is told of an error.
func errno(err error) uint32 {
	var n syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &n):
		return uint32(n)
	}
	return uint32(syscall.EIO)
}

// send copies a file to a server.
func send(ctx context.Context, source, address, path, from string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	dialer := &rsocket.Dialer{}
	if from != "" {
		if dialer.Local, err = netip.ParseAddr(from); err != nil {
			return err
		}
	}
	c, err := dialer.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	began := time.Now()
	err = transfer(c, file, info, path)
	if err = errors.Join(err, c.Close()); err == nil {
		took := time.Since(began).Seconds()
		fmt.Printf("%d bytes in %.2f seconds = %.2f Gb/sec\n", info.Size(), took, float64(info.Size())*8/1e9/took)
	}
	return err
}

func transfer(c net.Conn, file io.Reader, info os.FileInfo, path string) error {
	padded := make([]byte, (len(path)+8)&^7) // with a zero behind at least
	copy(padded, path)
	if err := ask(c, header{Command: cmdOpen, Data: uint32(info.Mode().Perm())}, padded, nil); err != nil {
		return fmt.Errorf("open %s there: %w", path, err)
	}
	size := binary.NativeEndian.AppendUint64(nil, uint64(info.Size()))
	if err := ask(c, header{Command: cmdWrite}, size, io.LimitReader(file, info.Size())); err != nil {
		return fmt.Errorf("write %s there: %w", path, err)
	}
	return ask(c, header{Command: cmdClose}, nil, nil)
}

// ask sends a command with what belongs to it, and waits for the answer.
func ask(c net.Conn, h header, with []byte, body io.Reader) error {
	h.Len = uint16(headerSize + len(with))
	message, err := binary.Append(nil, binary.NativeEndian, h)
	if err != nil {
		return err
	}
	if _, err = c.Write(append(message, with...)); err != nil {
		return err
	}
	if body != nil {
		if _, err = io.Copy(c, body); err != nil {
			return err
		}
	}
	var says header
	switch err = binary.Read(c, binary.NativeEndian, &says); {
	case err != nil:
		return err
	case says.Command != h.Command|answer:
		return fmt.Errorf("an answer to command %d", says.Command&^answer)
	case says.Data != 0:
		return syscall.Errno(says.Data)
	}
	return nil
}
