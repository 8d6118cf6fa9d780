package wire

import (
	"strings"
	"testing"
)

// The reference's tables of sections 2.1 to 2.6, row by row: opcode, operation, headers after the
// BTH, payload, S, M, E.
const referenceRC = `
00 SEND_FIRST                – full S..
01 SEND_MIDDLE               – full .M.
02 SEND_LAST                 – some ..E
03 SEND_LAST_IMM             ImmDt some ..E
04 SEND_ONLY                 – any S.E
05 SEND_ONLY_IMM             ImmDt any S.E
06 RDMA_WRITE_FIRST          RETH full S..
07 RDMA_WRITE_MIDDLE         – full .M.
08 RDMA_WRITE_LAST           – some ..E
09 RDMA_WRITE_LAST_IMM       ImmDt some ..E
0A RDMA_WRITE_ONLY           RETH any S.E
0B RDMA_WRITE_ONLY_IMM       RETH,ImmDt any S.E
0C RDMA_READ_REQUEST         RETH none S.E
0D RDMA_READ_RESPONSE_FIRST  AETH full S..
0E RDMA_READ_RESPONSE_MIDDLE – full .M.
0F RDMA_READ_RESPONSE_LAST   AETH some ..E
10 RDMA_READ_RESPONSE_ONLY   AETH any S.E
11 ACKNOWLEDGE               AETH none S.E
12 ATOMIC_ACKNOWLEDGE        AETH,AtomicAckETH none S.E
13 COMPARE_SWAP              AtomicETH none S.E
14 FETCH_ADD                 AtomicETH none S.E
16 SEND_LAST_INVALIDATE      IETH some ..E
17 SEND_ONLY_INVALIDATE      IETH any S.E
1C FLUSH                     FETH,RETH none S.E
1D ATOMIC_WRITE              RETH eight S.E
`

var headerSizes = map[string]int{"RETH": 16, "AETH": 4, "AtomicETH": 28, "AtomicAckETH": 8, "ImmDt": 4, "IETH": 4,
	"DETH": 8, "RDETH": 4, "XRCETH": 4, "FETH": 4, "reserved": 16}

var payloadNames = map[string]PayloadRule{
	"none":  PayloadNone,
	"any":   PayloadAny,
	"some":  PayloadSome,
	"full":  PayloadFull,
	"eight": PayloadEight,
}

type refRow struct {
	op       Opcode
	name     string
	headers  []string
	payload  PayloadRule
	position OpFlags
	response bool
}

// referenceRows spells the whole table out, all services.
func referenceRows(t *testing.T) (rows []refRow) {
	var rc []refRow
	for line := range strings.Lines(strings.TrimSpace(referenceRC)) {
		f := strings.Fields(line)
		r := refRow{op: Opcode(unhex(t, f[0])[0]), name: f[1], payload: payloadNames[f[3]]}
		if f[2] != "–" {
			r.headers = strings.Split(f[2], ",")
		}
		for i, flag := range []OpFlags{OpStart, OpMiddle, OpEnd} {
			if f[4][i] != '.' {
				r.position |= flag
			}
		}
		r.response = r.op >= 0x0d && r.op <= 0x12
		rc = append(rc, r)
	}
	add := func(base Opcode, r refRow, prefix ...string) {
		r.op += base
		r.headers = append(prefix, r.headers...)
		rows = append(rows, r)
	}
	for _, r := range rc {
		add(0x00, r)
		if r.op <= 0x0b {
			add(0x20, r)
		}
		if r.op <= 0x14 && !r.response {
			add(0x40, r, "RDETH", "DETH")
		}
		if r.op <= 0x14 && r.response {
			add(0x40, r, "RDETH")
		}
		if r.op == 0x04 || r.op == 0x05 {
			add(0x60, r, "DETH")
		}
		if r.op <= 0x17 && !r.response {
			add(0xa0, r, "XRCETH")
		}
		if r.op <= 0x17 && r.response {
			add(0xa0, r)
		}
	}
	add(0x40, refRow{op: 0x15, name: "RESYNC", position: OpStart | OpEnd}, "RDETH", "DETH")
	add(0, refRow{op: 0x81, name: "CNP"}, "reserved")
	return rows
}

