// Command http is net/http over RDMA: nothing is different but the listener of the server and the
// dialer of the client.
//
//	http -listen 10.0.0.1:8080                    serves the working directory
//	http -get http://10.0.0.1:8080/go.mod         prints a file of it
//
// On one machine the two need an address each: on loopback the client finds one, elsewhere it is
// told one by -from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/goroce/goroce/roce/rsocket"
)

func main() {
	listen := flag.String("listen", "", "serve the working directory on this `address:port`")
	get := flag.String("get", "", "print what is at this `URL`")
	from := flag.String("from", "", "the client's `address`; the system chooses if there is none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "":
		err = serve(ctx, *listen, http.FileServer(http.Dir(".")), func(at string) { log.Printf("serving on %s", at) })
	case *get != "":
		err = fetch(ctx, *get, *from, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. ready is told where.
func serve(ctx context.Context, address string, handler http.Handler, ready func(at string)) error {
	l, err := rsocket.Listen(ctx, address, nil)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	context.AfterFunc(ctx, func() { server.Close() })
	ready(l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// fetch prints what is at a URL.
func fetch(ctx context.Context, url, from string, out io.Writer) error {
	dialer := &rsocket.Dialer{}
	if from != "" {
		var err error
		if dialer.Local, err = netip.ParseAddr(from); err != nil {
			return err
		}
	}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; here that is -from", err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %q", url, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
