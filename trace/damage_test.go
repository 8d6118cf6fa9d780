package trace

// Damaged files and damaged packets: an explanation, and never a crash.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire/pcapng"
)

// classic writes a pcap file.
func classic(order binary.ByteOrder, nano bool, link uint32, packets ...[]byte) []byte {
	magic, unit := uint32(0xa1b2c3d4), uint32(1000)
	if nano {
		magic, unit = 0xa1b23c4d, 1
	}
	b := make([]byte, 24)
	order.PutUint32(b, magic)
	order.PutUint16(b[4:], 2)
	order.PutUint16(b[6:], 4)
	order.PutUint32(b[16:], 65535)
	order.PutUint32(b[20:], link)
	for i, p := range packets {
		h := make([]byte, 16)
		order.PutUint32(h, 1_700_000_000)
		order.PutUint32(h[4:], uint32(5000+1000*i)/unit)
		order.PutUint32(h[8:], uint32(len(p)))
		order.PutUint32(h[12:], uint32(len(p)))
		b = append(append(b, h...), p...)
	}
	return b
}

// drain reads a capture to its end or to where it is damaged.
func drain(file []byte) (packets int, err error) {
	src, err := NewSource(bytes.NewReader(file))
	if err != nil {
		return 0, err
	}
	var text []byte
	src.EachNotes(func(notes []byte) { text = append(text[:0], notes...) })
	for {
		p, err := src.Next()
		if err != nil {
			return packets, err
		}
		packets++
		text = p.AppendLine(text[:0])
		text = p.AppendFields(text[:0])
		text = p.AppendJSON(text[:0])
		text = p.AppendPicture(text[:0])
	}
}

func TestClassicFormat(t *testing.T) {
	_, frames := vectors(t)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, nano := range []bool{false, true} {
			n := 0
			all(t, classic(order, nano, 1|0x14<<24, frames[0], frames[1]), func(p *Packet) {
				require.Equal(t, int64(1_700_000_000_000_005_000)+int64(1000*n), p.Time)
				require.Equal(t, ICRCRight, p.ICRC)
				n++
			})
			require.Equal(t, 2, n)
		}
	}
}

// TestTruncatedFiles cuts files at every byte: what is whole before the cut is read, and then the
// error says that the file ends, or nothing is wrong.
func TestTruncatedFiles(t *testing.T) {
	_, frames := vectors(t)
	for name, file := range map[string][]byte{
		"pcap": classic(binary.LittleEndian, true, 1, frames[:3]...),
		"pcapng": capture(t, Record{Link: LinkEthernet, Data: frames[0], Comment: "c"},
			Record{Link: LinkRaw, Name: "x", Data: frames[1][14:]}),
	} {
		whole, err := drain(file)
		require.Equal(t, io.EOF, err)
		last := 0
		for n := range len(file) {
			got, err := drain(file[:n])
			require.GreaterOrEqual(t, got, last)
			require.LessOrEqual(t, got, whole)
			last = got
			var damage *DamageError
			if err != io.EOF {
				require.True(t, errors.As(err, &damage), "%s cut at %d: %v", name, n, err)
				require.Contains(t, err.Error(), "byte", "%s cut at %d", name, n)
			}
		}
	}
}

