package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
)

// whole reads all that an end printed as JSON.
func whole(t *testing.T, o *outcome) (r struct {
	Results  []map[string]any
	CPU      map[string]costResult
	Counters map[string]int
	Notes    []string
	Repeat   string
	Gap      float64 `json:"gap_seconds"`
}) {
	require.NoError(t, json.Unmarshal(o.out.Bytes(), &r))
	return r
}

// Both ends know what both have spent, whoever of them has measured.
func TestBothEndsReportBothCosts(t *testing.T) {
	for _, test := range []string{"write-bw", "send-bw", "read-lat", "send-lat"} {
		t.Run(test, func(t *testing.T) {
			o := base(func(o *Options) { o.Size = 1024; o.Iters = 2000 })
			s, c := contest(t, test, o, o)
			require.NoError(t, c.err)
			require.NoError(t, s.err)
			atServer, atClient := whole(t, s).CPU, whole(t, c).CPU
			require.Len(t, atClient, 2)
			require.Equal(t, atServer, atClient)
			for who, cost := range atClient {
				require.Greater(t, cost.Elapsed, 0.0, who)
				require.Greater(t, cost.PerMessage, 0.0, "%s: the end that only answers knows what moved from the other", who)
				require.InDelta(t, cost.CPU/cost.Elapsed, cost.Cores, 1e-9, who)
				require.InDelta(t, cost.PerMessage, cost.PerKiB, 1e-6, "%s: a message has 1 KiB", who)
			}
			require.Greater(t, atClient["client"].CPU, 0.0)
		})
	}
}

func TestCostInTheTable(t *testing.T) {
	o := base(func(o *Options) { o.JSON, o.CPUUtil = false, true })
	s, c := contest(t, "write-bw", o, o)
	require.NoError(t, c.err)
	require.NoError(t, s.err)
	for _, end := range []*outcome{s, c} {
		require.Regexp(t, `(?m)^ CPU of client : \d+\.\d\d cores, \d+\.\d ns/message, \d+\.\d ns/KiB$`, end.out.String())
		require.Regexp(t, `(?m)^ CPU of server : `, end.out.String())
	}
	require.Regexp(t, `(?m)^ 65536 +200 .*\.\d{6} +\d+\.\d\d +\d+\.\d +\d+\.\d +$`, c.out.String(), "perftest's line, then the cost")
}

func TestCostCounts(t *testing.T) {
	c := cost{CPU: 3 * time.Second, Elapsed: 2 * time.Second, Messages: 1e6, Bytes: 64e6}
	require.Equal(t, &costResult{CPU: 3, Elapsed: 2, Cores: 1.5, PerMessage: 3000, PerKiB: 48000}, c.result())
	require.Equal(t, &costResult{CPU: 1}, (&cost{CPU: time.Second}).result(), "nothing moved is no division by zero")
}

// svg reads a picture as XML and returns its texts.
func svg(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var texts strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if data, ok := token.(xml.CharData); ok {
			texts.Write(data)
		}
	}
	require.NotContains(t, string(b), "NaN")
	require.NotContains(t, string(b), "Inf")
	require.Contains(t, string(b), "<line ")
	return texts.String()
}

func TestPlots(t *testing.T) {
	for _, c := range []struct {
		test   string
		change func(*Options)
		want   []string
	}{
		{"write-bw", func(o *Options) { o.AllSizes = true; o.Iters = 5 },
			[]string{"roce perf write-bw RC", "MiB/s", "16K", "4M", "message size"}},
		{"send-lat", func(o *Options) { o.AllSizes = true; o.Iters = 5 }, []string{"roce perf send-lat RC", "usec", "64", "99 %"}},
		{"send-lat", func(o *Options) { o.Iters = 3000 }, []string{"roce perf send-lat RC, 2 bytes", "99.9%", "3000 messages"}},
		{"write-bw", func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 },
			[]string{"roce perf write-bw RC, 64K bytes", "Gbit/s", "seconds"}},
	} {
		o := base(c.change)
		client := o
		client.Plot = filepath.Join(t.TempDir(), "run.svg")
		s, cl := contest(t, c.test, o, client)
		require.NoError(t, cl.err)
		require.NoError(t, s.err)
		require.NotContains(t, strings.Join(whole(t, cl).Notes, ""), "nothing to draw")
		texts := svg(t, client.Plot)
		for _, want := range c.want {
			require.Contains(t, texts, want)
		}
	}
}

