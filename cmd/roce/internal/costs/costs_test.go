package costs

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/step"
)

// brief is long enough for figures.
const brief = 50 * time.Millisecond

// picture lets a run draw a picture and returns a check that it is what it should be.
func picture(t *testing.T, o *Output) (check func(texts ...string)) {
	o.Plot = filepath.Join(t.TempDir(), "a.svg")
	return func(texts ...string) {
		t.Helper()
		svg, err := os.ReadFile(o.Plot)
		require.NoError(t, err)
		var found []string
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if c, ok := token.(xml.CharData); ok {
				found = append(found, string(c))
			}
		}
		for _, text := range texts {
			require.Contains(t, found, text)
		}
		require.NotContains(t, string(svg), "NaN")
		require.NotContains(t, string(svg), "Inf")
	}
}

// sane says what must hold of every row that was measured. Sockets are there on Unix, ping where
// the system lets us.
func sane(t *testing.T, r *Report) {
	t.Helper()
	for i, row := range r.Results {
		if row.Missing != "" {
			if r.Bytes > maxDatagram {
				require.Contains(t, []string{"ping (ICMP)", "UDP socket"}, row.Name, row.Missing)
			} else {
				require.Equal(t, "ping (ICMP)", row.Name, row.Missing)
			}
			require.True(t, r.Bytes > maxDatagram || strings.Contains(row.Missing, "ping_group_range") ||
				strings.Contains(row.Missing, "no question"), row.Missing)
			continue
		}
		require.Positive(t, row.Min, "%d: %+v", i, row)
		values := []float64{row.Min, row.P50, row.P99, row.P999, row.Max}
		require.True(t, slices.IsSorted(values), "%s: %v", row.Name, values)
		require.GreaterOrEqual(t, row.Messages, uint64(2), row.Name)
		if runtime.GOOS == "linux" {
			require.Positive(t, row.CPU, row.Name)
		}
	}
}

// answerAt makes this program the other end, as the command is its own.
var answerAt = flag.String("answer", "", "answer the client that waits at this TCP `address`")

