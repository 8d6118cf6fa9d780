package page

// The page served on this machine, and its packets to its user only. Stages of a request: the Host
// header must be this server's own name, so that no name that somebody points at 127.0.0.1 gets
// anything; a method that changes nothing; not from another site's page; the token, in a header,
// unless what is asked for is a part of the program → windows of the capture, packets as they come.
// Nothing can be changed here, and no header lets another site read an answer.
//
// The token is behind the # of the URL that was printed: no browser sends that to anybody. The page
// keeps it for its tab and its port (assets/source.js). A cookie would go to every port of this
// machine, so to the servers of its other users.

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/trace/filter"
)

// Site is what is served. Its fields do not change while it is.
type Site struct {
	Title string
	// Read fills a window of the capture, from its first packet on; it is called by one request at
	// a time. nil: there is no capture.
	Read func(ctx context.Context, w *Window) error
	// Study reads the whole capture, once. nil: the page has no verdict.
	Study  func(ctx context.Context, s *Study) error
	Filter string // the expression that the page begins with
	Count  int    // packets of a window; 0: DefaultCount
	Live   *Live  // packets as they come; nil: there are none

	token, host string
	mu          sync.Mutex // over what follows
	window      *Window    // the latest one: its packets are the ones that are opened
	study       *Study     // nil: nobody has asked for it yet
	following   int        // how many follow Live
}

// maxFollowing bounds how many pages follow the packets as they come.
const maxFollowing = 16

// Serve serves until ctx ends, and then returns nil. The listener must be one of a loopback
// address; it is closed. ready gets the URL, with the token, as soon as it works.
func (s *Site) Serve(ctx context.Context, l net.Listener, ready func(url string)) error {
	defer l.Close()
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("page: listening on %v: only a loopback address (127.0.0.1, ::1) may be, as whoever "+
			"reaches it sees the packets", l.Addr())
	}
	s.token, s.host = rand.Text(), at.String()
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	ready("http://" + s.host + "/#token=" + s.token)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// public are the parts of the program, which are the same for everybody: a browser asks for them
// before a script of ours could give it the token.
var public = map[string]http.HandlerFunc{
	"/page.css": constant("text/css; charset=utf-8", style),
	"/page.js":  constant("text/javascript; charset=utf-8", player),
	"/world.js": constant("text/javascript; charset=utf-8", worldSupport),
	"/world.wasm": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/wasm")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(worldProgram())
	},
}

// handler is everything behind the gate.
func (s *Site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.document)
	for path, part := range public {
		mux.HandleFunc(path, part)
	}
	if s.Read != nil {
		mux.HandleFunc("/play", s.play)
	}
	if s.Study != nil {
		mux.HandleFunc("/verdict", s.studied(func(x *Study, _ *http.Request) any { return x.verdict() }))
		mux.HandleFunc("/graph", s.studied(func(x *Study, r *http.Request) any { return x.graph(number(r, "flow")) }))
	}
	if s.Live != nil {
		mux.HandleFunc("/live", func(w http.ResponseWriter, _ *http.Request) {
			p, _ := s.Live.after(0)
			answerPlay(w, p)
		})
		mux.HandleFunc("/events", s.events)
	}
	mux.HandleFunc("/packet", s.packet)
	return s.gate(mux)
}

// gate lets through what this machine's user asks for.
func (s *Site) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", served+"; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch status, why := s.refuse(r); {
		case status == http.StatusMethodNotAllowed:
			h.Set("Allow", "GET, HEAD")
			fallthrough
		case status != 0:
			http.Error(w, why, status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refuse says why a request is refused; 0: it is not.
func (s *Site) refuse(r *http.Request) (status int, why string) {
	_, port, _ := net.SplitHostPort(s.host)
	switch {
	case !isHost(r.Host, s.host) && !isHost(r.Host, "localhost:"+port):
		return http.StatusMisdirectedRequest, "this server is http://" + s.host
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "nothing can be changed here"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.URL.Path != "/" && site != "" && site != "same-origin" &&
		site != "none" {
		return http.StatusForbidden, "another site's page may not ask"
	}
	if r.URL.Path == "/" || public[r.URL.Path] != nil {
		return 0, ""
	}
	if given := r.Header.Get("Authorization"); subtle.ConstantTimeCompare([]byte(given),
		[]byte("Bearer "+s.token)) != 1 {
		return http.StatusForbidden, "open the whole URL that roce trace serve has printed, with its token"
	}
	return 0, ""
}

// isHost says whether a request's Host is this one. Browsers leave the port out if it is 80.
func isHost(given, host string) bool {
	return given == host || given == strings.TrimSuffix(host, ":80")
}

// document is the page itself, without anything of the capture.
func (s *Site) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	g := given{File: s.Read != nil, Live: s.Live != nil, Count: (&Window{Count: s.Count}).room(),
		Study: s.Study != nil, Filter: s.Filter}
	p := parts{
		Title:  "RoCE",
		Policy: served,
		Style:  `<link rel="stylesheet" href="page.css">`,
		Script: `<script src="world.js"></script><script src="page.js"></script>`,
	}
	about, err := json.Marshal(g)
	if err == nil {
		p.Data = data("given", "application/json", about)
		err = document.Execute(w, p)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the browser has gone
	}
}

// constant answers with a text of the program.
func constant(kind string, text func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, text())
	}
}

