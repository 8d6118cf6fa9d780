package main

// A program's packets in files for Wireshark, without privilege, if GOROCE_PCAP names a folder: of
// each device of each process the newest, as what is tested may run for hours.
//
// Stages: the name; a port whose packets are in the file before anybody hears of them, as the
// program may be killed; a file, and when it is full the next one.

import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/wire"
)

// pcapFolder is where the files go; "": nowhere.
var pcapFolder = os.Getenv("GOROCE_PCAP")

// pcapSize is about how many bytes a file has. The newest one and the one before are kept.
const pcapSize = 16 << 20

// plain makes of a name one that file systems and those who keep artifacts take.
var plain = strings.NewReplacer(":", "-", "/", "-", "%", "-", " ", "-")

// recorded is what goes around the port of a device, if its packets are wanted. Where no file can
// be made the program hears of it, and goes on.
func recorded(device string) func(transport.Port) transport.Port {
	if pcapFolder == "" {
		return nil
	}
	return func(p transport.Port) transport.Port {
		name := fmt.Sprintf("%s-%d-%s", filepath.Base(os.Args[0]), os.Getpid(), device)
		t := &tape{name: filepath.Join(pcapFolder, plain.Replace(name))}
		if t.begin(); t.err != nil {
			fmt.Fprintf(os.Stderr, "goroce: GOROCE_PCAP: nothing is recorded: %v\n", t.err)
			return p
		}
		return &recorder{capture.Wrap(p, t), t}
	}
}

// recorder is the port.
type recorder struct {
	*capture.Port
	tape *tape
}

func (r *recorder) Recv(frames []wire.Frame) (n int, err error) {
	if n, err = r.Port.Recv(frames); n > 0 {
		r.tape.flush()
	}
	return n, err
}

func (r *recorder) Send(b *wire.Batch) (sent int, err error) {
	if sent, err = r.Port.Send(b); sent > 0 {
		r.tape.flush()
	}
	return sent, err
}

func (r *recorder) Close() error {
	err := r.Port.Close()
	r.tape.end()
	return err
}

// tape is the files of a device. Who has the turn of its lane has it.
type tape struct {
	name    string // of the first, without its end
	sink    *capture.Pcapng
	file    *os.File
	written int
	number  int // of the file, from 1 on
	err     error
}

// Capture writes a packet.
func (t *tape) Capture(dir capture.Direction, at time.Time, f *wire.Frame) {
	if t.err == nil {
		t.sink.Capture(dir, at, f)
	}
}

// Write is the sink's.
func (t *tape) Write(p []byte) (int, error) {
	t.written += len(p)
	return t.file.Write(p)
}

// at is the path of a file.
func (t *tape) at(number int) string {
	if number == 1 {
		return t.name + ".pcapng"
	}
	return fmt.Sprintf("%s-%d.pcapng", t.name, number)
}

// begin begins the next file.
func (t *tape) begin() {
	t.number++
	t.written = 0
	// Packets have what the program sends, which is nobody else's.
	t.file, t.err = os.OpenFile(t.at(t.number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if t.err == nil {
		t.sink, t.err = capture.NewPcapng(t)
	}
}

// flush has what was captured in the file, and begins another one if it is full.
func (t *tape) flush() {
	if t.err != nil {
		return
	}
	if t.err = t.sink.Flush(); t.err == nil && t.written >= pcapSize {
		t.end()
		if t.number > 1 {
			_ = os.Remove(t.at(t.number - 1)) // somebody may have taken it away
		}
		t.begin()
	}
	if t.err != nil {
		say("GOROCE_PCAP:", t.err)
	}
}

// end closes the file.
func (t *tape) end() {
	if t.err == nil {
		t.file.Close()
	}
}
