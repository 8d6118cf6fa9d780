package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/goroce/goroce/cmd/roce/internal/learn"
)

func learnCommand() *cobra.Command {
	var o learn.Options
	var list bool
	var docs string
	c := &cobra.Command{
		Use:   "learn [LESSON]",
		Short: "Learn RDMA from nothing: lessons in a simulated world, each with its packets and a question",
		Long: `learn plays a lesson: what two or three programs do, every packet that comes of it, what their devices do with it, and which
completions it ends in. The text points at the packets, and every claim of it is checked by a test. On a terminal it asks a question.
With --change something is done to a packet, and the lesson says what has become different.

Without a lesson it lists them, in the order in which to read them. "roce demo" shows the operations of the first chapter between two
real devices. The lessons with pictures are also in docs/learn of the repository.`,
		Example: `  roce learn --list
  roce learn write
  roce learn write --change drop:2         what if the ACK is lost?
  roce learn packets --change delay:1:10   packet 1 arrives 10 microseconds late
  roce learn write --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case docs != "":
				return learn.WriteDocs(docs)
			case list || len(args) == 0:
				return learn.List(c.OutOrStdout(), o.JSON)
			}
			o.In, o.Ask = c.InOrStdin(), c.InOrStdin() == os.Stdin && term.IsTerminal(int(os.Stdin.Fd()))
			return learn.Run(c.OutOrStdout(), args[0], o)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list all lessons")
	c.Flags().BoolVar(&o.JSON, "json", false, "the lesson and its play as JSON: packets with all fields, records, queues and memory over time")
	c.Flags().StringSliceVar(&o.Changes, "change", nil, "do something to a packet: drop, delay, duplicate, mark, corrupt or deliver, as in drop:`N`")
	c.Flags().StringVar(&docs, "docs", "", "write the lessons as pages to a `folder`")
	return c
}