func TestMain(m *testing.M) {
	netns.Own()
	flag.Parse()
	if *answerAt == "" {
		os.Exit(m.Run())
	}
	if err := Run(context.Background(), io.Discard, nil, Options{Answer: *answerAt, Duration: brief}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures a table and reads what it prints.
func run(t *testing.T, table *Table, o Options) *Report {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("two ends on one machine need two addresses of 127.0.0.0/8, which Linux has")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what would hang
	defer cancel()
	o.JSON, o.Duration, o.Program = true, brief, []string{os.Args[0], "-answer"}
	var out bytes.Buffer
	require.NoError(t, Run(ctx, &out, table, o))
	r := &Report{}
	require.NoError(t, json.Unmarshal(out.Bytes(), r), out.String())
	require.Len(t, r.Results, len(table.ways))
	sane(t, r)
	return r
}

func TestSockets(t *testing.T) {
	o := Options{Size: 64}
	check := picture(t, &o.Output)
	r := run(t, &Sockets, o)
	require.Equal(t, "round trip", r.Of)
	check("TCP socket, polling", "RDMA WRITE, polling", "us of round trip")
}

// The largest message that is a datagram, and one that is none: of that the other ways are
// measured.
func TestLargeSockets(t *testing.T) {
	if step.Raced {
		t.Skip("to watch 2 bytes of memory while another goroutine writes them is what the test does, and a race")
	}
	missing := func(size int) (n int) {
		for _, row := range run(t, &Sockets, Options{Size: size}).Results {
			if row.Name == "UDP socket" && row.Missing != "" {
				require.Contains(t, row.Missing, "65507 bytes at most")
				n++
			}
		}
		return n
	}
	require.Equal(t, 0, missing(maxDatagram))
	require.Equal(t, 2, missing(maxDatagram+1))
}

// How many packets a message takes follows from what is posted: a WRITE and now and then an
// acknowledgement; with an atomic behind it two requests and its answer; with a SEND two.
func TestNotify(t *testing.T) {
	o := Options{Size: 64}
	check := picture(t, &o.Output)
	r := run(t, &Notify, o)
	for i, row := range r.Results {
		least := float64(len(notices[Notify.ways[i].notice].posts))
		if Notify.ways[i].notice == byFlag {
			least++
		}
		require.GreaterOrEqual(t, row.Packets, least, row.Name)
		require.Less(t, row.Packets, least+2.5, row.Name)
	}
	check("trailing SEND, events", "us of half a round trip")
}

// Messages that are not inline, of a size that ends in the middle of a word.
func TestOddSizes(t *testing.T) {
	if step.Raced {
		t.Skip("to watch 2 bytes of memory while another goroutine writes them is what the test does, and a race")
	}
	sizes := []int{333, minSize, 100_003}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		run(t, &Notify, Options{Size: size})
	}
}

// Two ends that meet as on two machines, and the table for people.
func TestServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("two ends on one machine need two addresses of 127.0.0.0/8, which Linux has")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o := Options{Size: 64, Duration: brief, Server: true, Port: oobtest.FreePort(t)}
	served := make(chan error, 1)
	go func(o Options) {
		err := Run(ctx, io.Discard, &Notify, o)
		if err != nil {
			cancel() // it leaves nobody to wait for
		}
		served <- err
	}(o)
	o.Server, o.Host = false, "127.0.0.1"
	var out bytes.Buffer
	var err error
	for { // until the server listens
		if err = Run(ctx, &out, &Notify, o); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "does it run with --server") {
			break
		}
		runtime.Gosched()
	}
	require.NoError(t, err)
	require.NoError(t, <-served)
	require.Equal(t, 2, strings.Count(out.String(), "trailing SEND"), out.String())
	require.NotContains(t, out.String(), "not measured")
}

// A server that is spoken to wrongly says so and ends; nothing hangs.
func TestStrangers(t *testing.T) {
	for said, want := range map[string]string{
		"GET / HTTP/1.1\n": "is it this program?",
		`{"program":"goroce costs 1","table":"nothing","size":64}` + "\n":                      `measures "nothing"`,
		`{"program":"goroce costs 1","table":"notify","size":99999999}` + "\n":                 "99999999 bytes",
		`{"program":"goroce costs 9","table":"notify","size":64}` + "\n":                       `"goroce costs 9"`,
		`{"program":"goroce costs 1","table":"notify","size":64}` + "\n" + `{"way":77}` + "\n": "way 77",
		strings.Repeat("x", maxLine+1):                                                         "without an end of line",
		`{"program"`:                                                                           "unexpected EOF",
	} {
		here, there := tcpPair(t)
		_, err := io.WriteString(here, said)
		require.NoError(t, err)
		require.NoError(t, here.(*net.TCPConn).CloseWrite())
		require.ErrorContains(t, serve(t.Context(), newLink(there), Options{}), want, said)
	}
}

// A peer without its own end, of RDMA and of a wrong way, is told so.
func TestServerSaysWhatItCannot(t *testing.T) {
	here, there := tcpPair(t)
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), newLink(there), Options{}) }()
	l := newLink(here)
	require.NoError(t, l.send(hello{Program: program, Table: "notify", Size: 64}))
	var h hello
	require.NoError(t, l.receive(&h))
	require.Equal(t, program, h.Program)
	_, err := l.exchange(order{Way: 0})
	require.ErrorContains(t, err, "which queue pair it has")
	require.NoError(t, here.Close())
	require.NoError(t, <-served)
}

