package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/roce"
)

// outcome is how an end ended.
type outcome struct {
	out bytes.Buffer
	err error
}

// contest runs both ends of a test over loopback.
func contest(t *testing.T, test string, server, client Options) (s, c *outcome) {
	tt, ok := Find(test)
	require.True(t, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what would hang
	defer cancel()
	server.Port = oobtest.FreePort(t)
	client.Port, client.Host = server.Port, "127.0.0.1"
	s, c = &outcome{}, &outcome{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.err = Run(ctx, &s.out, tt, server)
	}()
	for waits := true; waits; {
		c.out.Reset()
		c.err = Run(ctx, &c.out, tt, client)
		waits = c.err != nil && strings.Contains(c.err.Error(), "is its end running")
		select {
		case <-ended: // a server that failed leaves nobody to wait for
			waits = false
		case <-time.After(time.Millisecond): // nothing tells when a server listens
		}
	}
	<-ended
	return s, c
}

// slow is the code of an ack timeout of a second: the machine that runs the tests may be busy with
// others.
const slow = 18

// base are the options that every end needs.
func base(change func(*Options)) Options {
	o := Options{Type: roce.RC, QPTimeout: slow, Iters: 200, JSON: true}
	if change != nil {
		change(&o)
	}
	return o
}

// runs are the tests and options that TestRunAgainstItself plays: options of both ends, and more of
// the client.
var runs = []struct {
	test   string
	name   string
	both   func(*Options)
	client func(*Options)
}{
	{test: "write-bw"},
	{test: "read-bw"},
	{test: "send-bw"},
	{test: "atomic-bw"},
	{test: "write-lat"},
	{test: "read-lat"},
	{test: "send-lat"},
	{test: "atomic-lat"},
	{"write-bw", "4 QPs", func(o *Options) { o.QPs = 4; o.Size = 8 }, nil},
	{"write-bw", "both ways", func(o *Options) { o.Bidi = true }, nil},
	{"write-bw", "sleeping", func(o *Options) { o.Events = true }, nil},
	{"write-bw", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 5 }, nil},
	{"write-bw", "inline", func(o *Options) { o.Inline = 64; o.Size = 64 }, nil},
	{"write-bw", "MTU 256", nil, func(o *Options) { o.MTU = 256; o.Size = 1000 }},
	{"write-bw", "half a second", nil, func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 }},
	{"read-bw", "both ways", func(o *Options) { o.Bidi = true; o.QPs = 2 }, nil},
	{"send-bw", "both ways", func(o *Options) { o.Bidi = true }, nil},
	{"send-bw", "sleeping", func(o *Options) { o.Events = true }, nil},
	{"send-bw", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 20 }, nil},
	{"send-bw", "few receives", func(o *Options) { o.RxDepth = 5; o.Size = 100 }, nil},
	{"send-bw", "half a second", func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 }, nil},
	{"send-bw", "UD", func(o *Options) { o.Type = roce.UD }, nil},
	{"send-bw", "UC", func(o *Options) { o.Type = roce.UC; o.Size = 4096; o.Iters = 50 }, nil},
	{"send-lat", "UD", func(o *Options) { o.Type = roce.UD }, nil},
	{"send-lat", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 5 }, nil},
	{"send-lat", "half a second", func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 }, nil},
	{"write-lat", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 5 }, nil},
	{"write-lat", "half a second", func(o *Options) { o.Iters = 0; o.Duration = time.Second / 2 }, nil},
	{"send-lat", "sleeping for a while", func(o *Options) { o.Events = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"read-lat", "sleeping for a while", func(o *Options) { o.Events = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"write-bw", "sleeping for a while", func(o *Options) { o.Events = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"send-bw", "sleeping for a while", func(o *Options) { o.Events = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"send-bw", "both ways, sleeping", func(o *Options) { o.Events = true; o.Bidi = true }, nil},
	{"write-bw", "warm", nil, func(o *Options) { o.WarmUp = true; o.QPs = 0 }},
	{"read-bw", "warm, no peak, 3 QPs", func(o *Options) { o.WarmUp = true; o.QPs = 3; o.NoPeak = true; o.Size = 8; o.Iters = 1000 }, nil},
	{"atomic-bw", "warm", func(o *Options) { o.WarmUp = true; o.TxDepth = 7 }, nil},
	{"write-bw", "limited", nil, func(o *Options) { o.Rate.Messages = 2000; o.Size = 8 }},
	{"write-bw", "limited, sleeping", nil, func(o *Options) { o.Rate.Messages = 2000; o.Size = 8; o.Events = true }},
	{"write-bw", "limited, both ways, bursts, 3 QPs", func(o *Options) {
		o.Rate.Messages = 2000
		o.Burst = 8
		o.QPs = 3
		o.Bidi = true
	}, nil},
	{"send-bw", "limited for a while", func(o *Options) { o.Rate.Bits = 1e8; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"write-bw", "UC", func(o *Options) { o.Type = roce.UC }, nil},
	{"write-bw", "lists of 1, every 5th signaled, depth 12, 2 QPs", func(o *Options) {
		o.PostList, o.CQMod, o.TxDepth, o.QPs = 1, 5, 12, 2
	}, nil},
	{"write-bw", "both ways for a while", func(o *Options) { o.Bidi = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"send-bw", "both ways for a while", func(o *Options) { o.Bidi = true; o.Iters = 0; o.Duration = time.Second / 5 }, nil},
	{"write-bw", "both ways, all sizes", func(o *Options) { o.Bidi = true; o.AllSizes = true; o.Iters = 5 }, nil},
	{"send-bw", "both ways, all sizes", func(o *Options) { o.Bidi = true; o.AllSizes = true; o.Iters = 5 }, nil},
	{"send-bw", "UD, all sizes", func(o *Options) { o.Type = roce.UD; o.AllSizes = true; o.Iters = 20 }, nil},
	{"send-bw", "UD, 4 QPs, sleeping", func(o *Options) { o.Type = roce.UD; o.QPs = 4; o.Events = true; o.Iters = 50 }, nil},
	{"send-lat", "UC", func(o *Options) { o.Type = roce.UC; o.Inline = 236; o.Size = 236 }, nil},
	{"send-lat", "beyond inline", func(o *Options) { o.Inline = 236; o.Size = 237 }, nil},
	{"send-lat", "gaps", nil, func(o *Options) { o.Gap = 100 * time.Microsecond }},
	{"send-lat", "gaps, sleeping", func(o *Options) { o.Events = true }, func(o *Options) { o.Gap = 100 * time.Microsecond }},
	{"write-lat", "gaps", nil, func(o *Options) { o.Gap = 100 * time.Microsecond }},
	{"read-lat", "gaps, sleeping", func(o *Options) { o.Events = true }, func(o *Options) { o.Gap = 100 * time.Microsecond }},
	{"write-lat", "alone", func(o *Options) { o.Alone = true; o.Linger = 20 * time.Microsecond; o.Iters = 50 }, nil},
	{"write-lat", "alone, without lingering", func(o *Options) { o.Alone = true; o.Iters = 50 }, nil},
	{"write-lat", "UC", func(o *Options) { o.Type = roce.UC }, nil},
	{"read-lat", "all sizes", func(o *Options) { o.AllSizes = true; o.Iters = 5 }, nil},
	{"atomic-bw", "CAS", func(o *Options) { o.CmpSwap = true }, nil},
}

func TestRunAgainstItself(t *testing.T) {
	for _, c := range runs {
		t.Run(strings.TrimSpace(c.test+" "+c.name), func(t *testing.T) {
			if step.Raced && c.test == "write-lat" {
				t.Skip("to watch 2 bytes of memory while another goroutine writes them is what the test does, and a race")
			}
			server, client := base(c.both), base(c.both)
			if c.client != nil {
				c.client(&client)
			}
			s, cl := contest(t, c.test, server, client)
			require.NoError(t, cl.err, "the server ended with: %v", s.err)
			require.NoError(t, s.err)
			results := parse(t, cl)
			require.NotEmpty(t, results)
			if client.Duration == 0 && client.Type == roce.RC {
				require.Equal(t, client.Iters*max(client.QPs, 1), int(results[0]["iterations"].(float64)))
			}
		})
	}
}

// A limited sender keeps its rate: that it does so exactly is for the pacer's tests, with a clock
// of their own. What a run reports is not above its rate, however busy the machine is.
func TestLimitedRunsKeepTheirRate(t *testing.T) {
	for _, rate := range []Rate{{Messages: 5000}, {Bits: 5000 * 8 * 1024}} {
		server, client := base(nil), base(func(o *Options) { o.Size = 1024; o.Iters = 1000; o.Rate = rate })
		s, c := contest(t, "write-bw", server, client)
		require.NoError(t, c.err)
		require.NoError(t, s.err)
		got := parse(t, c)[0]["msg_rate_mpps"].(float64) * 1e6
		require.Greater(t, got, 0.0)
		require.LessOrEqual(t, got, 5000*1.02)
	}
}

// A gap takes time between the exchanges and none of theirs: the client sleeps for all gaps, and
// the mean of what it recorded is the rest of the time at most.
func TestGapsAreNotRecorded(t *testing.T) {
	const gap, iters = 5 * time.Millisecond, 50
	for _, test := range []string{"send-lat", "write-lat", "read-lat"} {
		if step.Raced && test == "write-lat" {
			continue
		}
		server, client := base(nil), base(nil)
		server.Iters, client.Iters, client.Gap = iters, iters, gap
		s, c := contest(t, test, server, client)
		require.NoError(t, s.err)
		require.NoError(t, c.err)
		result := whole(t, c)
		require.Equal(t, gap.Seconds(), result.Gap)
		elapsed := iters / result.Results[0]["tps_average"].(float64)
		recorded := result.Results[0]["t_avg_usec"].(float64) / 1e6 * (iters - 1)
		const digits = 1.002 // three of each time are kept
		require.LessOrEqual(t, recorded, digits*(elapsed-iters*gap.Seconds()), test)
	}
}

// parse reads the JSON that an end printed.
func parse(t *testing.T, o *outcome) []map[string]any {
	var got struct {
		Results []map[string]any `json:"results"`
	}
	text := o.out.String()
	require.NoError(t, json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &got))
	return got.Results
}

// A peer that goes away must be noticed, in whatever round or test this end is.
func TestPeerLeaves(t *testing.T) {
	for rounds := range 7 { // 4 of the preamble, then keys
		for _, test := range []string{"write-bw", "send-bw", "send-lat"} {
			t.Run(fmt.Sprintf("%s after %d rounds", test, rounds), func(t *testing.T) {
				tt, _ := Find(test)
				port := oobtest.FreePort(t)
				ended := make(chan error)
				go func() {
					o := base(nil)
					o.Port = port
					ended <- Run(t.Context(), &bytes.Buffer{}, tt, o)
				}()
				var l *link
				require.Eventually(t, func() (ok bool) {
					var err error
					l, err = meet(t.Context(), "127.0.0.1", port)
					return err == nil
				}, time.Minute, time.Millisecond)
				sizes := []int{versionLen, 4, 4, 2, keyLen, keyLen, keyLen}
				mine := [][]byte{append([]byte(version), make([]byte, 12)...), {0, 0, 16, 0}, {0, 0, 0, 64}, {'3', 0}}
				for i := range rounds {
					if i < len(mine) {
						require.NoError(t, l.swap(mine[i], make([]byte, sizes[i]), time.Minute))
						continue
					}
					_, err := l.key(key{QPN: 77, Outs: 1, GID: loopbackGID}, time.Minute)
					require.NoError(t, err)
				}
				l.Close()
				select {
				case err := <-ended:
					require.Error(t, err)
				case <-time.After(time.Minute):
					t.Fatal("it goes on for ever")
				}
			})
		}
	}
}

var loopbackGID = roce.GID{10: 0xff, 11: 0xff, 12: 127, 15: 200}

func TestCancelEndsEveryWait(t *testing.T) {
	for _, test := range []string{"write-bw", "send-lat"} {
		tt, _ := Find(test)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		o := base(nil)
		o.Port = oobtest.FreePort(t)
		go func() { ended <- Run(ctx, &bytes.Buffer{}, tt, o) }()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		test string
		o    func(*Options)
		want string
	}{
		{"read-bw", func(o *Options) { o.Type = roce.UC }, "--connection UC: want RC"},
		{"write-bw", func(o *Options) { o.Type = roce.UD }, "--connection UD: want RC or UC"},
		{"atomic-bw", func(o *Options) { o.Size = 16 }, "atomics have 8 bytes"},
		{"write-bw", func(o *Options) { o.Iters = 4 }, "--iters 4: want 5 or more"},
		{"send-lat", func(o *Options) { o.QPs = 2 }, "--qps 2"},
		{"send-lat", func(o *Options) { o.Port = 1 << 16 }, "--port 65536: want 1 to 65535"},
		{"send-bw", func(o *Options) { o.Lanes = 3 }, "--lanes 3: want a power of two"},
		{"send-bw", func(o *Options) { o.MTU = 1000 }, "--mtu: "},
		{"write-lat", func(o *Options) { o.Events = true }, "watches memory"},
		{"write-bw", func(o *Options) { o.Duration = time.Second; o.AllSizes = true }, "exclude each other"},
		{"write-bw", func(o *Options) { o.Size = 1<<30 + 1 }, "--size 1073741825"},
		{"send-lat", func(o *Options) { o.Rate.Bits = 1e9 }, "one message under way"},
		{"send-bw", func(o *Options) { o.WarmUp = true }, "only for one-sided"},
		{"write-bw", func(o *Options) { o.Burst = 129 }, "--burst-size 129: want 1 to the tx depth, 128"},
		{"write-bw", func(o *Options) { o.RateUnits = "q" }, "want g, M or p"},
		{"write-bw", func(o *Options) { o.Margin = time.Second; o.Duration = 2 * time.Second }, "less than half"},
		{"write-bw", func(o *Options) { o.AllSizes = true; o.LimitBW = 1 }, "one size"},
		{"send-lat", func(o *Options) { o.Gap = time.Second }, "--gap is the client's"},
		{"send-lat", func(o *Options) { o.Host, o.Gap = "127.0.0.1", time.Minute }, "--gap 1m0s: want 0 to 10s"},
	} {
		tt, _ := Find(c.test)
		o := base(func(o *Options) { o.Port = 1; c.o(o) })
		require.ErrorContains(t, Run(t.Context(), &bytes.Buffer{}, tt, o), c.want)
	}
}

func TestSizesAndSecondsAsFlags(t *testing.T) {
	for text, want := range map[string]int{"8": 8, "64K": 65536, "64k": 65536, "1M": 1 << 20, "1024M": 1 << 30} {
		var s Size
		require.NoError(t, s.Set(text))
		require.Equal(t, want, int(s))
	}
	for _, text := range []string{"", "K", "-1", "2G", "8 ", "1025M"} {
		require.Error(t, new(Size).Set(text), text)
	}
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "1m30s": 90 * time.Second} {
		var s Seconds
		require.NoError(t, s.Set(text))
		require.Equal(t, want, time.Duration(s))
	}
	for _, text := range []string{"", "0", "-1", "x"} {
		require.Error(t, new(Seconds).Set(text), text)
	}
}

// Two of us repair losses by selective repeat, unless one does not want to.
func TestSelectiveRepeatAmongOurselves(t *testing.T) {
	for _, c := range []struct {
		server, client func(*Options)
		want           string
	}{
		{nil, nil, "selective"},
		{func(o *Options) { o.GoBackN = true }, nil, "go-back-N"},
		{nil, func(o *Options) { o.GoBackN = true }, "go-back-N"},
		{func(o *Options) { o.Type = roce.UC }, func(o *Options) { o.Type = roce.UC }, ""},
	} {
		s, cl := contest(t, "write-bw", base(c.server), base(c.client))
		require.NoError(t, s.err)
		require.NoError(t, cl.err)
		require.Equal(t, c.want, whole(t, s).Repeat)
		require.Equal(t, c.want, whole(t, cl).Repeat)
	}
}

// A test of UC ends though messages are lost, and says where they were.
func TestLostMessages(t *testing.T) {
	lossy := func(o *Options) {
		o.Type, o.Size = roce.UC, 64<<10
		o.Transport.RecvBuffer, o.Transport.MaxRun = 4096, 1 // room for a packet or two
	}
	s, c := contest(t, "send-bw", base(lossy), base(lossy))
	require.NoError(t, c.err)
	require.NoError(t, s.err)
	require.Regexp(t, `\d+ of 200 messages of 65536 bytes did not arrive, and UC does not repeat them: `+
		`the receive buffer of \d+ bytes was full \d+ times`, strings.Join(whole(t, s).Notes, "\n"))
}
