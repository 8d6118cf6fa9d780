package wire

import (
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestPrint compares one line per vector, per opcode and per kind of damage with
// testdata/print.golden.
func TestPrint(t *testing.T) {
	var out strings.Builder
	show := func(label string, f *Frame) {
		line := string(AppendPacket(nil, f))
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("%s: more than a line", label)
		}
		out.WriteString(label + ": " + line + "\n")
	}
	for _, v := range loadVectors(t) {
		f := v.frame(t)
		show(v.Name, &f)
	}
	for _, v := range loadCMVectors(t) {
		f, _ := v.frame(t)
		show("cm "+v.Msg, &f)
	}
	rnd := rand.New(rand.NewPCG(17, 18))
	for op := range Opcodes {
		if Opcodes[op].Flags != 0 {
			n := 0
			if Opcodes[op].Flags&OpPayload != 0 {
				n = 8
			}
			b := build(t, rnd, Opcode(op), testPath(t, op&1 == 1), n, false)
			show(Opcode(op).String(), &b.frame)
		}
	}
	for _, d := range []struct {
		label string
		spoil func(f *Frame)
	}{
		{"wrong ICRC", func(f *Frame) { f.Body[20]++ }},
		{"Identification changed on the way", func(f *Frame) { f.IPv4().SetIdentification(0x1234) }},
		{"congestion experienced", func(f *Frame) { f.IPv4().SetTOS(0x63) }},
		{"unknown opcode", func(f *Frame) { f.Body[0] = 0x1f }},
		{"transport version", func(f *Frame) { f.Body[1] |= 3 }},
		{"pad", func(f *Frame) { f.Body[1] |= 0x30; f.Body = f.Body[:17] }},
		{"short", func(f *Frame) { f.Body = f.Body[:11] }},
		{"empty", func(f *Frame) { f.Body = nil }},
		{"no head", func(f *Frame) { f.Head = nil }},
		{"UDP checksum and hop limit", func(f *Frame) { f.UDP().SetChecksum(0xbeef); f.IPv4().SetTTL(63) }},
		{"UDP port", func(f *Frame) { f.UDP().SetDstPort(53) }},
	} {
		f := sealed(t, false, 16, 0)
		d.spoil(f)
		show(d.label, f)
	}
	var m MAD
	PutCM(&m, 7, &CMSidrReq{RequestID: 1, PartitionKey: DefaultPKey, ServiceID: CMServiceID(CMPortSpaceUDP, 9)})
	m.SetAttributeModifier(0x123)
	out.WriteString("SIDR_REQ: " + string(AppendMAD(nil, &m)) + "\n")
	m[1] = 4
	out.WriteString("another class: " + string(AppendMAD(nil, &m)) + "\n")
	golden(t, "../testdata/print.golden", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	have, wish := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(have), len(wish)) {
		if i >= len(have) || i >= len(wish) || have[i] != wish[i] {
			t.Fatalf("%s differs from line %d on (run the test with -update and read the diff)\n got %q\nwant %q", name, i+1,
				line(have, i), line(wish, i))
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}
