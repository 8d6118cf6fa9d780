// Command grpc is gRPC over RDMA: nothing is different but the listener of the server and the
// dialer of the client. It is a module of its own, so that gRPC is none of goroce's dependencies.
// What is served is gRPC's health service: a call, and a stream of answers.
//
//	grpc -listen 10.0.0.1:8081
//	grpc -ask 10.0.0.1:8081
//
// On one machine the two need an address each: on loopback the client finds one, elsewhere it is
// told one by -from.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goroce/goroce/roce/rsocket"
)

func main() {
	listen := flag.String("listen", "", "serve on this `address:port`")
	ask := flag.String("ask", "", "ask the server on this `address:port`")
	from := flag.String("from", "", "the client's `address`; the system chooses if there is none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "":
		err = serve(ctx, *listen, func(at string) { log.Printf("serving on %s", at) })
	case *ask != "":
		err = query(ctx, *ask, *from, os.Stdout)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. ready is told where.
func serve(ctx context.Context, address string, ready func(at string)) error {
	l, err := rsocket.Listen(ctx, address, nil)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	context.AfterFunc(ctx, server.Stop)
	ready(l.Addr().String())
	return server.Serve(l)
}

// query asks for the server's health, once by a call and once by a stream.
func query(ctx context.Context, address, from string, out io.Writer) error {
	dialer := &rsocket.Dialer{}
	if from != "" {
		var err error
		if dialer.Local, err = netip.ParseAddr(from); err != nil {
			return err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, "", to)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	answer, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "a call says", answer.Status)
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if answer, err = stream.Recv(); err != nil {
		return err
	}
	fmt.Fprintln(out, "a stream says", answer.Status)
	return nil
}