// TestDamagedFiles: what is wrong, with which value, and what would be right.
func TestDamagedFiles(t *testing.T) {
	_, frames := vectors(t)
	ng := capture(t, Record{Link: LinkEthernet, Data: frames[0]})
	pcap := classic(binary.LittleEndian, false, 1, frames[0])
	change := func(file []byte, at int, v uint32) []byte {
		b := append([]byte(nil), file...)
		le.PutUint32(b[at:], v)
		return b
	}
	section := int(le.Uint32(ng[4:]))
	packet := section + int(le.Uint32(ng[section+4:]))
	for _, c := range []struct {
		file []byte
		says string
	}{
		{nil, "0 bytes are no capture file"},
		{[]byte("GET / HTTP/1.1"), "neither pcap nor pcapng: the file begins with 47 45 54 20"},
		{[]byte{0x1f, 0x8b, 8, 0}, "gzip: decompress it first"},
		{change(pcap, 4, 3), "pcap of version 3"},
		{change(pcap, 24+8, 1<<30), "packet 1, at byte 24 of the file: a captured length of 1073741824 bytes; 262144 is the most"},
		{pcap[:len(pcap)-1], "packet 1, at byte 40 of the file: the file ends inside a packet: 73 of 74 bytes are there"},
		{change(ng, 8, 0xdeadbeef), "byte order mark"},
		{change(ng, 4, 30), "a section header of 30 bytes"},
		{change(ng, 12, 2), "pcapng of version 2"},
		{change(ng, packet+4, 13), "a block of type 6 with 13 bytes"},
		{change(ng, packet+4, 1<<31), "the file ends inside"},
		{change(ng, packet+8, 9), "it is of interface 9; the section has described 1"},
		{change(ng, packet+20, 1<<31), "a captured length of 2147483648 bytes"},
		{change(ng, len(ng)-4, 4), "ends with one of 4"},
		{change(ng, packet, 0x0a0d0d0a), "byte order mark"},
	} {
		_, err := drain(c.file)
		require.ErrorContains(t, err, c.says)
	}
}

// TestDamagedPackets spoils every byte of packets of each kind: nothing crashes, and what says that
// it is RoCE without a problem has fields up to its last byte.
func TestDamagedPackets(t *testing.T) {
	_, frames := vectors(t)
	packets := wrapped(t, frames[0])
	for i, f := range frames {
		if i%3 == 1 {
			packets = append(packets, wrap{"vector", LinkEthernet, f})
		}
	}
	var out []byte
	for _, c := range packets {
		for at := range c.data {
			for _, v := range []byte{0, 1, 0x80, 0xff} {
				data := append([]byte(nil), c.data...)
				data[at] ^= v
				for _, n := range []int{len(data), at} {
					p := &Packet{Record: Record{Link: c.link, Data: data[:n], Length: len(data)}}
					p.Decode()
					out = p.AppendPicture(out[:0])
					require.NotContains(t, string(out), "%!")
					if p.Kind != Other && !p.Parsed {
						require.NotEmpty(t, p.Problem)
						require.Contains(t, string(p.AppendLine(nil)), map[bool]string{false: "BAD: ", true: "CUT: "}[p.HeadCut]+p.Problem)
					}
				}
			}
		}
	}
}

// noted is a capture with notes around a packet.
func noted(t testing.TB, frame []byte) []byte {
	var out bytes.Buffer
	w := NewWriter(&out)
	require.NoError(t, w.WriteNotes([]byte("one")))
	require.NoError(t, w.Write(&Record{Link: LinkEthernet, Data: frame}))
	require.NoError(t, w.WriteNotes([]byte("three")))
	require.Error(t, w.WriteNotes(make([]byte, maxNotes+1)))
	require.NoError(t, w.Flush())
	return out.Bytes()
}

// TestNotes: who wants them gets them, in their places; others get the packets alone.
func TestNotes(t *testing.T) {
	_, frames := vectors(t)
	file := noted(t, frames[0])
	src, err := NewSource(bytes.NewReader(file))
	require.NoError(t, err)
	var got []string
	src.EachNotes(func(text []byte) { got = append(got, string(text)) })
	_, err = src.Next()
	require.NoError(t, err)
	require.Equal(t, []string{"one\n"}, got)
	_, err = src.Next()
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"one\n", "three\n\n\n"}, got)
	n, err := drain(file)
	require.Equal(t, io.EOF, err)
	require.Equal(t, 1, n)
}

// FuzzFile reads anything as a capture file.
func FuzzFile(f *testing.F) {
	_, frames := vectors(f)
	f.Add(vectorCapture(f))
	f.Add(classic(binary.BigEndian, true, 113, frames[0]))
	f.Add(encapsulations(f))
	f.Add(noted(f, frames[0]))
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := drain(file); err == nil {
			t.Error("no end")
		}
	})
}

// FuzzPacket decodes anything behind the header of any link type, and as copied bytes.
func FuzzPacket(f *testing.F) {
	_, frames := vectors(f)
	for _, c := range wrapped(f, frames[0]) {
		f.Add(uint16(c.link), c.data, 0)
	}
	f.Fuzz(func(t *testing.T, link uint16, data []byte, more int) {
		p := &Packet{Record: Record{Link: LinkType(link), Data: data, Length: len(data) + more&0xffff}}
		p.Decode()
		for _, p := range []*Packet{p, Guess(data)} {
			sane(t, p)
		}
	})
}

