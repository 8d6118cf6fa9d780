// Command echo sends messages, not a stream: each line is one SEND, and comes back as one. The
// connection is rdmacm's, the rest is the verbs: receives that are posted before they are needed,
// and one completion queue.
//
//	echo -listen 10.0.0.1:7471           sends back what comes
//	echo -dial 10.0.0.1:7471             sends the lines that it reads, and prints what comes back
//
// On one machine the two need an address each: echo -dial 127.0.0.1:7471 -from 127.0.0.2.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// most is how long a message may be, depth how many receives are posted.
const (
	most  = 4096
	depth = 16
)

func main() {
	listen := flag.String("listen", "", "send back what comes to this `address:port`")
	dial := flag.String("dial", "", "send the lines of the standard input to this `address:port`")
	from := flag.String("from", "", "the client's `address`; the system chooses if there is none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "":
		err = serve(ctx, *listen, func(at netip.AddrPort) { log.Printf("listening on %v", at) })
	case *dial != "":
		err = ask(ctx, *dial, *from, os.Stdin, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// messenger is an end of a connection: memory for receives, and behind it that of a message to
// send.
type messenger struct {
	conn   *rdmacm.Conn
	memory []byte
	mr     *roce.MR
	wcs    [1]roce.WC
}

// config has a connection's memory made, and its receives posted, before the other end can send.
func config(local netip.Addr) rdmacm.ConnConfig {
	return rdmacm.ConnConfig{Local: local, Cap: roce.QPCap{MaxSendWR: 2, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1},
		Prepare: func(c *rdmacm.Conn) (err error) {
			m := &messenger{conn: c, memory: make([]byte, (depth+1)*most)}
			c.Context = m
			if m.mr, err = c.PD().RegMR(m.memory, roce.LocalWrite); err != nil {
				return err
			}
			c.AtClose(m.mr.Close)
			for i := range depth {
				if err := m.post(i); err != nil {
					return err
				}
			}
			return nil
		}}
}

// post gives receive i back to the queue.
func (m *messenger) post(i int) error {
	return m.conn.QP().PostRecv(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{m.mr.SGE(i*most, most)}})
}

// sent is the WRID of a message that is sent.
const sent = depth

// send sends a message.
func (m *messenger) send(text []byte) error {
	n := copy(m.memory[depth*most:], text)
	return m.conn.QP().PostSend(roce.SendWR{WRID: sent, Opcode: roce.WRSend, Flags: roce.SendSignaled,
		SGL: []roce.SGE{m.mr.SGE(depth*most, n)}})
}

// next waits for the next message, and gives it to f before its memory takes another. io.EOF: the
// other end has left.
func (m *messenger) next(ctx context.Context, f func(text []byte) error) error {
	for {
		if _, err := m.conn.CQ().Wait(ctx, m.wcs[:]); err != nil {
			select {
			case <-m.conn.Done():
				return io.EOF
			default:
				return err
			}
		}
		switch wc := m.wcs[0]; {
		case wc.Status != roce.WCSuccess:
			return fmt.Errorf("request %d: %v", wc.WRID, wc.Status)
		case wc.WRID != sent:
			i := int(wc.WRID)
			return errors.Join(f(m.memory[i*most:][:wc.ByteLen]), m.post(i))
		}
	}
}

// close ends the connection when what was sent has arrived.
func (m *messenger) close() error {
	return m.conn.Close(context.Background())
}

// serve sends back what comes, for one client after the other.
func serve(ctx context.Context, address string, ready func(netip.AddrPort)) error {
	l, err := rdmacm.Listen(ctx, address, &rdmacm.ListenConfig{ConnConfig: config(netip.Addr{})})
	if err != nil {
		return err
	}
	defer l.Close()
	ready(l.Addr())
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		m := c.Context.(*messenger)
		// a Wait ends with the connection, so that the end of a client is noticed
		alive, end := context.WithCancel(ctx)
		stop := context.AfterFunc(ctx, end)
		go func() {
			<-c.Done()
			end()
		}()
		for err == nil {
			err = m.next(alive, m.send)
		}
		stop()
		if err = errors.Join(ignore(err, io.EOF), m.close()); err != nil {
			log.Printf("%v: %v", c.RemoteAddr(), err)
		}
	}
}

// ignore is nil for an error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// ask sends lines, and prints what comes back.
func ask(ctx context.Context, address, from string, in io.Reader, out io.Writer) (err error) {
	var local netip.Addr
	if from != "" {
		if local, err = netip.ParseAddr(from); err != nil {
			return err
		}
	}
	cfg := config(local)
	c, err := rdmacm.Dial(ctx, address, &cfg)
	if err != nil {
		return err
	}
	m := c.Context.(*messenger)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, most)
	for err == nil && lines.Scan() {
		if err = m.send(lines.Bytes()); err == nil {
			err = m.next(ctx, func(text []byte) error {
				_, err := fmt.Fprintf(out, "%s\n", text)
				return err
			})
		}
	}
	return errors.Join(err, lines.Err(), m.close())
}