// answer answers with JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // fails only if the browser has gone
}

func answerPlay(w http.ResponseWriter, p *play) {
	w.Header().Set("Content-Type", "application/json")
	p.encode(w) // the same
}

// number is a number of the query, 0 if it is none.
func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return max(n, 0)
}

// play is a window of the capture.
func (s *Site) play(w http.ResponseWriter, r *http.Request) {
	next := &Window{
		Title: s.Title,
		From:  number(r, "from"),
		Count: s.Count,
		Wrong: number(r, "wrong") > 0,
	}
	if expression := r.URL.Query().Get("filter"); expression != "" {
		f, err := filter.Parse(expression)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		next.Filter = f
	}
	p, err := s.turn(r.Context(), next)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerPlay(w, p) // without the lock: who reads slowly keeps nobody else waiting
}

// turn makes another window the latest one.
func (s *Site) turn(ctx context.Context, next *Window) (*play, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Read(ctx, next); err != nil && next.Damage == "" {
		return nil, err
	}
	s.window = next
	return next.play(false), nil
}

// studied answers with something of the whole capture, which is read at the first request.
func (s *Site) studied(what func(x *Study, r *http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		x, err := s.study, error(nil)
		if x == nil {
			x = NewStudy()
			if err = s.Study(r.Context(), x); err == nil {
				s.study = x
			}
		}
		s.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, what(x, r))
	}
}

// packet is what a packet opens to.
func (s *Site) packet(w http.ResponseWriter, r *http.Request) {
	var d *packet
	n, part := number(r, "n"), number(r, "part")
	switch live := r.URL.Query().Get("of") == "live"; {
	case live && s.Live != nil:
		d = s.Live.open(n)
	case !live && s.Read != nil:
		d = s.openFile(r.Context(), n, part)
	}
	if d == nil {
		http.Error(w, fmt.Sprintf("packet %d is not there any more", n), http.StatusNotFound)
		return
	}
	answer(w, d)
}

// openFile opens a packet of the capture. Another page may have asked for other packets since.
func (s *Site) openFile(ctx context.Context, n, part int) *packet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.window != nil {
		if d := s.window.open(n, part); d != nil {
			return d
		}
	}
	w := &Window{From: n, Count: s.Count}
	if err := s.Read(ctx, w); err != nil && w.Damage == "" {
		return nil
	}
	s.window = w
	return w.open(n, part)
}

// pace is how often a page is told of new packets at most.
const pace = 100 * time.Millisecond

// events are packets as they come: a line of JSON at once, and one whenever there is more.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	if !s.follow(1) {
		http.Error(w, fmt.Sprintf("%d pages follow already", maxFollowing), http.StatusTooManyRequests)
		return
	}
	defer s.follow(-1)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := http.NewResponseController(w)
	seen := number(r, "after")
	for {
		p, changed := s.Live.after(seen)
		if n := len(p.Packets); n > 0 {
			seen = p.Packets[n-1].N
		}
		if p.encode(w) != nil {
			return
		}
		if _, err := io.WriteString(w, "\n"); err != nil || out.Flush() != nil {
			return
		}
		for _, ready := range []<-chan struct{}{changed, after(pace)} {
			select {
			case <-ready:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// after is closed after a while.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// follow counts who follows; it returns false if there are too many.
func (s *Site) follow(by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && s.following >= maxFollowing {
		return false
	}
	s.following += by
	return true
}