// An end that measured nothing says that there is no picture, and one that cannot write it fails.
func TestPlotsThatCannotBe(t *testing.T) {
	server, client := base(nil), base(nil)
	server.Plot = filepath.Join(t.TempDir(), "server.svg")
	client.Plot = filepath.Join(t.TempDir(), "no", "such", "folder.svg")
	client.AllSizes, server.AllSizes = true, true
	client.Iters, server.Iters = 5, 5
	s, c := contest(t, "read-lat", server, client)
	require.ErrorContains(t, c.err, "--plot")
	require.NotEmpty(t, parse(t, c), "the results are printed nevertheless")
	require.NoError(t, s.err)
	require.NoFileExists(t, server.Plot)
	require.Contains(t, strings.Join(whole(t, s).Notes, ""), "nothing to draw")
}

func TestHistoryKeepsAFewReadingsOfAnyRun(t *testing.T) {
	h := history{every: lookPeriod}
	for at := time.Duration(0); at < time.Hour; at += lookPeriod {
		h.add(reading{at: at, bytes: uint64(at)})
	}
	require.Less(t, len(h.readings), historyLen)
	require.GreaterOrEqual(t, len(h.readings), historyLen/2)
	require.Zero(t, h.readings[0].at)
	require.Greater(t, h.readings[len(h.readings)-1].at, time.Hour*99/100)
	for i := 1; i < len(h.readings); i++ {
		require.InDelta(t, float64(h.every), float64(h.readings[i].at-h.readings[i-1].at), float64(h.every)/2, "even all over")
	}
}

// screen is a terminal that tests read.
type screen struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(b)
}

func TestLiveLine(t *testing.T) {
	require.Equal(t, "    2 s     64.000 Gbit/s    1.000000 M msg/s   7 retransmits",
		liveLine(reading{time.Second, 5, 100}, reading{2 * time.Second, 1e6 + 5, 8e9 + 100}, "msg", 7))

	var atServer, atClient screen
	o := base(func(o *Options) {
		o.JSON = false
		o.Iters = 0
		o.Duration = time.Second / 2
		o.LiveEvery = 20 * time.Millisecond
	})
	moving := `\r\x1b\[K +\d+ s +(0\.0*[1-9]|[1-9])[0-9.]* Gbit/s +[0-9.]+ M `
	sent, seen := regexp.MustCompile(moving+`msg/s   \d+ retransmits`), regexp.MustCompile(moving+`packets/s`)
	var c *outcome
	// An end that only answers sees its packets. On a busy machine that may be after some time.
	for ; !sent.MatchString(atClient.String()) || !seen.MatchString(atServer.String()); o.Duration *= 2 {
		require.Less(t, o.Duration, time.Minute, "%q, %q", atClient.String(), atServer.String())
		atServer.Reset()
		atClient.Reset()
		server, client := o, o
		server.Live, client.Live = &atServer, &atClient
		var s *outcome
		s, c = contest(t, "write-bw", server, client)
		require.NoError(t, c.err)
		require.NoError(t, s.err)
	}
	require.True(t, strings.HasSuffix(atClient.String(), eraseLine), "it leaves nothing behind")
	require.NotContains(t, c.out.String(), "\r", "and nothing of it in the results")
}

func TestCPUProfile(t *testing.T) {
	server, client := base(nil), base(nil)
	for _, at := range []*Options{&server, &client} { // a process has one profile at a time
		at.Profile = filepath.Join(t.TempDir(), "cpu.pprof")
		s, c := contest(t, "write-bw", server, client)
		require.NoError(t, c.err)
		require.NoError(t, s.err)
		b, err := os.ReadFile(at.Profile)
		require.NoError(t, err)
		require.Equal(t, []byte{0x1f, 0x8b}, b[:2], "a profile is gzipped")
		at.Profile = ""
	}
	client.Profile = filepath.Join(t.TempDir(), "no", "such", "folder")
	_, c := contest(t, "write-bw", server, client)
	require.ErrorContains(t, c.err, "--cpuprofile")
}

