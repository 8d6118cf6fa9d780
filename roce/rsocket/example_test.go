package rsocket_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

// A server sends back what it gets. Here both ends are in one process, on two devices in memory;
// programs on machines of their own leave Devices away: rsocket.Listen(ctx, ":8080", nil) and
// rsocket.Dial(ctx, "192.0.2.1:8080").
func Example() {
	ctx := context.Background()
	a, b := device("pipe:rsocket"), device("pipe:rsocket")
	defer func() { check(a.Close()); check(b.Close()) }()
	address := fmt.Sprintf("%v:8080", b.GIDs()[0].Addr())

	l, err := rsocket.Listen(ctx, address, &rsocket.Options{Devices: []*roce.Device{b}})
	check(err)
	defer l.Close()
	served := make(chan error)
	go func() {
		c, err := l.Accept() // a net.Conn
		check(err)
		_, err = io.Copy(c, c)
		check(err)
		served <- c.Close()
	}()

	d := rsocket.Dialer{Options: rsocket.Options{Devices: []*roce.Device{a}}}
	c, err := d.Dial(ctx, address)
	check(err)
	_, err = io.WriteString(c, "a stream of bytes over RDMA")
	check(err)
	check(c.CloseWrite())
	back, err := io.ReadAll(c)
	check(err)
	fmt.Printf("%s\n", back)
	check(c.Close())
	check(<-served)
	// Output: a stream of bytes over RDMA
}

func device(name string) *roce.Device {
	d, err := roce.Open(name, nil)
	check(err)
	return d
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
