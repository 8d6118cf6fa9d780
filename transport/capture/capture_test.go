package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/transport/pipe"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

// captureConversation lets two UDP ports exchange packets 0..n-1, back and forth, all of them
// captured at the first.
func captureConversation(t *testing.T, sink Sink, n int) {
	t.Helper()
	open := func(name string) transport.Port {
		ports, err := udp.Open(name, 1, transport.Options{UDPPort: porttest.UDPPort})
		if err != nil {
			t.Fatal(err)
		}
		return ports[0]
	}
	a, b := transport.Port(Wrap(open("udp:127.77.2.1"), sink)), open("udp:127.77.2.2")
	defer a.Close()
	defer b.Close()
	batch := wire.NewBatch(4, 1100)
	frames := make([]wire.Frame, 4)
	for i := range n {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		porttest.Put(t, batch, porttest.PathBetween(t, from, to, 0, 64), i, 10*i)
		porttest.SendAll(t, from, batch)
		if got := porttest.RecvSome(t, to, frames); porttest.Number(t, &got[0]) != i {
			t.Fatal("wrong packet")
		}
	}
}

func TestFunc(t *testing.T) {
	var log []string
	start := time.Now()
	captureConversation(t, Func(func(dir Direction, at time.Time, f *wire.Frame) {
		if at.Before(start) || at.After(time.Now()) {
			t.Errorf("time %v", at)
		}
		log = append(log, dir.String()+f.Dst().Addr().String())
		porttest.Number(t, f)
	}), 4)
	if got := strings.Join(log, " "); got != ">127.77.2.2 <127.77.2.1 >127.77.2.2 <127.77.2.1" {
		t.Errorf("captured %s", got)
	}
}

// What is written can be read back: whole packets with a right ICRC, directions, nanoseconds.
func TestPcapng(t *testing.T) {
	var file bytes.Buffer
	sink, err := NewPcapng(&file)
	if err != nil {
		t.Fatal(err)
	}
	captureConversation(t, sink, 5)
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	size := file.Len()
	captureConversation(t, sink, 2) // after Close: nothing
	sink.Flush()
	if file.Len() != size {
		t.Error("captured after Close")
	}
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	if r.LinkType() != layers.LinkTypeRaw {
		t.Errorf("link type %v", r.LinkType())
	}
	var last time.Time
	for i := 0; ; i++ {
		data, ci, err := r.ReadPacketData()
		if err == io.EOF {
			if i != 5 {
				t.Errorf("%d packets", i)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f, why := wire.SplitFrame(data)
		if why != wire.DropNone || porttest.Number(t, &f) != i {
			t.Fatalf("packet %d: %v", i, why)
		}
		if ci.Timestamp.Before(last) {
			t.Errorf("packet %d is older than the one before", i)
		}
		last = ci.Timestamp
		if want := Direction((i + 1) % 2); ci.InterfaceIndex != int(want) {
			t.Errorf("packet %d: interface %d, want %d", i, ci.InterfaceIndex, want)
		}
	}
}

// Blocks of other types stand between whole packets, whoever captures at the same time; others are
// refused.
func TestBlocks(t *testing.T) {
	var file bytes.Buffer
	sink, err := NewPcapng(&file)
	if err != nil {
		t.Fatal(err)
	}
	const each, kind = 3000, 0x80000000
	frame := wire.Frame{Body: make([]byte, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range each {
			sink.Capture(Sent, time.Unix(0, 0), &frame)
		}
	}()
	for range each {
		if err := sink.Block(kind, []byte("noteNote")); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	count := map[uint32]int{}
	for b := file.Bytes(); len(b) > 0; {
		n := binary.LittleEndian.Uint32(b[4:])
		if int(n) > len(b) || binary.LittleEndian.Uint32(b[n-4:]) != n {
			t.Fatalf("a block of %d bytes does not end where it should", n)
		}
		count[binary.LittleEndian.Uint32(b)]++
		b = b[n:]
	}
	if count[kind] != each || count[6] != each {
		t.Errorf("blocks by type: %v", count)
	}
	for _, err := range []error{sink.Block(7, nil), sink.Block(kind, []byte("x"))} {
		if err == nil {
			t.Error("a block that cannot be was taken")
		}
	}
}

// Wireshark's own opinion of the file.
func TestPcapngInTshark(t *testing.T) {
	tshark.Path(t)
	var file bytes.Buffer
	sink, err := NewPcapng(&file)
	if err != nil {
		t.Fatal(err)
	}
	captureConversation(t, sink, 3)
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	fields := []string{"ip.dst", "infiniband.bth.opcode", "infiniband.bth.psn"}
	var got []string
	for _, p := range tshark.Dissect(t, file.Bytes(), fields) {
		got = append(got, p[fields[0]]+" "+p[fields[1]]+" "+p[fields[2]])
	}
	for _, want := range []string{"127.77.2.2 36 0", "127.77.2.1 36 1", "127.77.2.2 36 2"} {
		if !slices.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}

// A writer that fails ends the capture and not the traffic.
func TestPcapngWriterFails(t *testing.T) {
	sink, err := NewPcapng(failingWriter{})
	if err == nil {
		captureConversation(t, sink, 4)
		err = sink.Close()
	}
	if !errors.Is(err, errWriter) {
		t.Errorf("%v", err)
	}
}

var errWriter = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }

func TestWrappersForwardGroups(t *testing.T) {
	group, _ := wire.ParseGID("239.1.1.1")
	inner := porttest.Open(t, pipe.Open, "pipe:TestWrappersForwardGroups", transport.Options{})
	bad := fault.Wrap(inner, fault.Config{})
	for _, m := range []transport.Multicaster{bad, Wrap(inner, Func(nil)), Wrap(bad, nil)} {
		if err := errors.Join(m.JoinGroup(group), m.LeaveGroup(group)); err != nil {
			t.Error(err)
		}
	}
	without := Wrap(struct{ transport.Port }{inner}, nil)
	if err := without.JoinGroup(group); !errors.Is(err, transport.ErrNoMulticast) {
		t.Error(err)
	}
	if err := without.LeaveGroup(group); !errors.Is(err, transport.ErrNoMulticast) {
		t.Error(err)
	}
}
