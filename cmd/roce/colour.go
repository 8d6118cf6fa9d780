package main

// Colours, on a terminal only, and few: what failed, what went well, what is a heading, what is
// lines and ticks. This is the one place that decides whether there are any, and of what. Stages:
// before a command runs, its output is wrapped if it is in the table and a person reads it; each
// thing that is written is searched for the words of the table.

import (
	"io"
	"os"
	"regexp"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// inks are what a terminal is told to change to, by the names of groups in the table.
var inks = map[string]string{"strong": "1", "good": "32", "bad": "31", "weak": "2"}

// The words of lessons and of packets.
var (
	lessonWords = regexp.MustCompile(`(?m)(?P<strong>^.+\n=+$|^Chapter: .+|^With a NIC$|^Question:|^\S.*, changed$)` +
		`|(?P<good>^Right\.|IBV_WC_SUCCESS)|(?P<bad>^No, it is|IBV_WC_\w+|✗  lost|refused: .+)|(?P<weak> ──+| ─+▶)`)
	packetWords = regexp.MustCompile(`(?P<bad>BAD ICRC|\bNAK [a-z ]+|\bRNR NAK|IBV_WC_[A-RT-Z]\w+)` +
		`|(?P<good>IBV_WC_SUCCESS)`)
	findingWords = regexp.MustCompile(`(?m)(?P<strong>^\S.*)|(?P<bad>^ +(?:loss|wrong|failed) +packet.*)|(?P<weak>\(section [0-9.]+\))`)
	gradeWords   = regexp.MustCompile(`(?m)^(?:(?P<good>ok  )|(?P<bad>BAD )|(?P<weak>note|\?   ))`)
)

// painted are the commands whose output has colours, and the words that have them.
var painted = map[string]*regexp.Regexp{
	"roce learn":          lessonWords,
	"roce learn quiz":     lessonWords,
	"roce trace decode":   packetWords,
	"roce trace timeline": packetWords,
	"roce trace explain":  packetWords,
	"roce trace analyze":  findingWords,
	"roce doctor":         gradeWords,
}

// paint wraps the output of a command that is about to run.
func paint(c *cobra.Command, _ []string) {
	words := painted[c.CommandPath()]
	if asJSON := c.Flag("json"); words == nil || asJSON != nil && asJSON.Changed || !colourful(c.OutOrStdout()) {
		return
	}
	c.SetOut(&brush{c.OutOrStdout(), words})
}

// colourful says whether what is written to out is read by a person who wants colours.
func colourful(out io.Writer) bool {
	return terminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" &&
		(runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "") // old consoles show the codes
}

// terminal says whether out is one, painted or not.
func terminal(out io.Writer) bool {
	f, ok := unpainted(out).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is how wide the terminal is, 0 if out is none.
func columns(out io.Writer) int {
	f, ok := unpainted(out).(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

func unpainted(out io.Writer) io.Writer {
	if b, ok := out.(*brush); ok {
		return b.out
	}
	return out
}

// brush paints the words of what is written to out.
type brush struct {
	out   io.Writer
	words *regexp.Regexp
}

// Write paints words that are whole in text. One that is cut has no colour.
func (b *brush) Write(text []byte) (int, error) {
	var painted []byte
	at := 0
	for _, m := range b.words.FindAllSubmatchIndex(text, -1) {
		for i, name := range b.words.SubexpNames() {
			if from, to := m[2*i], m[2*i+1]; name != "" && from >= 0 {
				painted = append(append(painted, text[at:from]...), "\x1b["+inks[name]+"m"...)
				painted = append(append(painted, text[from:to]...), "\x1b[0m"...)
				at = to
			}
		}
	}
	if _, err := b.out.Write(append(painted, text[at:]...)); err != nil {
		return 0, err
	}
	return len(text), nil
}
