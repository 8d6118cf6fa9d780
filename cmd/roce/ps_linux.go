package main

// What "roce ps" prints.
// Stages: addresses, each with its processes; what one of these listens on; its queue pairs.

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goroce/goroce/roce/hub"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

func printProcesses(w io.Writer, s *hub.Status, all []hub.ProcessStatus) error {
	fmt.Fprintf(w, "hub: process %d, %d processes\n", s.PID, len(all))
	for _, a := range s.Addresses {
		fmt.Fprintf(w, "\n%s: room for %d processes, %s\n", a.Where, a.Slots, lanesOf(a.Lanes))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  SLOT\tPID\tPROGRAM\tAGE\tQPS\tCONNS\tSENT\tRECEIVED\tLISTENS ON")
		for _, p := range all {
			if p.Where != a.Where {
				continue
			}
			qps, sent, received := "?", "?", "?"
			if r := p.Report; r != nil {
				qps, sent, received = fmt.Sprint(r.QPs), amount(r.SentBytes), amount(r.RecvBytes)
			}
			age := time.Since(time.Unix(p.Since, 0)).Truncate(time.Second)
			fmt.Fprintf(t, "  %d\t%d\t%s\t%v\t%s\t%d\t%s\t%s\t%s\n", p.Slot, p.PID, p.Program, age, qps, p.Conns, sent,
				received, services(p.Services))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, p := range all {
			if p.Where == a.Where && p.Report != nil {
				printQPs(w, &p)
			}
		}
	}
	return nil
}

// printQPs prints those that have a peer.
func printQPs(w io.Writer, p *hub.ProcessStatus) {
	for _, q := range p.Report.QueuePairs {
		if q.To != 0 {
			fmt.Fprintf(w, "  %d %s: QP 0x%06x %s %s with 0x%06x at %s\n", p.PID, p.Program, q.QPN, q.Type,
				q.State, q.To, q.Peer)
		}
	}
	if n := p.Report.QPs - len(p.Report.QueuePairs); n > 0 {
		fmt.Fprintf(w, "  %d %s: %d more\n", p.PID, p.Program, n)
	}
}

func lanesOf(n int) string {
	if n == 1 {
		return "1 lane"
	}
	return fmt.Sprintf("%d lanes", n)
}

// services prints ports where they are.
func services(all []hub.Service) string {
	var list []string
	for _, s := range all {
		if space, port, ok := wire.CMServicePort(s.ID); ok {
			name := strings.TrimPrefix(rdmacm.PortSpace(space).String(), "RDMA_PS_")
			list = append(list, fmt.Sprintf("%s %d", name, port))
		} else {
			list = append(list, fmt.Sprintf("service 0x%x", s.ID))
		}
	}
	return strings.Join(list, ", ")
}

// amount prints bytes as people read them.
func amount(n uint64) string {
	const units = " KMGTPE"
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%ci", f, units[i])
}
