//go:build linux

// Package metrics shows what the processes at a hub do to Prometheus: docs/metrics.md lists them,
// and docs/dashboard.json draws them in Grafana.
//
// Stages: the table of metrics; asking the hub, once for each scrape; serving.
package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goroce/goroce/roce/hub"
)

// metric is one of a thing of which a hub has several: what it counts, and how to read it.
type metric[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*T) float64
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// ofAddress are those of an address that processes share.
var ofAddress = []metric[hub.AddressStatus]{
	{"goroce_address_slots", "How many processes the address has room for.", gauge,
		func(a *hub.AddressStatus) float64 { return float64(a.Slots) }},
	{"goroce_address_cm_to_processes_total", "Messages of the connection manager that the hub gave to processes.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.In) }},
	{"goroce_address_cm_from_processes_total", "Messages of the connection manager that processes sent.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.Out) }},
	{"goroce_address_cm_nobodys_total", "Messages of the connection manager for no process, which the hub answered.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.Nobodys) }},
	{"goroce_address_cm_lost_total", "Messages of the connection manager without room; their senders repeat them.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.NoRoom) }},
	{"goroce_address_strays_total", "Packets that came to another process than their own, and were brought to it.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.Frames) }},
	{"goroce_address_strays_lost_total", "Packets that came to another process than their own, and were lost.",
		counter, func(a *hub.AddressStatus) float64 { return float64(a.FramesLost) }},
	{"goroce_address_strange_total", "What processes wanted to send that is not their own to say.", counter,
		func(a *hub.AddressStatus) float64 { return float64(a.Strange) }},
	{"goroce_address_left_total", "Processes that have ended or closed their device.", counter,
		func(a *hub.AddressStatus) float64 { return float64(a.Left) }},
	{"goroce_address_inherited_total", "Connections of ended processes whose peers the hub has told.", counter,
		func(a *hub.AddressStatus) float64 { return float64(a.Inherited) }},
}

// ofProcess are those of a process, if it says what runs on it.
var ofProcess = []metric[hub.ProcessStatus]{
	{"goroce_process_start_time_seconds", "When the process joined, in seconds since 1970.", gauge,
		func(p *hub.ProcessStatus) float64 { return float64(p.Since) }},
	{"goroce_process_connections", "Connections of the connection manager.", gauge,
		func(p *hub.ProcessStatus) float64 { return float64(p.Conns) }},
	{"goroce_process_queue_pairs", "Queue pairs.", gauge,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.QPs) }},
	{"goroce_process_sent_bytes_total", "Bytes sent, with all headers.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.SentBytes) }},
	{"goroce_process_received_bytes_total", "Bytes received, with all headers.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.RecvBytes) }},
	{"goroce_process_sent_packets_total", "Packets sent.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.SentPkts) }},
	{"goroce_process_received_packets_total", "Packets received.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.RecvPkts) }},
	{"goroce_process_strays_total", "Packets that came to the process and were another's.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.Foreign) }},
	{"goroce_process_strays_lost_total", "Such packets that the hub could not be given.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.ForeignLost) }},
	{"goroce_process_brought_total", "Packets that came to another process, and the hub has brought.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.Brought) }},
	{"goroce_process_brought_lost_total", "Such packets that found no room.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.BroughtLost) }},
	{"goroce_process_cm_lost_total", "Messages of the connection manager that found no room.", counter,
		func(p *hub.ProcessStatus) float64 { return float64(p.Report.Lost) }},
}

// Ask asks a hub what it knows (hub.Ask).
type Ask func(ctx context.Context) (hub.Status, []hub.ProcessStatus, error)

// collector asks for each scrape.
type collector struct {
	ask       Ask
	up, procs *prometheus.Desc
	address   []*prometheus.Desc
	process   []*prometheus.Desc
}

// ofOne are the labels of a process.
var ofOne = []string{"address", "port", "slot", "pid", "program"}

// askTime is how long a hub may take to say what it knows.
const askTime = 5 * time.Second

// Collector is what a registry of Prometheus takes.
func Collector(ask Ask) prometheus.Collector {
	desc := prometheus.NewDesc
	c := &collector{ask: ask,
		up:    desc("goroce_hub_up", "1: there is a hub of this user in this network namespace.", nil, nil),
		procs: desc("goroce_address_processes", "Processes that share the address.", []string{"address", "port"}, nil)}
	for _, m := range ofAddress {
		c.address = append(c.address, desc(m.name, m.help, []string{"address", "port"}, nil))
	}
	for _, m := range ofProcess {
		c.process = append(c.process, desc(m.name, m.help, ofOne, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	s, all, err := c.ask(ctx)
	if err != nil { // what is half told would look as if processes had ended
		put(c.up, gauge, 0)
		return
	}
	put(c.up, gauge, 1)
	type key struct {
		where string
		port  int
	}
	here := map[key]float64{}
	for i := range all {
		p := &all[i]
		if here[key{p.Where, p.Port}]++; p.Report == nil { // it is away, or stands still
			continue
		}
		for n, m := range ofProcess {
			put(c.process[n], m.kind, m.value(p), p.Where, strconv.Itoa(p.Port), strconv.Itoa(p.Slot),
				strconv.Itoa(p.PID), p.Program)
		}
	}
	for i := range s.Addresses {
		a := &s.Addresses[i]
		port := strconv.Itoa(a.Port)
		put(c.procs, gauge, here[key{a.Where, a.Port}], a.Where, port)
		for n, m := range ofAddress {
			put(c.address[n], m.kind, m.value(a), a.Where, port)
		}
	}
}

// Serve answers scrapes of /metrics until ctx ends.
func Serve(ctx context.Context, ln net.Listener, ask Ask) error {
	r := prometheus.NewRegistry()
	r.MustRegister(Collector(ask))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s := http.Server{Handler: mux, ReadHeaderTimeout: askTime}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
