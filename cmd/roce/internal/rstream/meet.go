package rstream

// The two ends meet: a listener that takes one connection after the other, and a dialer; of the
// stream over RDMA, or of TCP.

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

// meet opens the device, and listens if this end is the server.
func (r *run) meet(ctx context.Context) (s *session.Session, err error) {
	if !r.tcp {
		s, err = session.Meet(ctx, session.Options{
			Dev:     r.Dev,
			Pcap:    r.Pcap,
			Records: r.Records,
			Faults:  r.Faults,
		}, r.Bind, r.Server)
		if err != nil {
			return nil, err
		}
	}
	if r.Server != "" {
		return s, nil
	}
	at := net.JoinHostPort(r.Bind, strconv.Itoa(r.Port))
	if r.tcp {
		r.listener, err = net.Listen("tcp", at)
	} else {
		o := r.options(s)
		r.listener, err = rsocket.Listen(ctx, at, &o)
	}
	if err != nil && s != nil {
		s.Close()
	}
	return s, err
}

// options are those of the stream: buffers as large as rstream's.
func (r *run) options(s *session.Session) rsocket.Options {
	size := r.Buffer
	if size == 0 {
		size = 1 << 19
	}
	o := rsocket.Options{Config: rsocket.Config{
		SendBuffer:    size,
		ReceiveBuffer: size,
		Polling:       !r.sleeps,
		KeepAlive:     -1,
	}}
	if r.KeepAlive > 0 {
		o.KeepAlive = time.Duration(r.KeepAlive) * time.Second
	}
	if s != nil {
		o.Devices = []*roce.Device{s.Device}
	}
	return o
}

// connect makes the next connection.
func (r *run) connect(ctx context.Context, s *session.Session) (net.Conn, error) {
	if r.Server == "" {
		stop := context.AfterFunc(ctx, func() { r.listener.Close() })
		defer stop()
		return r.listener.Accept()
	}
	c, err := r.dial(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%w; is its end running, with the same -p (%d)?", err, r.Port)
	}
	return c, nil
}

func (r *run) dial(ctx context.Context, s *session.Session) (net.Conn, error) {
	at := net.JoinHostPort(r.Server, strconv.Itoa(r.Port))
	if r.tcp {
		d := net.Dialer{}
		if r.Bind != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(r.Bind)}
		}
		return d.DialContext(ctx, "tcp", at)
	}
	d := rsocket.Dialer{Options: r.options(s)}
	return d.DialContext(ctx, "", at)
}
