package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
)

// serve serves a site and returns where, and its token.
func serve(t *testing.T, s *Site) (host, token string) {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	where, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, func(url string) { where <- url }) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		http.DefaultClient.CloseIdleConnections()
	})
	u, err := url.Parse(<-where)
	require.NoError(t, err)
	token, ok := strings.CutPrefix(u.Fragment, "token=")
	require.True(t, ok, u)
	return u.Host, token
}

// request asks with the token, and returns the answer and its text.
func request(t *testing.T, method, host, path, token string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+host+path, nil)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a, string(text)
}

// site is a site of a capture.
func site(t *testing.T) *Site {
	return &Site{Title: hostile, Count: 100, Read: func(_ context.Context, w *Window) error {
		fill(t, w)
		return nil
	}}
}

// TestGate walks the reasons for which a request is refused.
func TestGate(t *testing.T) {
	host, token := serve(t, site(t))
	_, port, _ := net.SplitHostPort(host)
	for _, c := range []struct {
		what, method, path, token string
		header                    []string
		want                      int
	}{
		{"the page", "GET", "/", "", nil, 200},
		{"the page, from a link", "GET", "/", "", []string{"Sec-Fetch-Site", "cross-site"}, 200},
		{"a part of the program", "GET", "/page.js", "", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"by another name of this machine", "GET", "/", "", []string{"Host", "localhost:" + port}, 200},
		{"the head of it", "HEAD", "/play", token, nil, 200},
		{"what it asks for", "GET", "/play", token, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"no token", "GET", "/play", "", nil, 403},
		{"no token for a packet", "GET", "/packet?n=1", "", nil, 403},
		{"no token for what is not there", "GET", "/live", "", nil, 403},
		{"a wrong token", "GET", "/play", "AAAA", nil, 403},
		{"half a token", "GET", "/play", token[:13], nil, 403},
		{"a token without its name", "GET", "/play", "", []string{"Authorization", token}, 403},
		{"a token in the URL", "GET", "/play?token=" + token, "", nil, 403},
		{"a token as a cookie", "GET", "/play", "", []string{"Cookie", "roce-" + port + "=" + token}, 403},
		{"a name that points here", "GET", "/", token, []string{"Host", "evil.example:" + port}, 421},
		{"another port's name", "GET", "/", token, []string{"Host", "127.0.0.1:1"}, 421},
		{"no port", "GET", "/", token, []string{"Host", "127.0.0.1"}, 421},
		{"another site's page for a part", "GET", "/world.wasm", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another site's page", "GET", "/play", token, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port's page", "GET", "/packet?n=1", token, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a form", "POST", "/play", token, nil, 405},
		{"a change", "DELETE", "/", token, nil, 405},
		{"a preflight", "OPTIONS", "/play", token, []string{"Origin", "http://evil.example", "Access-Control-Request-Method", "GET"}, 405},
		{"nothing there", "GET", "/../etc/passwd", token, nil, 404},
	} {
		a, text := request(t, c.method, host, c.path, c.token, c.header...)
		require.Equal(t, c.want, a.StatusCode, c.what)
		for name := range a.Header {
			require.False(t, strings.HasPrefix(name, "Access-Control"), "%s: %s", c.what, name)
		}
		require.Contains(t, a.Header.Get("Content-Security-Policy"), "default-src 'none'", c.what)
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"), c.what)
		require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"), c.what)
		require.NotContains(t, text, token, c.what)
		require.Empty(t, a.Header.Get("Set-Cookie"), c.what)
	}
	_, text := request(t, "GET", host, "/", "")
	require.NotContains(t, text, "<script>", "nothing is inline")
	require.NotContains(t, text, "alert", "nothing of the capture")
}

// TestOtherPorts: another user of the machine serves a page of his own, and the browser of the one
// who looks at a capture opens it. It gets nothing with which he could ask here.
func TestOtherPorts(t *testing.T) {
	host, token := serve(t, site(t))
	var got []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header) }))
	defer other.Close()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for _, url := range []string{"http://" + host + "/#token=" + token, "http://" + host + "/page.js", other.URL} {
		a, err := browser.Get(url)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, 200, a.StatusCode)
	}
	require.Len(t, got, 1)
	require.NotContains(t, fmt.Sprint(got), token)
	require.Empty(t, got[0].Values("Cookie"))
}

// TestOnlyLoopback: a listener that others can reach is refused.
func TestOnlyLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	err = (&Site{}).Serve(t.Context(), l, func(string) { t.Error("it serves") })
	require.ErrorContains(t, err, "only a loopback address")
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestWindows: pages of the capture, and what packets open to, also such of other pages.
func TestWindows(t *testing.T) {
	host, token := serve(t, site(t))
	get := func(path string, v any) int {
		a, text := request(t, "GET", host, path, token)
		if a.StatusCode == 200 {
			require.Equal(t, "application/json", a.Header.Get("Content-Type"))
			require.NotContains(t, text, "<script>", "JSON is escaped for HTML, too")
			require.NoError(t, json.Unmarshal([]byte(text), v))
		}
		return a.StatusCode
	}
	var p play
	require.Equal(t, 200, get("/play?from=101", &p))
	require.Len(t, p.Packets, 100)
	require.Equal(t, 101, p.From)
	require.True(t, p.More)
	require.Empty(t, p.Packets[0].Fields)
	for _, n := range []string{"101", "150", "3"} {
		var x packet
		require.Equal(t, 200, get("/packet?of=file&n="+n, &x))
		require.NotEmpty(t, x.Fields)
		require.NotEmpty(t, x.Bytes)
	}
	for _, path := range []string{"/packet?of=file&n=1000000", "/packet?n=x", "/packet?of=live&n=1", "/live", "/events"} {
		require.Equal(t, 404, get(path, nil), path)
	}
	require.Equal(t, 200, get("/play?from=-5", &p))
	require.Equal(t, 1, p.From)
}