func TestOpcodeTable(t *testing.T) {
	assigned := map[Opcode]bool{}
	for _, r := range referenceRows(t) {
		assigned[r.op] = true
		i := r.op.Info()
		if i.Name != r.name || i.Payload != r.payload {
			t.Errorf("%02x: %s payload %d, want %s %d", uint8(r.op), i.Name, i.Payload, r.name, r.payload)
		}
		if got := i.Flags & (OpStart | OpMiddle | OpEnd); got != r.position {
			t.Errorf("%v: S/M/E %b, want %b", r.op, got, r.position)
		}
		if r.op != CNP && (i.Flags&OpResponse != 0) != r.response || r.op != CNP && (i.Flags&OpRequest != 0) == r.response {
			t.Errorf("%v: request and response flags %b", r.op, i.Flags)
		}
		if (i.Flags&OpPayload != 0) != (r.payload != PayloadNone) {
			t.Errorf("%v: OpPayload", r.op)
		}
		checkHeaders(t, r, i)
	}
	for op := range Opcodes {
		if (Opcodes[op].Flags != 0) != assigned[Opcode(op)] {
			t.Errorf("opcode %02x: assigned %v, want %v", op, !assigned[Opcode(op)], assigned[Opcode(op)])
		}
	}
}

// checkHeaders compares order, offsets, flags and total length of a row's extension headers.
func checkHeaders(t *testing.T, r refRow, i *OpInfo) {
	at := 12
	present := map[string]bool{}
	for n, name := range r.headers {
		present[name] = true
		if n >= len(i.Headers) || i.Headers[n].String() != name || int(i.Off[i.Headers[n]]) != at {
			t.Fatalf("%v: headers %v at %v, want %v", r.op, i.Headers, i.Off, r.headers)
		}
		at += headerSizes[name]
	}
	if len(i.Headers) != len(r.headers) || int(i.HdrLen) != at {
		t.Errorf("%v: headers %v, %d bytes; want %v, %d bytes", r.op, i.Headers, i.HdrLen, r.headers, at)
	}
	for h := Header(0); h < NumHeaders; h++ {
		if h.Size() != headerSizes[h.String()] {
			t.Errorf("%v has %d bytes, want %d", h, h.Size(), headerSizes[h.String()])
		}
		has := present[h.String()]
		if (i.Off[h] != 0) != has || (i.Flags&(headerFlag<<h) != 0) != has {
			t.Errorf("%v: %v offset %d flag %v, want present %v", r.op, h, i.Off[h], i.Flags&(headerFlag<<h) != 0, has)
		}
	}
}

func TestOpcodeMeaning(t *testing.T) {
	kind := map[string]OpFlags{"SEND": OpSend, "RDMA_WRITE": OpWrite, "RDMA_READ": OpRead, "ATOMIC_ACK": OpAtomic | OpAck,
		"COMPARE": OpAtomic, "FETCH": OpAtomic, "FLUSH": OpFlush, "ATOMIC_WRITE": OpAtomicWrite, "ACKNOWLEDGE": OpAck,
		"CNP": OpCNP, "RESYNC": OpResync}
	const all = OpSend | OpWrite | OpRead | OpAtomic | OpFlush | OpAtomicWrite | OpAck | OpCNP | OpResync
	for _, r := range referenceRows(t) {
		i := r.op.Info()
		for prefix, want := range kind {
			if strings.HasPrefix(i.Name, prefix) && i.Flags&all != want {
				t.Errorf("%v: flags %b, want %b", r.op, i.Flags&all, want)
			}
		}
		// Section 2.8.
		recv := i.Has(OpSend|OpStart) || i.Has(OpWrite|OpImm|OpEnd)
		if i.Has(OpConsumesRecv) != recv {
			t.Errorf("%v: OpConsumesRecv %v, want %v", r.op, !recv, recv)
		}
		if i.Has(OpImm) != strings.HasSuffix(i.Name, "_IMM") || i.Has(OpInv) != strings.HasSuffix(i.Name, "_INVALIDATE") {
			t.Errorf("%v: OpImm %v OpInv %v", r.op, i.Has(OpImm), i.Has(OpInv))
		}
	}
}

