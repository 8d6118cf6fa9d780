package browser

// The page as it is served: who may ask the server, and a connection that is cut.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/page"
)

// loopback listens on this machine.
func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// serve serves a site until the test ends, and returns its URL.
func serve(t *testing.T, s *page.Site) string { return serveOn(t, loopback(t), s) }

func serveOn(t *testing.T, l net.Listener, s *page.Site) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	url, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, func(at string) { url <- at }) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return <-url
}

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener
	mu  sync.Mutex
	all []net.Conn
}

func (l *cuttable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, c)
	return c, err
}

func (l *cuttable) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		if c != nil {
			c.Close()
		}
	}
	l.all = nil
}

// token: who has it sees the packets, in every tab and after a reload, and nobody else gets it.
func token(t *testing.T, browser context.Context) {
	site := func() string {
		return serve(t, &page.Site{Count: 100, Read: func(_ context.Context, w *page.Window) error {
			fill(w, records(250))
			return nil
		}})
	}
	const seen = `document.querySelector('#shown')?.textContent === '100 packets'`
	url := site()
	where, secret, _ := strings.Cut(url, "/#token=")
	x := open(t, browser, url, 1400, 900, "light")
	x.wait(seen)
	require.Equal(t, where+"/", value[string](x, `location.href`))
	x.do(chromedp.Reload())
	x.wait(seen)
	second := open(t, browser, url, 1400, 900, "light")
	second.wait(seen)
	second.do(chromedp.Navigate(where+"/#lesson=packets"), chromedp.Reload())
	second.wait(`document.querySelector('#lesson h2')?.textContent === 'A message of several packets'`)
	second.do(chromedp.Click(`//button[text()='Capture']`))
	second.wait(seen)

	// without it
	stranger := open(t, browser, where, 1400, 900, "light")
	stranger.expected = "403"
	stranger.wait(`/open the whole URL that roce trace serve has printed/.test(document.querySelector('#drawing')?.textContent)`)

	// to a server of another user, also in the same tab
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprint(r.URL, r.Header))
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<link rel=icon href=data:,>a page")
	}))
	defer other.Close()
	x.do(chromedp.Navigate(other.URL))
	require.Len(t, got, 1)
	require.NotContains(t, got[0], secret)
	require.NotContains(t, got[0], "Cookie")
	require.Empty(t, value[string](x, `document.cookie + document.referrer + JSON.stringify(sessionStorage).slice(1, -1)`))

	// the URL of another server into the same tab, and one with another token of the same server
	x.do(chromedp.Navigate(site()))
	x.wait(seen)
	second.expected = "403"
	second.do(chromedp.Navigate(where + "/#token=another"))
	second.wait(`/open the whole URL/.test(document.querySelector('#drawing')?.textContent)`)
	second.do(chromedp.Navigate(url))
	second.wait(seen)
}

// liveCut: a connection that ends is made again, and no packet is lost with it.
func liveCut(t *testing.T, browser context.Context) {
	l := page.NewLive("live", 0)
	all := records(40)
	for _, r := range all[:10] {
		l.Add(r)
	}
	listener := &cuttable{Listener: loopback(t)}
	x := open(t, browser, serveOn(t, listener, &page.Site{Live: l}), 1400, 900, "light")
	x.expected = "ERR_"
	x.wait(`document.querySelector('#shown').textContent === '10 packets'`)
	for _, n := range []int{25, 40} {
		listener.cut()
		for _, r := range all[n-15 : n] {
			l.Add(r)
		}
		x.wait(`document.querySelector('#shown').textContent === '` + strconv.Itoa(n) + ` packets'`)
	}
}
