package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/metrics"
	"github.com/goroce/goroce/roce/hub"
)

func init() { more = append(more, metricsCommand) }

func metricsCommand() *cobra.Command {
	at := "127.0.0.1:9418"
	c := &cobra.Command{
		Use:   "metrics",
		Short: "Serve what the processes at the hub do to Prometheus",
		Long: `metrics answers scrapes at http://ADDRESS/metrics, for each of which it asks the hub of this user in this network
namespace, whichever runs then. docs/metrics.md lists what there is, and docs/dashboard.json draws it in Grafana.`,
		Example: `  roce metrics
  roce metrics --listen 10.0.0.1:9418`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			ln, err := net.Listen("tcp", at)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "http://%s/metrics\n", ln.Addr())
			return metrics.Serve(c.Context(), ln, hub.Ask)
		},
	}
	c.Flags().StringVar(&at, "listen", at, "`address` and port to answer at: whoever reaches it may read")
	return c
}
