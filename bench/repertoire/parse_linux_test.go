package repertoire

// What the programs print, as it was captured, and the figure that is taken from it.

import (
	"math"
	"testing"

	"github.com/goroce/goroce/bench/figures"
)

const ucxOutput = `iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
2000,86.031,804.154,10.056,0.01,1460.00,1244,230000
`

const fiOutput = `bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     1k      =1k      125m        5.40s     24.28    2699.05       0.00
`

const sockperfOutput = "sockperf: [Valid Duration] RunTime=0.440 sec\n" +
	"sockperf: \x1b[2;35m====> avg-latency=17.230 (std-dev=183.477)\x1b[0m\n"

const iperfOutput = `{"end": {"sum": {"bits_per_second": 3e9}, "sum_received": {"bits_per_second": 38e9}}}`

const iperfBothOutput = `{"end": {
"sum_sent": {"bits_per_second": 6405898288.044237, "retransmits": 18, "sender": true},
"sum_received": {"seconds": 1.006487, "bytes": 796917760, "bits_per_second": 6334251788.647047, "sender": true},
"sum_sent_bidir_reverse": {"bits_per_second": 5571301253.94476, "retransmits": 35, "sender": false},
"sum_received_bidir_reverse": {"seconds": 1.006487, "bytes": 694288384, "bits_per_second": 5518508507.31306, "sender": false}}}`

const loadedOutput = `{"p50_usec":904.191,"p99_usec":40468.479,"p99.9_usec":176291.839,"exchanges":212,"gbps":1.6150252227204143}
`

const shortOutput = `{"use":[52.5,37.75],"lost":0.25,"resent":0.005}
`

const perfOutput = `{"test": "write-bw", "results": [{"bytes": 65536, "msg_rate_mpps": 0.1, "t_avg_usec": 0}]}`

const perfLatOutput = `{"test": "write-lat", "results": [{"bytes": 8, "t_typical_usec": 1.5, "t_avg_usec": 1.75}]}`

const perftestBW = ` GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:51:100:02
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1602             0.00               0.84                0.001602
`

const perftestLat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       3000          34.67          248342.21      72.19    	       3162.00     	-nan   		88342.44 		189571.45
`

// everyCase that there could be.
func everyCase() (cases []figures.Case) {
	for _, b := range AllBouts(AllPorts) {
		cases = append(cases, b.Cases...)
	}
	return cases
}

func TestFigures(t *testing.T) {
	byName := map[string]figures.Case{}
	for _, c := range everyCase() {
		if _, twice := byName[c.Name]; twice {
			t.Errorf("two cases are called %s", c.Name)
		}
		byName[c.Name] = c
	}
	for _, test := range []struct {
		name, server, client string
		want                 float64
	}{
		{"9000/ucx/put-bw/64K", "", ucxOutput, 1460 * 1.048576 * 8 / 1000},
		{"9000/ucx/put-bw/8", "", ucxOutput, 0.23},
		{"9000/ucx/put-lat/8", "", ucxOutput, 10.056},
		{"1500/fi_pingpong/tcp-msg/64K", "", fiOutput, 2699.05},
		{"1500/sockperf/udp/spin", "", sockperfOutput, 17.23},
		{"9000/iperf3/tcp/1M", "", iperfOutput, 38},
		{"9000/ours/udp/write-bw/64K", "", perfOutput, 0.1 * 65536 * 8 / 1000},
		{"9000/ours/udp/write-lat/8", "", perfLatOutput, 1.75},
		{"9000/ours/udp/ud-rate/8", `{"results": [{"msg_rate_mpps": 3}]}`, perfOutput, 3},
		{"9000/raw/udp-stream-work", `{"gbps": 45.5, "mpps": 1.4}`, `{"packets": 9}`, 45.5},
		{"9000/raw/udp-pingpong", `{"packets": 9}`, `{"usec": 2.5}`, 2.5},
		{"wire/xdp/write-bw/64K", "", perfOutput, 0.1 * 65536 * 8 / 1000},
		{"inside/memory", "", `{"value": 3717}`, 3717},
		{"fair/udp/backlog", "", `{"ratio": 0.9, "drops": 1, "backlog": 171, "use": 99}`, 171},
		{"1500/both/udp", "", perfOutput, 0.1 * 65536 * 8 / 1000},
		{"1500/both/iperf3/1M", "", iperfBothOutput, 6.334251788647047 + 5.51850850731306},
		{"1500/many/tcp/100/64K", `{"bytes":1250000000,"seconds":2}`, "", 5},
		{"9000/many/tcp/1000/8", `{"bytes":1600000,"seconds":0.5}`, "", 0.4},
		{"9000/many/udp/1000/8", "", perfOutput, 0.1},
		{"1500/loaded/tcp/p99.9", "", loadedOutput, 176291.839},
		{"1500/loaded/udp/bulk", "", loadedOutput, 1.6150252227204143},
		{"same/ucx/put-bw/64K/posix", "", ucxOutput, 1460 * 1.048576 * 8 / 1000},
		{"same/ours/write-lat/8", "", perfLatOutput, 1.75},
		{"short/64/udp-cubic/use", "", shortOutput, 52.5 + 37.75},
		{"short/64/udp-cubic/of-cubic-2", "", shortOutput, 37.75},
		{"short/64/udp-cubic/lost", "", shortOutput, 0.25},
		{"1500/mpi/ours/lat/8", "", "latency of 8 bytes: 4.625 us one way\n", 4.625},
		{"1500/mpi/tcp-ucx/bw/64K", "", "bandwidth of 65536 bytes: 31.125 Gbit/s\n", 31.125},
		{"guest/rxe/write-bw/64K", "", perftestBW, 0.84},
		{"guest/rxe/write-rate/8", "", perftestBW, 0.001602},
		{"guest/rxe/write-lat/8", "", perftestLat, 72.19},
	} {
		c, ok := byName[test.name]
		if !ok {
			t.Errorf("no case %s", test.name)
			continue
		}
		got, err := c.Figure([]byte(test.server), []byte(test.client))
		if err != nil || math.Abs(got-test.want) > 1e-9*test.want {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
}

// Nothing, or nonsense, must be an error and not a figure of zero.
func TestNoFigure(t *testing.T) {
	for _, c := range everyCase() {
		for _, text := range []string{"", "\n", "Connection refused\n", "{}", "[]"} {
			if v, err := c.Figure([]byte(text), []byte(text)); err == nil && text != "{}" {
				t.Errorf("%s: %q gave %v and no error", c.Name, text, v)
			}
		}
	}
}

func TestCmtimeRate(t *testing.T) {
	rate, err := cmtimeRate([]byte(`destroying id
step              total ms     max ms     min us  us / conn
create id    :        1.50       0.15       3.00       9.47
connect      :      298.50     457.01   42032.00    2320.96
disconnect   :      100.00     279.89    1195.00    2723.46
`))
	if err != nil || rate != 500 {
		t.Errorf("%v, %v; want 200 in 400 ms", rate, err)
	}
	if rate, err := cmtimeRate([]byte("connecting\n")); err == nil {
		t.Errorf("%v of no table", rate)
	}
}
