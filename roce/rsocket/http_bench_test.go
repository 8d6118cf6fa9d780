package rsocket

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkHTTP is a request with a small answer on a connection that is kept alive, over the
// stream and over TCP.
func BenchmarkHTTP(b *testing.B) {
	for _, over := range []string{"tcp", "events", "polling"} {
		b.Run(over, func(b *testing.B) {
			var l net.Listener
			var dial func(ctx context.Context, network, address string) (net.Conn, error)
			if over == "tcp" {
				var err error
				l, err = net.Listen("tcp", "127.0.0.1:0")
				require.NoError(b, err)
				dial = (&net.Dialer{}).DialContext
			} else {
				nameA, nameB := wires["udp"]()
				d := &Dialer{Options{Config: Config{Polling: over == "polling"}}}
				d.Devices = append(d.Devices, open(b, nameA))
				o := d.Options
				o.Devices = append(o.Devices[:0:0], open(b, nameB))
				r, err := Listen(bg, net.JoinHostPort(o.Devices[0].GIDs()[0].Addr().String(), "0"), &o)
				require.NoError(b, err)
				l, dial = r, d.DialContext
			}
			answer := make([]byte, 100)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) })}
			served := make(chan error)
			go func() { served <- server.Serve(l) }()
			transport := &http.Transport{DialContext: dial}
			client := &http.Client{Transport: transport}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				resp, err := client.Get("http://" + l.Addr().String())
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(b, err)
				resp.Body.Close()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-us")
			transport.CloseIdleConnections()
			require.NoError(b, server.Shutdown(bg))
			<-served
		})
	}
}
