package main

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/goroce/goroce/cmd/roce/internal/learn"
)

func learnCommand() *cobra.Command {
	var o learn.Options
	var list, open, text bool
	var docs, html, slides string
	c := &cobra.Command{
		Use:   "learn [LESSON]",
		Short: "Learn RDMA from nothing: lessons in a simulated world, each with its packets and a question",
		Long: `learn plays a lesson: what two or three programs do, every packet that comes of it, what their devices do with it, and which
completions it ends in. The text points at the packets, and every claim of it is checked by a test. On a terminal it asks a question.
With --change something is done to a packet, and three to six sentences say what came of it, and why.

Without a lesson, at a terminal, it opens the page that has all of them in your browser: there you step through a lesson, see both ends'
queues and memory, and lose packets by a click. With --text, or where nobody sits at a terminal, it lists them, in the order in which to
read them. "roce demo" shows the operations of the first chapter between two real devices. The lessons with pictures are also in docs/learn
of the repository; docs/course has a course of two afternoons made of them.`,
		Example: `  roce learn                               the page, in your browser
  roce learn --list
  roce learn write                         a lesson in the terminal
  roce learn write --change drop:2         what if the ACK is lost?
  roce learn packets --change delay:1:10   packet 1 arrives 10 microseconds late
  roce learn write --json
  roce learn --html lessons.html           all of them, to play with in a browser`,
		Args: operands(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case docs != "":
				return learn.WriteDocs(docs)
			case html != "":
				return learn.WritePage(html)
			case slides != "":
				return learn.WriteSlides(slides)
			case open || len(args) == 0 && !list && !text && !o.JSON && terminal(c.OutOrStdout()):
				return learn.Open(c.OutOrStdout(), strings.Join(args, ""))
			case list || len(args) == 0:
				return learn.List(c.OutOrStdout(), o.JSON)
			}
			o.Width = columns(c.OutOrStdout())
			o.In, o.Ask = c.InOrStdin(), c.InOrStdin() == os.Stdin && term.IsTerminal(int(os.Stdin.Fd()))
			return learn.Run(c.OutOrStdout(), args[0], o)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list all lessons")
	c.Flags().BoolVar(&open, "open", false, "open the page of all lessons in a browser, at LESSON if one is named")
	c.Flags().BoolVar(&text, "text", false, "stay in the terminal")
	c.Flags().BoolVar(&o.JSON, "json", false,
		"the lesson and its play as JSON: packets with all fields, records, queues and memory over time, "+
			"what came of a change")
	c.Flags().StringSliceVar(&o.Changes, "change", nil,
		"do something to a packet: drop, delay, duplicate, mark, corrupt or deliver, such as `drop:2`")
	c.Flags().StringVar(&html, "html", "", "write all lessons, to play with in a browser, to a `file`")
	c.Flags().StringVar(&slides, "slides", "",
		"write slides of a course (docs/course), made from the lessons, to a `file`")
	c.Flags().StringVar(&docs, "docs", "", "write the lessons as pages to a `folder`")
	c.MarkFlagsMutuallyExclusive("html", "slides", "docs", "list", "open", "text")
	c.AddCommand(quizCommand(), progressCommand())
	return c
}

func progressCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "progress FILE...",
		Short: "A class: a table of the files in which students have saved what they have done",
		Long: `progress reads the files that students have saved from the page of "roce learn" (Progress, Save as a file), and has a line for each:
lessons begun and walked to their end, questions answered, answered rightly, rightly at once, changes made, the day, and the lessons whose
question is not right yet.`,
		Example: `  roce learn progress roce-lessons-*.json`,
		Args:    operands(1, math.MaxInt),
		RunE: func(c *cobra.Command, args []string) error {
			return learn.Progress(c.OutOrStdout(), args)
		},
	}
}

func quizCommand() *cobra.Command {
	var o learn.QuizOptions
	var list, sheet bool
	c := &cobra.Command{
		Use:   "quiz [KIND]",
		Short: "Arithmetic of RDMA with fresh numbers: tables, queues, packets, times, rates",
		Long: `quiz asks questions with numbers of their own, such as how many pages a region has or what a window allows on a path, reads an
answer, and explains it. An answer is a number, such as 4096, 0x1000, 4K or 1.5: whole numbers exactly, others to a percent or half
of one. With a kind it asks only that.`,
		Example: `  roce learn quiz
  roce learn quiz packets --count 10
  roce learn quiz --sheet                 an exercise sheet worked, with its own numbers
  roce learn quiz --seed 1 --json         the questions with their answers`,
		Args: operands(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case list:
				learn.Kinds(c.OutOrStdout())
				return nil
			case sheet:
				return learn.Sheet(c.OutOrStdout(), o.JSON, columns(c.OutOrStdout()))
			}
			if len(args) > 0 {
				o.Kind = args[0]
			}
			if !c.Flags().Changed("seed") {
				o.Seed = uint64(rand.Uint32())
			}
			o.In, o.Width = c.InOrStdin(), columns(c.OutOrStdout())
			return learn.Quiz(c.OutOrStdout(), o)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the kinds of questions")
	c.Flags().BoolVar(&sheet, "sheet", false, "work the exercise sheet of docs/course, with its own numbers")
	c.Flags().IntVar(&o.Count, "count", 5, "how many `questions`")
	c.Flags().Uint64Var(&o.Seed, "seed", 0, "ask what this `number` stands for; without it something else each time")
	c.Flags().BoolVar(&o.JSON, "json", false, "print the questions and answers as JSON")
	return c
}