// TestUnreadable: what cannot be read is said.
func TestUnreadable(t *testing.T) {
	host, token := serve(t, &Site{Read: func(context.Context, *Window) error { return errors.New("it is gone") }})
	a, text := request(t, "GET", host, "/play", token)
	require.Equal(t, 500, a.StatusCode)
	require.Equal(t, "it is gone\n", text)
}

// some are the shorter ones of the packets of a simulated world.
func some(t *testing.T) (all []trace.Record) {
	for _, p := range fill(t, &Window{Count: 80}).packets {
		if p.Whole == len(p.Bytes) {
			all = append(all, trace.Record{Time: p.Sent, Link: trace.LinkRaw, Data: p.Bytes, Length: len(p.Bytes)})
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

// TestLive: packets arrive at those who follow, and the newest are kept.
func TestLive(t *testing.T) {
	live := NewLive("live", 20)
	host, token := serve(t, &Site{Live: live})
	records := some(t)
	live.Say(records[0].Time, "begins")
	live.Add(records[0])
	live.Add(trace.Record{Link: trace.LinkRaw, Data: []byte{1, 2, 3}})

	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+host+"/events", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	require.Equal(t, "application/x-ndjson", a.Header.Get("Content-Type"))
	lines := bufio.NewReader(a.Body)
	next := func() (p play) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		return p
	}
	p := next()
	require.Len(t, p.Packets, 1)
	require.Equal(t, "begins", p.Entries[0].Text)
	for _, rec := range records[1:] {
		live.Add(rec)
	}
	kept := live.w.packets // nobody adds any more
	newest := kept[len(kept)-1].N
	last := 1
	for last < newest {
		p = next()
		require.Greater(t, p.Packets[0].N, last)
		last = p.Packets[len(p.Packets)-1].N
	}
	live.Did([]timeline.Entry{{Time: records[0].Time + 7, Node: "198.51.100.9", Record: qp.Record{Kind: qp.RecordRequest, QPN: 9,
		Value: 5}}})
	for len(p.Moments) == 0 {
		p = next()
	}
	require.Equal(t, uint64(5), p.Moments[0].Hosts[len(p.Hosts)-1].QPs[0].SQ[0].WRID)
	stop()

	b, text := request(t, "GET", host, "/live", token)
	require.Equal(t, 200, b.StatusCode)
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	require.Len(t, p.Packets, 20)
	require.Equal(t, newest, p.Packets[19].N)
	b, _ = request(t, "GET", host, "/packet?of=live&n=1", token)
	require.Equal(t, 404, b.StatusCode)
	b, text = request(t, "GET", host, fmt.Sprintf("/packet?of=live&n=%d", newest), token)
	require.Equal(t, 200, b.StatusCode)
	require.Contains(t, text, `"layer":"BTH"`)
}

// TestFollowers: only so many may follow.
func TestFollowers(t *testing.T) {
	s := &Site{}
	for range maxFollowing {
		require.True(t, s.follow(1))
	}
	require.False(t, s.follow(1))
	require.True(t, s.follow(-1))
	require.True(t, s.follow(1))
}

// TestPort80: browsers leave this port out of the Host header, and no other.
func TestPort80(t *testing.T) {
	for _, c := range []struct {
		given, host string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"[::1]", "[::1]:80", true},
		{"127.0.0.1", "127.0.0.1:8080", false},
		{"127.0.0.1:80", "127.0.0.1:8080", false},
		{"evil.example", "127.0.0.1:80", false},
		{"", "127.0.0.1:80", false},
	} {
		require.Equal(t, c.want, isHost(c.given, c.host), c)
	}
}

// stuck is a page that takes nothing of what it has asked for until it is let go.
type stuck struct {
	http.ResponseWriter
	begun, let chan struct{}
	once       sync.Once
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.let
	return len(b), nil
}

// TestSlowPage: a page that does not take its answer keeps no other one waiting.
func TestSlowPage(t *testing.T) {
	s := site(t)
	ask := func() *http.Request { return httptest.NewRequest("GET", "/play", nil) }
	slow := &stuck{ResponseWriter: httptest.NewRecorder(), begun: make(chan struct{}), let: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() { s.play(slow, ask()) })
	<-slow.begun
	a := httptest.NewRecorder()
	s.play(a, ask()) // hangs if the other one holds the lock
	require.Equal(t, 200, a.Code)
	close(slow.let)
	all.Wait()
}
