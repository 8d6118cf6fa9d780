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
	"time"

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

// messenger is an end of a connection: memory in slots, one for each receive and the last for a
// message of its own. A slot is the device's from a post to its completion, so that a message is
// sent back from the slot that it came to, and that is posted again when it has been sent.
type messenger struct {
	conn   *rdmacm.Conn
	memory []byte
	mr     *roce.MR
	wcs    [1]roce.WC
	busy   bool // the last slot is the device's
}

// own is the slot of a messenger's own message. sent is added to a slot in the WRID of a message
// that is sent; the WRID of a receive is its slot.
const (
	own  = depth
	sent = 1 << 32
)

// config has a connection's memory made, and its receives posted, before the other end can send.
func config(local netip.Addr) rdmacm.ConnConfig {
	return rdmacm.ConnConfig{Local: local, Cap: roce.QPCap{
		MaxSendWR:  depth + 1,
		MaxRecvWR:  depth,
		MaxSendSGE: 1,
		MaxRecvSGE: 1,
	},
		Prepare: func(c *rdmacm.Conn) (err error) {
			m := &messenger{conn: c, memory: make([]byte, (depth+1)*most)}
			c.Context = m
			if m.mr, err = c.PD().RegMR(m.memory, roce.LocalWrite); err != nil {
				return err
			}
			c.AtClose(m.mr.Close)
			for slot := range depth {
				if err := m.receive(slot); err != nil {
					return err
				}
			}
			return nil
		}}
}

// text is the first n bytes of a slot.
func (m *messenger) text(slot, n int) []byte { return m.memory[slot*most:][:n] }

// receive has the next message come to a slot.
func (m *messenger) receive(slot int) error {
	return m.conn.QP().PostRecv(roce.RecvWR{WRID: uint64(slot), SGL: []roce.SGE{m.mr.SGE(slot*most, most)}})
}

// send sends the first n bytes of a slot.
func (m *messenger) send(slot, n int) error {
	m.busy = m.busy || slot == own
	return m.conn.QP().PostSend(roce.SendWR{WRID: sent + uint64(slot), Opcode: roce.WRSend, Flags: roce.SendSignaled,
		SGL: []roce.SGE{m.mr.SGE(slot*most, n)}})
}

// step waits for a completion: of a message that has come, n bytes in a slot, or of one that was
// sent, and then came is false. io.EOF: the other end has left.
func (m *messenger) step(ctx context.Context) (slot, n int, came bool, err error) {
	if _, err := m.conn.CQ().Wait(ctx, m.wcs[:]); err != nil {
		select {
		case <-m.conn.Done():
			return 0, 0, false, io.EOF
		default:
			return 0, 0, false, err
		}
	}
	switch wc := m.wcs[0]; {
	case wc.Status == roce.WCWRFlushErr: // nothing has failed before: the end has come
		return 0, 0, false, io.EOF
	case wc.Status != roce.WCSuccess:
		return 0, 0, false, fmt.Errorf("request %d: %v", wc.WRID, wc.Status)
	case wc.WRID == sent+own:
		m.busy = false
		return own, 0, false, nil
	case wc.WRID >= sent:
		slot = int(wc.WRID - sent)
		return slot, 0, false, m.receive(slot)
	default:
		return int(wc.WRID), int(wc.ByteLen), true, nil
	}
}

// close ends the connection when what was sent has arrived.
func (m *messenger) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return m.conn.Close(ctx)
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
			var slot, n int
			var came bool
			if slot, n, came, err = m.step(alive); came {
				err = m.send(slot, n)
			}
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
		if err = m.send(own, copy(m.text(own, most), lines.Bytes())); err == nil {
			err = m.answer(ctx, out)
		}
	}
	return errors.Join(err, lines.Err(), m.close())
}

// answer prints what comes back, and waits until the next line may be sent.
func (m *messenger) answer(ctx context.Context, out io.Writer) error {
	for answered := false; !answered || m.busy; {
		slot, n, came, err := m.step(ctx)
		if err != nil {
			return err
		}
		if came {
			answered = true
			fmt.Fprintf(out, "%s\n", m.text(slot, n))
			if err := m.receive(slot); err != nil {
				return err
			}
		}
	}
	return nil
}