// TestServersWordsAreText: what the server says of a way stands in the table, and a terminal obeys
// none of it.
func TestServersWordsAreText(t *testing.T) {
	here, there := tcpPair(t)
	_, err := io.WriteString(there, `{"error":"no\u001b[2J\nUDP socket sleeping 0.01"}`+"\n")
	require.NoError(t, err)
	_, err = newLink(here).exchange(order{})
	require.EqualError(t, err, "the server: no\ufffd[2J UDP socket sleeping 0.01")
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestReg(t *testing.T) {
	o := Options{Smallest: 4096, Largest: 1 << 20, Duration: brief}
	check := picture(t, &o.Output)
	var table bytes.Buffer
	require.NoError(t, Reg(t.Context(), &table, o))
	require.Equal(t, 1, strings.Count(table.String(), "256K"), table.String())
	check("memcpy", "64K")
	o.JSON, o.Plot = true, ""
	var out bytes.Buffer
	require.NoError(t, Reg(t.Context(), &out, o))
	var r RegReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Results, 5)
	for _, row := range r.Results {
		require.Empty(t, row.Missing)
		require.Positive(t, row.Copy)
		require.Positive(t, row.Unpinned.Reg)
		require.Positive(t, row.Unpinned.Pays)
		if row.Pinned.Missing == "" { // or the limit of locked memory, or no Linux
			require.Greater(t, row.Pinned.Reg, 0.0)
			require.Equal(t, paysAfter(row.Pinned.Reg+row.Pinned.Close, row.Copy), row.Pinned.Pays)
		}
	}
}

// n copies cost more than one registration, n-1 do not.
func TestPaysAfter(t *testing.T) {
	for _, c := range []struct {
		once, copied float64
		want         int
	}{{0.5, 1, 1}, {1, 1, 2}, {10, 3, 4}, {9, 3, 4}, {100, 0.5, 201}} {
		n := paysAfter(c.once, c.copied)
		require.Equal(t, c.want, n)
		require.Greater(t, float64(n)*c.copied, c.once)
		require.LessOrEqual(t, float64(n-1)*c.copied, c.once)
	}
	require.Positive(t, paysAfter(1, 0))
}

func TestOptionsAreHeld(t *testing.T) {
	for want, o := range map[string]Options{
		"--size 7":        {Size: 7, Duration: brief},
		"--size 1048577":  {Size: maxSize + 1, Duration: brief},
		"--duration 0s":   {Size: 64},
		"it has no host":  {Size: 64, Duration: brief, Server: true, Host: "x"},
		"--fault":         func() (o Options) { o.Size, o.Duration, o.Faults = 64, brief, "nonsense"; return o }(),
		"--duration 2h0m": {Size: 64, Duration: 2 * time.Hour},
	} {
		require.ErrorContains(t, Run(t.Context(), io.Discard, &Notify, o), want)
	}
	for _, o := range []Options{{Smallest: 1, Largest: 8192}, {Smallest: 8192, Largest: 4096}, {Smallest: 4096, Largest: math.MaxInt}} {
		o.Duration = brief
		require.ErrorContains(t, Reg(t.Context(), io.Discard, o), "--smallest")
	}
	require.ErrorContains(t, Reg(t.Context(), io.Discard, Options{
		Smallest: 4096,
		Largest:  4096,
		Duration: brief,
		Output:   Output{Plot: "/no/such/folder"},
	}), "--plot")
}

// Every row has a name of its own, posts something, and sleeps only where something wakes it.
func TestTables(t *testing.T) {
	for _, table := range []*Table{&Sockets, &Notify} {
		seen := map[string]bool{}
		for _, w := range table.ways {
			require.False(t, seen[w.Name+w.Waits], w.Name)
			seen[w.Name+w.Waits] = true
			require.Contains(t, []string{polling, events}, w.Waits)
			require.Less(t, w.kind, len(table.kinds))
			if w.notice == 0 {
				continue
			}
			n, ok := notices[w.notice]
			require.True(t, ok && len(n.posts) > 0, w.Name)
			require.True(t, w.Waits == polling || n.receives, "%s: nothing wakes who sleeps", w.Name)
		}
		found, err := find(table.Name)
		require.NoError(t, err)
		require.Same(t, table, found)
	}
}
