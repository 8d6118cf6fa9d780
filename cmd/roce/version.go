package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from, and what it is compatible with",
		Args:  operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(),
				"roce %s\n%s %s/%s\npingpong speaks the protocol of ibv_*_pingpong, perf that of perftest 4.5 (6.06)\n",
				version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is the module's version, with the commit if the build recorded one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if rev := settings["vcs.revision"]; len(rev) >= 12 {
		v += " (" + rev[:12]
		if settings["vcs.modified"] == "true" {
			v += ", modified"
		}
		v += ")"
	}
	return v
}
