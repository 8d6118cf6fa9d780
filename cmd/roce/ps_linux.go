package main

// What processes at a hub do, once, or again and again for who looks at a terminal.
// Stages: asking; what is printed: addresses, each with its processes, and their queue pairs.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/roce/hub"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

func init() { more = append(more, psCommand) }

// refresh is how often the list is new, at a terminal.
const refresh = time.Second

func psCommand() *cobra.Command {
	var asJSON, once bool
	c := &cobra.Command{
		Use:   "ps",
		Short: "Show the processes that share addresses, their queue pairs, peers and rates",
		Long: `ps asks the hub of this user in this network namespace, which asks each process. At a terminal it does so each second until
Ctrl-C, and shows what has been sent and received in the last one.`,
		Example: `  roce ps
  roce ps --once
  roce ps --json`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !asJSON && !once && c.OutOrStdout() == os.Stdout && isTerminal(os.Stdout) {
				return watchProcesses(c.Context(), os.Stdout, refresh)
			}
			now, err := look(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), struct {
					hub.Status
					Processes []hub.ProcessStatus
				}{now.Status, now.all})
			}
			return now.print(c.OutOrStdout(), nil)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, once")
	c.Flags().BoolVar(&once, "once", false, "print the list once, at a terminal too")
	return c
}

// view is what a hub said.
type view struct {
	hub.Status
	all []hub.ProcessStatus
	at  time.Time
}

// look asks the hub.
func look(ctx context.Context) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, all, err := hub.Ask(ctx)
	return &view{s, all, time.Now()}, err
}

// watchProcesses shows what there is until ctx ends, each time on a clear screen.
func watchProcesses(ctx context.Context, w io.Writer, every time.Duration) error {
	const home, clear = "\x1b[H", "\x1b[J"
	var last *view
	for tick := time.NewTicker(every); ; {
		var b bytes.Buffer
		now, err := look(ctx)
		if ctx.Err() != nil {
			return nil // Ctrl-C is how it ends
		}
		if err != nil { // there may be one again
			fmt.Fprintln(&b, said(err))
			now = nil
		} else if err := now.print(&b, last); err != nil {
			return err
		}
		last = now
		if _, err := io.WriteString(w, home+clear+b.String()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// traffic is what a process has sent and received, altogether, or in each second since before.
func (v *view) traffic(p *hub.ProcessStatus, before *view) (sent, received string) {
	if p.Report == nil {
		return "?", "?"
	}
	if before == nil {
		return amount(p.Report.SentBytes), amount(p.Report.RecvBytes)
	}
	for i := range before.all {
		b := &before.all[i]
		if b.Where == p.Where && b.Port == p.Port && b.PID == p.PID && b.Slot == p.Slot && b.Report != nil {
			rate := func(now, then uint64) string {
				if now < then { // it has opened another device
					return "-"
				}
				return amount(uint64(float64(now-then)/v.at.Sub(before.at).Seconds())) + "/s"
			}
			return rate(p.Report.SentBytes, b.Report.SentBytes), rate(p.Report.RecvBytes, b.Report.RecvBytes)
		}
	}
	return "-", "-" // it has just come
}

// print writes the list; of traffic the rates since before, if there was a view before.
func (v *view) print(w io.Writer, before *view) error {
	fmt.Fprintf(w, "hub: process %d, %d processes\n", v.PID, len(v.all))
	for _, a := range v.Addresses {
		where := a.Where
		if a.Port != wire.UDPPort {
			where += fmt.Sprintf(", UDP port %d", a.Port)
		}
		fmt.Fprintf(w, "\n%s: room for %d processes, %s\n", where, a.Slots, lanesOf(a.Lanes))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  SLOT\tPID\tPROGRAM\tAGE\tQPS\tCONNS\tSENT\tRECEIVED\tLISTENS ON")
		for _, p := range v.all {
			if p.Where != a.Where || p.Port != a.Port {
				continue
			}
			qps := "?"
			if p.Report != nil {
				qps = fmt.Sprint(p.Report.QPs)
			}
			sent, received := v.traffic(&p, before)
			age := time.Since(time.Unix(p.Since, 0)).Truncate(time.Second)
			fmt.Fprintf(t, "  %d\t%d\t%s\t%v\t%s\t%d\t%s\t%s\t%s\n", p.Slot, p.PID, p.Program, age, qps, p.Conns, sent,
				received, services(p.Services))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, p := range v.all {
			if p.Where == a.Where && p.Port == a.Port && p.Report != nil {
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