func TestOpcodeNames(t *testing.T) {
	for op, want := range map[Opcode]string{
		RCWriteFirst: "RC RDMA_WRITE_FIRST", RCAcknowledge: "RC ACKNOWLEDGE", RCSendLastInv: "RC SEND_LAST_INVALIDATE",
		RCFlush: "RC FLUSH", RCAtomicWrite: "RC ATOMIC_WRITE", UCSendOnly: "UC SEND_ONLY", UDSendOnlyImm: "UD SEND_ONLY_IMM",
		UCWriteOnlyImm: "UC RDMA_WRITE_ONLY_IMM", CNP: "CNP", XRCFetchAdd: "XRC FETCH_ADD", XRCSendOnlyInv: "XRC SEND_ONLY_INVALIDATE",
		0x55: "RD RESYNC", 0x1f: "opcode 0x1f", 0x80: "opcode 0x80", 0xff: "opcode 0xff",
	} {
		if op.String() != want {
			t.Errorf("%02x prints %q, want %q", uint8(op), op.String(), want)
		}
	}
}

func TestPayloadRules(t *testing.T) {
	const pmtu = 1024
	allowed := map[PayloadRule][]int{PayloadNone: {0}, PayloadAny: {0, 1, 8, 1023, 1024}, PayloadSome: {1, 8, 1023, 1024},
		PayloadFull: {1024}, PayloadEight: {8}}
	for rule, yes := range allowed {
		for _, n := range []int{0, 1, 8, 1023, 1024, 1025} {
			want := false
			for _, y := range yes {
				want = want || y == n
			}
			if rule.Allows(n, pmtu) != want {
				t.Errorf("rule %d allows %d bytes: %v", rule, n, !want)
			}
		}
	}
}

// TestOpcodeOf: an operation is the same in every service, and RC's opcodes name it.
func TestOpcodeOf(t *testing.T) {
	for o := range Opcodes {
		op := Opcode(o)
		rc := op.Operation()
		if rc.Service() != ServiceRC || rc.Of(op.Service()) != op || op.Of(ServiceRC) != rc {
			t.Errorf("opcode %#x: operation %#x", o, uint8(rc))
		}
		resync := op.Info().Has(OpResync) // of RD alone
		if op.Info().Flags&(OpRequest|OpResponse) != 0 && !resync && op.Info().Name != rc.Info().Name {
			t.Errorf("%v is operation %v", op, rc)
		}
	}
	if UDSendOnly.Operation() != RCSendOnly || RCFetchAdd.Of(ServiceXRC) != XRCFetchAdd || RCWriteLast.Of(ServiceUC) != UCWriteLast {
		t.Error("the names of the opcodes disagree")
	}
}

// TestFullBody: any packet of the largest path MTU fits the room that is made for one.
func TestFullBody(t *testing.T) {
	most, which := 0, Opcode(0)
	for op := range Opcodes {
		if info := Opcode(op).Info(); info.Flags != 0 && info.Payload.Allows(MTU4096.Bytes(), MTU4096.Bytes()) {
			if n := int(info.HdrLen) + MTU4096.Bytes() + ICRCLen; n > most {
				most, which = n, Opcode(op)
			}
		}
	}
	if most == 0 || most > FullBody {
		t.Errorf("%v has a body of %d bytes, there is room for %d", which, most, FullBody)
	}
}
