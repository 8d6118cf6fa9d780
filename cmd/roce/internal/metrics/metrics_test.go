//go:build linux

package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/hub"
)

func told(context.Context) (hub.Status, []hub.ProcessStatus, error) {
	return hub.Status{PID: 1, Addresses: []hub.AddressStatus{{Where: "10.0.0.1", Port: 4791, Slots: 127, In: 1, Out: 2, Nobodys: 3,
			NoRoom: 4, Frames: 5, FramesLost: 6, Strange: 7, Left: 8, Inherited: 9}, {Where: "10.0.0.1", Port: 5000, Slots: 31}}},
		[]hub.ProcessStatus{
			{Where: "10.0.0.1", Port: 4791, PID: 7, Program: "one", Slot: 1, Since: 10, Conns: 11,
				Report: &hub.Report{QPs: 12, SentBytes: 13,
					RecvBytes: 14, SentPkts: 15, RecvPkts: 16, Foreign: 17, ForeignLost: 18, Brought: 19,
					BroughtLost: 20, Lost: 21}},
			{Where: "10.0.0.1", Port: 4791, PID: 8, Program: "away", Slot: 2, Away: true}}, nil
}

// scrape returns the lines of values.
func scrape(t *testing.T, ask Ask) (values []string, names map[string]bool) {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(Collector(ask)))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	names = map[string]bool{}
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			values = append(values, strings.TrimSpace(line))
			names[regexp.MustCompile(`^\w+`).FindString(line)] = true
		}
	}
	return values, names
}

// Each value stands where it belongs: those above are all different.
func TestValues(t *testing.T) {
	values, _ := scrape(t, told)
	const a, p = `{address="10.0.0.1",port="4791"} `, `{address="10.0.0.1",pid="7",port="4791",program="one",slot="1"} `
	for _, want := range []string{
		"goroce_hub_up 1",
		"goroce_address_processes" + a + "2",
		`goroce_address_processes{address="10.0.0.1",port="5000"} 0`,
		"goroce_address_slots" + a + "127",
		"goroce_address_cm_to_processes_total" + a + "1",
		"goroce_address_cm_from_processes_total" + a + "2",
		"goroce_address_cm_nobodys_total" + a + "3",
		"goroce_address_cm_lost_total" + a + "4",
		"goroce_address_strays_total" + a + "5",
		"goroce_address_strays_lost_total" + a + "6",
		"goroce_address_strange_total" + a + "7",
		"goroce_address_left_total" + a + "8",
		"goroce_address_inherited_total" + a + "9",
		"goroce_process_start_time_seconds" + p + "10",
		"goroce_process_connections" + p + "11",
		"goroce_process_queue_pairs" + p + "12",
		"goroce_process_sent_bytes_total" + p + "13",
		"goroce_process_received_bytes_total" + p + "14",
		"goroce_process_sent_packets_total" + p + "15",
		"goroce_process_received_packets_total" + p + "16",
		"goroce_process_strays_total" + p + "17",
		"goroce_process_strays_lost_total" + p + "18",
		"goroce_process_brought_total" + p + "19",
		"goroce_process_brought_lost_total" + p + "20",
		"goroce_process_cm_lost_total" + p + "21",
	} {
		require.Contains(t, values, want)
	}
	require.Len(t, values, 1+2*(1+len(ofAddress))+len(ofProcess))
}

// Without a hub nothing else is said.
func TestNoHub(t *testing.T) {
	values, _ := scrape(t, func(context.Context) (hub.Status, []hub.ProcessStatus, error) {
		return hub.Status{}, nil, errors.New("none")
	})
	require.Equal(t, []string{"goroce_hub_up 0"}, values)
}

// The page of documents lists all there are, and the dashboard draws only such.
func TestDocuments(t *testing.T) {
	_, names := scrape(t, told)
	page, err := os.ReadFile("../../../../docs/metrics.md")
	require.NoError(t, err)
	board, err := os.ReadFile("../../../../docs/dashboard.json")
	require.NoError(t, err)
	require.True(t, json.Valid(board))
	any := regexp.MustCompile(`goroce_\w+`)
	listed, drawn := map[string]bool{}, 0
	for _, n := range any.FindAllString(string(page), -1) {
		listed[n] = true
	}
	require.Equal(t, names, listed)
	for _, n := range any.FindAllString(string(board), -1) {
		require.True(t, names[n], n)
		drawn++
	}
	require.Greater(t, drawn, 5)
}
