package ends

// What is done over the connections, each work with its client and its server.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// work is what both ends do.
type work struct {
	client func(context.Context, *Task) (*Result, error)
	serve  func(net.Listener, *Task) error
}

var works = map[string]work{
	"stream": {stream, each(swallow)},
	"trip":   {crowd(trip), each(echo)},
	"http":   {crowd(request), serveHTTP},
	"setup":  {setUps, each(hangUp)},
}

// crowdWarmUp is how much of its time a crowd works before it counts.
const crowdWarmUp = 0.2

// each serves every connection by itself.
func each(serve func(net.Conn, *Task) error) func(net.Listener, *Task) error {
	return func(l net.Listener, t *Task) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				serve(c, t)
				c.Close()
			}()
		}
	}
}

// swallow reads to the end, and says that it is there.
func swallow(c net.Conn, t *Task) error {
	// Not io.Copy: it would not read into memory, where the reader has a WriteTo.
	for p := make([]byte, max(t.Size, 1)); ; {
		if _, err := c.Read(p); err != nil {
			if errors.Is(err, io.EOF) {
				_, err = c.Write(p[:1])
			}
			return err
		}
	}
}

// hangUp ends the connection at once: who does it first has the time-wait, which then keeps no port
// of the client's from being used again.
func hangUp(c net.Conn, _ *Task) error { return c.Close() }

// echo sends back what comes.
func echo(c net.Conn, t *Task) error {
	for p := make([]byte, max(t.Size, 1)); ; {
		n, err := c.Read(p)
		if err == nil {
			_, err = c.Write(p[:n])
		}
		if err != nil {
			return err
		}
	}
}

// stream writes until the time is up, and waits for the other end to have it all.
func stream(ctx context.Context, t *Task) (*Result, error) {
	c, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	p, sent, start := make([]byte, t.Size), 0, time.Now()
	for time.Since(start) < t.Duration {
		n, err := c.Write(p)
		sent += n
		if err != nil {
			return nil, err
		}
	}
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return nil, errors.New("dial: the connection has no half close")
	}
	if err := half.CloseWrite(); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, p[:1]); err != nil {
		return nil, err
	}
	return &Result{Gbps: float64(sent) * 8 / time.Since(start).Seconds() / 1e9}, nil
}

// crowd has as many clients as there are to be connections. open makes what one does again and
// again, and what ends it.
func crowd(open func(context.Context, *Task) (again func() error, end func(), err error)) func(context.Context,
	*Task) (*Result, error) {
	return func(ctx context.Context, t *Task) (*Result, error) {
		var mu sync.Mutex
		var group sync.WaitGroup
		all, errs := newTally(), make(chan error, t.Connections)
		counts := time.Now().Add(time.Duration(crowdWarmUp * float64(t.Duration)))
		for range t.Connections {
			group.Go(func() {
				mine, err := client(ctx, t, open, counts)
				mu.Lock()
				defer mu.Unlock()
				if all.times.Merge(mine.times); err != nil {
					errs <- err
				}
			})
		}
		group.Wait()
		select {
		case err := <-errs:
			return nil, err
		default:
			r := all.result()
			if r.Exchanges == 0 {
				return nil, errors.New("dial: nothing was done in time")
			}
			r.PerSecond = float64(r.Exchanges) / t.Duration.Seconds()
			return r, nil
		}
	}
}

// client is one of a crowd.
func client(ctx context.Context, t *Task, open func(context.Context, *Task) (func() error, func(), error),
	counts time.Time) (tally, error) {
	times := newTally()
	again, end, err := open(ctx, t)
	if err != nil {
		return times, err
	}
	defer end()
	for until := counts.Add(t.Duration); time.Now().Before(until); {
		start := time.Now()
		if err := again(); err != nil {
			return times, err
		}
		if start.After(counts) {
			times.add(time.Since(start))
		}
	}
	return times, nil
}

// trip is a message and its echo.
func trip(ctx context.Context, t *Task) (func() error, func(), error) {
	c, err := t.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	p := make([]byte, t.Size)
	return func() error {
		_, err := c.Write(p)
		if err == nil {
			_, err = io.ReadFull(c, p)
		}
		return err
	}, func() { c.Close() }, nil
}

// setUps is a crowd that sets up connections while there is another one, as in most programs:
// without any the device would be opened and closed each time.
func setUps(ctx context.Context, t *Task) (*Result, error) {
	c, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return crowd(setup)(ctx, t)
}

// setup dials, and closes when the other end has.
func setup(ctx context.Context, t *Task) (func() error, func(), error) {
	return func() error {
		c, err := t.dial(ctx)
		if err != nil {
			return err
		}
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			return fmt.Errorf("dial: %d bytes and %v instead of the end", n, errors.Join(err, c.Close()))
		}
		return c.Close()
	}, func() {}, nil
}

// request is a GET over a connection that is kept.
func request(ctx context.Context, t *Task) (func() error, func(), error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return t.dial(ctx)
	}}
	client := &http.Client{Transport: transport}
	return func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Peer.String()+"/", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && n != int64(t.Size) {
			err = errors.New("dial: a body of the wrong length")
		}
		return err
	}, transport.CloseIdleConnections, nil
}

func serveHTTP(l net.Listener, t *Task) error {
	body := strings.Repeat("x", t.Size)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
}