func TestLimitsAreVerdicts(t *testing.T) {
	o := base(nil)
	client := o
	client.LimitBW, client.LimitRate = 1e9, 1e9
	s, c := contest(t, "write-bw", o, client)
	require.NoError(t, s.err)
	require.ErrorContains(t, c.err, "below --limit-bw")
	require.ErrorContains(t, c.err, "below --limit-msgrate")
	require.NotEmpty(t, parse(t, c))
	client.LimitBW, client.LimitRate = 1e-9, 1e-9
	_, c = contest(t, "write-bw", o, client)
	require.NoError(t, c.err)
}

// Messages of the warm-up go over the wire, but into no figure.
func TestWarmUpIsNotMeasured(t *testing.T) {
	for _, warm := range []bool{false, true} {
		server, client := base(nil), base(func(o *Options) { o.Size = 8; o.WarmUp = warm; o.NoPeak = true })
		s, c := contest(t, "write-bw", server, client)
		require.NoError(t, c.err)
		require.NoError(t, s.err)
		r := whole(t, c)
		require.Equal(t, 200.0, r.Results[0]["iterations"])
		require.Zero(t, r.Results[0]["bw_peak"], "nobody looked for it")
		require.Equal(t, warm, r.Counters["sent_pkts"]-r.Counters["retransmitted_pkts"] >= 200+defaultTx)
	}
}

// Each end reports in its own unit, also what the other has measured.
func TestUnitsMayDiffer(t *testing.T) {
	for _, bidi := range []bool{false, true} {
		server := base(func(o *Options) { o.Bidi = bidi })
		client := server
		client.Gbits = true
		s, c := contest(t, "write-bw", server, client)
		require.NoError(t, c.err)
		require.NoError(t, s.err)
		atServer, atClient := parse(t, s)[0], parse(t, c)[0]
		for _, field := range []string{"bw_average", "bw_peak"} {
			require.InEpsilon(t, atServer[field].(float64)*8*(1<<20)/1e9, atClient[field], 1e-6, field)
		}
		require.Equal(t, "MiB/s", atServer["bw_unit"])
		require.Equal(t, "Gb/s", atClient["bw_unit"])
		require.InEpsilon(t, atClient["bw_average"], atServer["bw_gbps"], 1e-6)
		require.Equal(t, bidi, atClient["bw_own"] != nil)
	}
}

func TestHistogram(t *testing.T) {
	o := base(func(o *Options) { o.Histogram = true; o.Iters = 500 })
	s, c := contest(t, "send-lat", o, o)
	require.NoError(t, c.err)
	require.NoError(t, s.err)
	bars := parse(t, c)[0]["histogram"].([]any)
	sum, last := 0.0, 0.0
	for _, b := range bars {
		b := b.(map[string]any)
		require.Greater(t, b["usec"].(float64), last)
		last = b["usec"].(float64)
		sum += b["count"].(float64)
	}
	require.Equal(t, 499.0, sum, "500 posts have 499 times between them")
	o.JSON = false
	_, c = contest(t, "send-lat", o, o)
	require.NoError(t, c.err)
	require.Regexp(t, `(?m)^ \d+\.\d{3} +\d+ +100\.0000$`, c.out.String())
}

// A run that has messages under way all the time ends when it is told to.
func TestCancelEndsATest(t *testing.T) {
	tt, _ := Find("write-bw")
	why := errors.New("the user has seen enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	server, client := base(nil), base(func(o *Options) { o.Iters = 1 << 30; o.Size = 8 })
	server.Port = oobtest.FreePort(t)
	client.Port, client.Host = server.Port, "127.0.0.1"
	var live screen
	client.Live, client.LiveEvery = writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("Gbit/s")) {
			cancel(why) // it is under way
		}
		return live.Write(b)
	}), time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), io.Discard, tt, server) }()
	var err error
	require.Eventually(t, func() bool {
		err = Run(ctx, io.Discard, tt, client)
		return !strings.Contains(err.Error(), "is its end running")
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, <-ended, "the peer closed")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
