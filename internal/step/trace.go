package step

// An order of steps as one can read it: a play that has failed is played once more, and each step
// is noted with its place in the code.

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// trace is what a play says of its steps.
type trace struct {
	lines []string
	last  int
}

// step notes the step that follows.
func (t *trace) step(p *Play) {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	did := ""
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, here+".") && !strings.HasPrefix(f.Function, here+"/") {
			at := fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
			name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
			t.lines = append(t.lines, fmt.Sprintf("%5d  %-12s %-20s %-28s in %s",
				len(p.points)-1, p.tasks[p.cur].name, at, did, name))
			return
		}
		if !more {
			return
		}
		did = f.Function[strings.LastIndexByte(f.Function, '/')+1:]
	}
}

// String is all of it; where another task goes on there is an empty line.
func (t *trace) String() string {
	var b strings.Builder
	who := ""
	for _, line := range t.lines {
		if is := line[7:19]; is != who {
			who = is
			b.WriteByte('\n')
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
