package rdmacm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// One side listens, the other connects and sends a message. Here both are in one process, on two
// devices in memory; programs on machines of their own leave Config away.
func Example() {
	ctx := context.Background()
	a, b := device("pipe:example"), device("pipe:example")
	defer a.Close()
	defer b.Close()
	port := fmt.Sprintf("%v:7471", b.GIDs()[0].Addr())

	// Before the peer can send, memory is registered and a receive posted.
	inbox := make([]byte, 64)
	l, err := rdmacm.Listen(ctx, port, &rdmacm.ListenConfig{ConnConfig: rdmacm.ConnConfig{
		Config: rdmacm.Config{Devices: []*roce.Device{b}},
		Prepare: func(c *rdmacm.Conn) error {
			mr, err := c.PD().RegMR(inbox, roce.LocalWrite)
			if err != nil {
				return err
			}
			c.AtClose(mr.Close)
			return c.QP().PostRecv(roce.RecvWR{SGL: []roce.SGE{mr.SGE(0, mr.Len())}})
		}}})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	c, err := rdmacm.Dial(ctx, port, &rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{a}}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.QP().PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	if err := c.Close(ctx); err != nil { // waits until the message has arrived
		log.Fatal(err)
	}
	var wc [1]roce.WC
	if _, err := s.CQ().Wait(ctx, wc[:]); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", wc[0].Status, inbox[:wc[0].ByteLen])
	s.Close(ctx) // the other side has gone
	// Output: success: hello
}

func device(name string) *roce.Device {
	d, err := roce.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	return d
}
