// Package costs measures what people who learn RDMA ask for first: what a message costs over
// sockets and over RDMA, how the other side learns of a WRITE and what that costs, and what
// registering memory costs.
//
// Sockets and Notify are tables of ways (ways.go) to have one message answered. Stages of a run:
// meet (control.go), go through the table (run.go): each way opens an end on both sides (rdma.go,
// socket_unix.go, ping.go), the client asks and the server answers until the time is up; print
// (report.go). Reg (reg.go) has no peer.
package costs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
)

// Options are those of one run.
type Options struct {
	session.Options
	Server   bool          // answer one client, on Port
	Host     string        // the server; "" and no Server: both ends are on this machine
	Answer   string        // answer the client that waits at this TCP address
	Program  []string      // command line of a program that does so, when the address is appended
	Port     int           // TCP port on which the ends meet
	Size     int           // bytes of a message, 8 to 1 MiB
	Duration time.Duration // of each way, or of each figure of Reg; a tenth of it is warm-up

	Smallest, Largest int // Reg: sizes from one to the other, each four times the one before

	Output
}

// Output is what is made of the results.
type Output struct {
	JSON bool
	Plot string // file for a picture, PNG if its name ends so, else SVG; "" for none
}

// the sizes that are taken
const (
	minSize, maxSize = 8, 1 << 20
	minReg, maxReg   = 4096, 1 << 30
	maxDuration      = time.Hour
)

func (o *Options) check(ends bool) error {
	if o.Duration <= 0 || o.Duration > maxDuration {
		return fmt.Errorf("--duration %v: want more than 0, up to %v", o.Duration, maxDuration)
	}
	if !ends {
		if o.Smallest < minReg || o.Largest > maxReg || o.Smallest > o.Largest {
			return fmt.Errorf("--smallest %d, --largest %d: want %d to %d, the one not above the other",
				o.Smallest, o.Largest, minReg, maxReg)
		}
		return nil
	}
	if o.Server && o.Host != "" {
		return errors.New("--server waits for a client: it has no host")
	}
	if o.Answer == "" && (o.Size < minSize || o.Size > maxSize) {
		return fmt.Errorf("--size %d: want %d to %d", o.Size, minSize, maxSize)
	}
	return o.CheckFaults()
}

// say prints to a person; with --json nobody reads.
func (o *Options) say(out io.Writer, format string, a ...any) {
	if !o.JSON {
		fmt.Fprintf(out, format, a...)
	}
}
