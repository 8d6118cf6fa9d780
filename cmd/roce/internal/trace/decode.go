package trace

// "roce trace decode" and "explain": packets as lines, as fields, as JSON, as a picture, and as a
// file with comments.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/glossary"
)

// DecodeOptions are those of Decode.
type DecodeOptions struct {
	Choice
	Verbose  bool   // every field
	JSON     bool   // a JSON object a line
	Annotate string // a file to write the packets to, each with its line as a comment
}

// Decode shows the packets of a capture file.
func Decode(ctx context.Context, out io.Writer, name string, o DecodeOptions) (err error) {
	w := bufio.NewWriterSize(out, 1<<16)
	defer func() { err = errors.Join(err, w.Flush()) }()
	var notes *annotator
	if o.Annotate != "" {
		if notes, err = annotate(o.Annotate, name, w); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, notes.close()) }()
	}
	var line []byte
	var first int64
	begun := false
	o.idle = func() { _ = w.Flush() } // the next Write returns what is wrong
	return each(ctx, name, &o.Choice, func(p *trace.Packet) error {
		if !begun {
			first, begun = p.Time, true
		}
		switch {
		case notes != nil:
			return notes.add(p)
		case o.JSON:
			line = p.AppendJSON(line[:0])
		default:
			line = appendStamp(line[:0], p, first)
			line = p.AppendLine(line)
		}
		line = append(line, '\n')
		if o.Verbose && !o.JSON {
			line = p.AppendFields(line)
		}
		_, err := w.Write(line)
		return err
	})
}

// appendStamp appends the packet's number and its time since the first, in seconds.
func appendStamp(dst []byte, p *trace.Packet, first int64) []byte {
	n := len(dst)
	dst = strconv.AppendInt(dst, int64(p.Number), 10)
	if p.Part > 0 {
		dst = strconv.AppendInt(append(dst, '.'), int64(p.Part), 10)
	}
	for len(dst)-n < 7 {
		dst = append(dst, ' ')
	}
	t := p.Time - first
	if t < 0 {
		dst, t = append(dst, '-'), -t
	}
	dst = append(strconv.AppendInt(dst, t/1e9, 10), '.')
	dst = append(dst, strconv.FormatInt(1e9+t%1e9, 10)[1:]...)
	return append(dst, "  "...)
}

// annotator writes packets with comments.
type annotator struct {
	file io.WriteCloser
	w    *trace.Writer
}

func annotate(name, from string, out io.Writer) (*annotator, error) {
	file, err := create(name, from, out)
	if err != nil {
		return nil, err
	}
	return &annotator{file: file, w: trace.NewWriter(file)}, nil
}

// add writes the packet. A comment that it had stays in its line.
func (a *annotator) add(p *trace.Packet) error {
	rec := p.Record
	rec.Data = rec.Data[:len(rec.Data)-p.Cut]
	rec.Time = max(rec.Time, 0) // a file cannot say when before 1970
	rec.Comment = string(p.AppendLine(nil))
	return a.w.Write(&rec)
}

func (a *annotator) close() error { return errors.Join(a.w.Flush(), a.file.Close()) }

// Explain shows what HEX, FILE#N, a status or a term means.
func Explain(ctx context.Context, out io.Writer, what string) error {
	if text, ok := trace.ExplainStatus(what); ok {
		_, err := io.WriteString(out, text)
		return err
	}
	if t := glossary.Find(what); t != nil {
		_, err := fmt.Fprintf(out, "%s (term)\n  %s\n", t.Name, t.Means)
		return err
	}
	if name, number, ok := strings.Cut(what, "#"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("%s: which packet? write %s#3 for the third", what, name)
		}
		return explainRecord(ctx, out, name, n)
	}
	if _, err := os.Stat(what); err == nil {
		return fmt.Errorf("which packet of %s? write %s#3 for the third", what, what)
	}
	data, err := trace.ParseHex(what)
	if err != nil || len(data) < smallest {
		if similar := topicsWith(what); similar != nil {
			return fmt.Errorf("%q is no name that can be explained; these have it in them: %s",
				what, strings.Join(similar, ", "))
		}
		return fmt.Errorf("%q is no status, no FILE#N and no packet, which has %d bytes or more in hexadecimal "+
			"digits; \"roce trace explain --list\" shows what there is",
			what, smallest)
	}
	_, err = out.Write(trace.Guess(data).AppendPicture(nil))
	return err
}

// topicsWith are the names that have the text in them.
func topicsWith(text string) (names []string) {
	text = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToUpper(text))
	for _, t := range trace.Topics() {
		if len(text) > 1 && strings.Contains(strings.ToUpper(t.Name), text) && !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// smallest is how long the smallest packet is: a BTH and an ICRC.
const smallest = 16

func explainRecord(ctx context.Context, out io.Writer, name string, number int) error {
	found := false
	err := each(ctx, name, &Choice{From: number, To: number, Others: true}, func(p *trace.Packet) error {
		if found {
			fmt.Fprintln(out)
		}
		found = true
		_, err := out.Write(p.AppendPicture(nil))
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%s has no packet %d", shown(name), number)
	}
	return err
}