// sane looks at a packet in all ways.
func sane(t *testing.T, p *Packet) {
	t.Helper()
	text := string(p.AppendPicture(nil))
	if strings.Contains(text, "%!") && !bytes.Contains(p.Data, []byte("%!")) {
		t.Error(text)
	}
	if !json.Valid(p.AppendJSON(nil)) {
		t.Errorf("%s", p.AppendJSON(nil))
	}
	p.AppendFields(nil)
	if p.Kind != Other && !p.Parsed && p.Problem == "" {
		t.Errorf("no problem is said of\n%s", text)
	}
}

// FuzzHeaders takes a right packet, of any opcode or encapsulation or of the connection manager,
// changes three bytes anywhere in its headers, and cuts it off: it is explained, or said to be
// wrong.
func FuzzHeaders(f *testing.F) {
	var right []Packet
	for _, file := range [][]byte{vectorCapture(f), encapsulations(f), opcodes(f)} {
		all(f, file, func(p *Packet) {
			right = append(right, Packet{Record: p.Record})
			right[len(right)-1].Data = bytes.Clone(p.Data)
		})
	}
	for i := range right {
		f.Add(uint16(i), uint16(20), byte(1), uint16(30), byte(0), uint16(50), byte(0), uint16(0))
	}
	f.Fuzz(func(t *testing.T, which, at1 uint16, v1 byte, at2 uint16, v2 byte, at3 uint16, v3 byte, cut uint16) {
		p := Packet{Record: right[int(which)%len(right)].Record}
		p.Data = bytes.Clone(p.Data)
		headers := min(len(p.Data), 160)
		for _, c := range []struct {
			at uint16
			v  byte
		}{{at1, v1}, {at2, v2}, {at3, v3}} {
			p.Data[int(c.at)%headers] ^= c.v
		}
		p.Data = p.Data[:len(p.Data)-int(cut)%len(p.Data)]
		p.Decode()
		sane(t, &p)
	})
}

// TestRandomOptions: options of any code and length in a block do no harm.
func TestRandomOptions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	_, frames := vectors(t)
	file := capture(t, Record{Link: LinkEthernet, Name: "eth0", Data: frames[0], Comment: "some words", Direction: DirSent})
	for range 2000 {
		b := append([]byte(nil), file...)
		for range 1 + rnd.IntN(4) {
			b[24+rnd.IntN(len(b)-24)] = byte(rnd.Uint32())
		}
		_, err := drain(b)
		require.Error(t, err)
	}
}

// TestManyComments: what a packet's comments take grows with their bytes, not with its square.
func TestManyComments(t *testing.T) {
	var file bytes.Buffer
	w := pcapng.NewWriter(&file)
	w.Interface(pcapng.Interface{Link: uint16(LinkRaw)})
	require.NoError(t, w.Flush())
	options := bytes.Repeat([]byte{pcapng.OptComment, 0, 4, 0, 'w', 'o', 'r', 'd'}, maxNgOptions/8)
	body := append(make([]byte, 20), options...)
	n := uint32(len(body) + 12)
	block := append(le.AppendUint32(le.AppendUint32(nil, pcapng.PacketBlock), n), body...)
	file.Write(le.AppendUint32(block, n))
	src, err := NewSource(&file)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := src.Next()
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, strings.Repeat("word\n", 1<<15-1)+"word", p.Comment)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16*maxNgOptions))
}

// TestJSONOnATerminal: JSON of a capture has nothing in it that a terminal obeys, and is still what
// was in the capture.
func TestJSONOnATerminal(t *testing.T) {
	p := Packet{Record: Record{Name: "\x1b[2J\x7f", Comment: "\u009b31m ünïcode \u202e"}}
	text := p.AppendJSON(nil)
	require.Equal(t, Printable(string(text)), string(text))
	var x struct{ Interface, Comment string }
	require.NoError(t, json.Unmarshal(text, &x))
	require.Equal(t, p.Name, x.Interface)
	require.Equal(t, p.Comment, x.Comment)
}
