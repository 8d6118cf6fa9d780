package main

// What a shell offers behind a word ("roce completion --help"): names of devices, lessons, kinds of
// questions and services, files where a file is read or written, and else nothing.

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/quiz"
)

// offers are what options take, by their names. What is not here takes a file if its value is
// called so, else a number or a text of the user's own.
var offers = map[string]func() []string{
	"dev":         deviceNames,
	"type":        func() []string { return []string{"rc", "uc", "ud"} },
	"connection":  func() []string { return []string{"RC", "UC", "UD"} },
	"atomic-type": func() []string { return []string{"FETCH_AND_ADD", "CMP_AND_SWAP"} },
	"mtu":         func() []string { return []string{"256", "512", "1024", "2048", "4096"} },
	"test":        func() []string { return []string{"socket", "async", "blocking", "nonblocking", "verify"} },
	"change": func() []string {
		return []string{"drop:", "delay:", "duplicate:", "mark:", "corrupt:", "deliver:"}
	},
}

// operandOffers are what stands behind a command, by the first word of it in the usage line.
var operandOffers = map[string]func() []string{
	"[LESSON]": func() (names []string) {
		for _, l := range learn.All() {
			names = append(names, l.Name+"\t"+l.Title)
		}
		return names
	},
	"[KIND]": func() (names []string) {
		for _, k := range quiz.Kinds {
			names = append(names, k.Name+"\t"+k.About)
		}
		return names
	},
}

// complete gives a command and those below it what shells ask for.
func complete(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if names, ok := offers[f.Name]; ok {
			_ = c.RegisterFlagCompletionFunc(f.Name, offer(names, false))
		} else if kind, _ := pflag.UnquoteUsage(f); kind != "file" && kind != "folder" {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
	_, operand, _ := strings.Cut(c.Use, " ")
	if names, ok := operandOffers[operand]; ok {
		c.ValidArgsFunction = offer(names, true)
	} else if !strings.Contains(operand, "FILE") && !c.HasSubCommands() {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

// offer offers the names, and no files; behind a command once.
func offer(names func() []string, once bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if once && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// deviceNames are the devices that work here.
func deviceNames() (names []string) {
	infos, _ := roce.Devices()
	for _, i := range infos {
		if i.Err == nil {
			names = append(names, i.Name)
		}
	}
	return names
}
