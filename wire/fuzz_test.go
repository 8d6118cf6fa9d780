package wire

import (
	"bytes"
	"testing"
)

// FuzzSplitFrame feeds any bytes where an IP packet is expected.
func FuzzSplitFrame(f *testing.F) {
	for _, v := range loadVectors(f) {
		f.Add(unhex(f, v.FrameHex)[v.L3Offset:])
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		own := append([]byte(nil), pkt...)
		fr, drop := SplitFrame(own)
		if drop != DropNone {
			if fr.Head != nil || fr.Body != nil {
				t.Fatal("refused, but a frame came back")
			}
			return
		}
		n := len(fr.Head)
		if n != Head4Len && n != Head6Len || fr.Len() > len(pkt) || cap(fr.Head) != n || cap(fr.Body) != len(fr.Body) ||
			!bytes.Equal(AppendFrame(nil, &fr), pkt[:fr.Len()]) {
			t.Fatalf("frame of %d+%d bytes from %d", n, len(fr.Body), len(pkt))
		}
		checkAnyFrame(t, &fr)
		if !bytes.Equal(own, pkt) {
			t.Fatal("reading changed the packet")
		}
	})
}

// FuzzParse feeds any bytes where a body is expected, with a head of either kind.
func FuzzParse(f *testing.F) {
	for _, v := range loadVectors(f) {
		f.Add(unhex(f, v.UDPPayload), false, true)
	}
	for op := range Opcodes {
		f.Add(append([]byte{byte(op)}, make([]byte, 60)...), true, false)
	}
	f.Fuzz(func(t *testing.T, body []byte, v6, synth bool) {
		if len(body) > MaxBody {
			return
		}
		path := testPath(t, v6)
		fr := Frame{Head: make([]byte, path.HeadLen()), Body: append([]byte(nil), body...)}
		path.PutHead(fr.Head, len(body), 0)
		if synth {
			fr.Flags = FrameSynthHead
		}
		checkAnyFrame(t, &fr)
		if !bytes.Equal(fr.Body, body) {
			t.Fatal("reading changed the body")
		}
		var p Packet
		if Parse(&fr, &p) == DropNone {
			rebuild(t, &p)
		}
	})
}

// checkAnyFrame calls everything that reads a frame, and checks that a parsed packet lies inside
// it.
func checkAnyFrame(t *testing.T, f *Frame) {
	if len(AppendPacket(nil, f)) == 0 {
		t.Fatal("AppendPacket printed nothing")
	}
	Verify(f)
	SolveIdentification(f)
	var p Packet
	if Parse(f, &p) != DropNone {
		return
	}
	end := int(p.Op.HdrLen) + len(p.Payload) + int(p.BTH.PadCount()) + ICRCLen
	if end != len(f.Body) || cap(p.Payload) != len(p.Payload) {
		t.Fatalf("headers %d, payload %d, pad %d do not fill a body of %d", p.Op.HdrLen, len(p.Payload), p.BTH.PadCount(), len(f.Body))
	}
	for h := Header(0); h < NumHeaders; h++ {
		if _, ok := extHeaders[h].get(&p); ok != p.Op.Has(headerFlag<<h) {
			t.Fatalf("%v: accessor of %v", p.Opcode, h)
		}
	}
	MADOf(&p)
}

// rebuild makes the packet anew from the fields that were parsed; except for reserved bits the
// bytes are the same.
func rebuild(t *testing.T, p *Packet) {
	n := len(p.Payload)
	f := Frame{Head: append([]byte(nil), p.Frame.Head...), Body: make([]byte, BodyLen(p.Opcode, n))}
	var q Packet
	if !q.Lay(&f, p.Opcode, n) {
		t.Fatalf("%v: Lay(%d)", p.Opcode, n)
	}
	q.BTH.Put(p.Opcode, p.BTH.Flags(), uint8(Pad(n)), p.BTH.PKey(), p.BTH.DestQP(), p.BTH.PSN())
	for _, h := range p.Op.Headers {
		v, _ := extHeaders[h].get(p)
		extHeaders[h].put(&q, v)
		if again, _ := extHeaders[h].get(&q); again != v {
			t.Fatalf("%v: %v %x became %x", p.Opcode, h, v, again)
		}
	}
	copy(q.Payload, p.Payload)
	Seal(&f)
	if Parse(&f, &q) != DropNone || q.Opcode != p.Opcode || !bytes.Equal(q.Payload, p.Payload) || q.BTH.Flags() != p.BTH.Flags() {
		t.Fatalf("%v: rebuilt packet differs", p.Opcode)
	}
}

// FuzzCM feeds any bytes where a MAD is expected.
func FuzzCM(f *testing.F) {
	for _, v := range loadCMVectors(f) {
		f.Add(unhex(f, v.MADHex), uint16(0))
	}
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		f.Add(bytes.Repeat([]byte{0xff}, MADLen), uint16(a))
	}
	f.Fuzz(func(t *testing.T, b []byte, attr uint16) {
		var m, again MAD
		copy(m[:], b)
		if attr != 0 { // help the fuzzer past the header
			m.PutHeader(CMAttribute(attr), 1)
			copy(m.body()[:], b)
		}
		if len(AppendMAD(nil, &m)) == 0 {
			t.Fatal("AppendMAD printed nothing")
		}
		msg, err := ParseCM(&m)
		if err != nil {
			return
		}
		PutCM(&again, m.TransactionID(), msg)
		back, err := ParseCM(&again)
		if err != nil || again.Attribute() != m.Attribute() {
			t.Fatalf("%v read back: %v", m.Attribute(), err)
		}
		var third MAD
		if PutCM(&third, m.TransactionID(), back); third != again {
			t.Fatalf("%v: put, get, put differs", m.Attribute())
		}
		if err := GetCM(&again, back); err != nil {
			t.Fatal(err)
		}
		for i := range again.body() { // only reserved bits may be lost
			if got, was := again.body()[i], m.body()[i]; got&^was != 0 {
				t.Fatalf("%v: byte %d was %02x, became %02x", m.Attribute(), i, was, got)
			}
		}
	})
}
