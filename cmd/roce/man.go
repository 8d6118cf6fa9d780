//go:build man

package main

// The manual pages, one a command, made from the commands themselves. Only "make dist" builds this:
// the command that users run has no use for it.

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func init() { more = append(more, manCommand) }

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   operands(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			// The date is that of the commit, so that two builds are alike.
			seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
			date := time.Unix(seconds, 0).UTC()
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Title:   "ROCE",
				Section: "1",
				Date:    &date,
				Source:  "roce " + version(),
			}, args[0])
		},
	}
}
