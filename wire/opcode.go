package wire

// The opcode table: what each of the 256 BTH opcodes is.
//
// An opcode is a service (upper three bits) and an operation (lower five). The operations of RC are
// written out in opcodes.go; the other services are the same operations with a header or two put in
// front. Opcodes holds the product, one row per opcode, computed once: everything else in the stack
// looks rows up and decides by flags and offsets.

import "strconv"

// Opcode is the first byte of a BTH.
type Opcode uint8

// Service is the transport service an opcode belongs to: its upper three bits.
type Service uint8

const (
	ServiceRC  Service = 0 // reliable connection
	ServiceUC  Service = 1 // unreliable connection
	ServiceRD  Service = 2 // reliable datagram; obsolete, decoded only
	ServiceUD  Service = 3 // unreliable datagram
	ServiceCNP Service = 4 // congestion notification
	ServiceXRC Service = 5 // extended reliable connection
)

// services holds what precedes an operation's own headers in each service, and which operations it
// has.
var services = [8]struct {
	name     string
	request  []Header // in front of the headers of a request
	response []Header // in front of the headers of a response
	ops      [][2]uint8
}{
	ServiceRC: {name: "RC", ops: [][2]uint8{{0x00, 0x14}, {0x16, 0x17}, {0x1c, 0x1d}}},
	ServiceUC: {name: "UC", ops: [][2]uint8{{0x00, 0x0b}}},
	ServiceRD: {name: "RD", ops: [][2]uint8{{0x00, 0x15}}, request: []Header{HdrRDETH, HdrDETH},
		response: []Header{HdrRDETH}},
	ServiceUD:  {name: "UD", ops: [][2]uint8{{0x04, 0x05}}, request: []Header{HdrDETH}},
	ServiceCNP: {name: "CNP"},
	ServiceXRC: {name: "XRC", ops: [][2]uint8{{0x00, 0x14}, {0x16, 0x17}}, request: []Header{HdrXRCETH}},
	6:          {name: "6"},
	7:          {name: "7"},
}

// String prints the service: "RC".
func (s Service) String() string { return services[s&7].name }

// Header names an extension header, the ones that follow the BTH (section 1.5).
type Header uint8

const (
	HdrRETH         Header = iota // RDMA extended transport header
	HdrAETH                       // acknowledge extended transport header
	HdrAtomicETH                  // atomic extended transport header
	HdrAtomicAckETH               // atomic acknowledge extended transport header
	HdrImmDt                      // immediate data
	HdrIETH                       // invalidate extended transport header
	HdrDETH                       // datagram extended transport header
	HdrRDETH                      // reliable datagram extended transport header
	HdrXRCETH                     // XRC extended transport header
	HdrFETH                       // flush extended transport header
	HdrCNPReserved                // the 16 reserved bytes of a CNP (section 1.7)
	NumHeaders      = iota        // how many there are
)

// headers holds the name and size of each extension header.
var headers = [NumHeaders]struct {
	name string
	size uint8
}{
	HdrRETH:         {"RETH", 16},
	HdrAETH:         {"AETH", 4},
	HdrAtomicETH:    {"AtomicETH", 28},
	HdrAtomicAckETH: {"AtomicAckETH", 8},
	HdrImmDt:        {"ImmDt", 4},
	HdrIETH:         {"IETH", 4},
	HdrDETH:         {"DETH", 8},
	HdrRDETH:        {"RDETH", 4},
	HdrXRCETH:       {"XRCETH", 4},
	HdrFETH:         {"FETH", 4},
	HdrCNPReserved:  {"reserved", 16},
}

// String prints the header's name: "RETH".
func (h Header) String() string {
	if h < NumHeaders {
		return headers[h].name
	}
	return "Header(" + strconv.Itoa(int(h)) + ")"
}

// Size returns the header's length in bytes.
func (h Header) Size() int { return int(headers[h].size) }

// OpFlags says what an opcode is and does. 0 is an opcode that is not assigned.
type OpFlags uint32

const (
	OpRequest      OpFlags = 1 << iota // from requester to responder
	OpResponse                         // from responder to requester
	OpStart                            // may begin a message
	OpMiddle                           // is inside a message
	OpEnd                              // ends a message
	OpSend                             // SEND*
	OpWrite                            // RDMA_WRITE*
	OpRead                             // RDMA_READ_REQUEST and RDMA_READ_RESPONSE*
	OpAtomic                           // COMPARE_SWAP, FETCH_ADD, ATOMIC_ACKNOWLEDGE
	OpFlush                            // FLUSH
	OpAtomicWrite                      // ATOMIC_WRITE
	OpAck                              // ACKNOWLEDGE and ATOMIC_ACKNOWLEDGE
	OpPayload                          // may carry payload
	OpConsumesRecv                     // takes a receive work request when it arrives (section 2.8)
	OpCNP                              // congestion notification: neither request nor response
	OpResync                           // RD RESYNC
)

// headerFlag is the flag that says a header is present.
const headerFlag OpFlags = 1 << 16

// One flag per extension header.
const (
	OpRETH         = headerFlag << HdrRETH
	OpAETH         = headerFlag << HdrAETH
	OpAtomicETH    = headerFlag << HdrAtomicETH
	OpAtomicAckETH = headerFlag << HdrAtomicAckETH
	OpImmDt        = headerFlag << HdrImmDt
	OpIETH         = headerFlag << HdrIETH
	OpDETH         = headerFlag << HdrDETH
	OpRDETH        = headerFlag << HdrRDETH
	OpXRCETH       = headerFlag << HdrXRCETH
	OpFETH         = headerFlag << HdrFETH

	OpImm = OpImmDt // delivers immediate data
	OpInv = OpIETH  // invalidates the R_Key it carries
)

// PayloadRule is how much payload an opcode carries (section 2.1).
type PayloadRule uint8

const (
	PayloadNone  PayloadRule = iota // none
	PayloadAny                      // 0..PMTU
	PayloadSome                     // 1..PMTU
	PayloadFull                     // exactly PMTU
	PayloadEight                    // exactly 8 bytes
)

// Allows says whether n bytes of payload obey the rule at a path MTU of pmtu bytes.
func (r PayloadRule) Allows(n, pmtu int) bool {
	switch r {
	case PayloadAny:
		return n <= pmtu
	case PayloadSome:
		return n > 0 && n <= pmtu
	case PayloadFull:
		return n == pmtu
	case PayloadEight:
		return n == 8
	}
	return n == 0
}

// OpInfo is one row of the opcode table.
type OpInfo struct {
	Name    string      // of the operation, without the service: "RDMA_WRITE_FIRST"
	Flags   OpFlags     // 0: not assigned
	HdrLen  uint8       // bytes of BTH and extension headers
	Payload PayloadRule // how much payload it carries
	// where each extension header starts, counted from the BTH; 0 = absent
	Off     [NumHeaders]uint8
	Headers []Header // the extension headers in wire order
}

// Has says whether all of the flags are set.
func (i *OpInfo) Has(f OpFlags) bool { return i.Flags&f == f }

// Opcodes is the table. Rows with Flags == 0 are not assigned. Nobody changes it.
var Opcodes = buildOpcodes()

// Info returns the opcode's row.
func (o Opcode) Info() *OpInfo { return &Opcodes[o] }

// Service returns the transport service of the opcode.
func (o Opcode) Service() Service { return Service(o >> 5) }

// Operation returns what the opcode does, whatever its service: the RC opcode of the same
// operation.
func (o Opcode) Operation() Opcode { return o & 0x1f }

// Of returns the opcode of the same operation in another service. Not every service has every
// operation: see Info.
func (o Opcode) Of(s Service) Opcode { return o.Operation() | Opcode(s)<<5 }

// String prints service and operation: "RC RDMA_WRITE_FIRST", "CNP", "opcode 0x1f".
func (o Opcode) String() string {
	switch i := o.Info(); {
	case i.Flags == 0:
		return "opcode 0x" + string(appendHex(nil, uint64(o), 2))
	case i.Flags&OpCNP != 0:
		return i.Name
	default:
		return o.Service().String() + " " + i.Name
	}
}

// operation is the part of a row that all services share.
type operation struct {
	name    string
	flags   OpFlags
	payload PayloadRule
	headers []Header
}

func buildOpcodes() (t [256]OpInfo) {
	for s := range services {
		svc := &services[s]
		for _, span := range svc.ops {
			for op := span[0]; op <= span[1]; op++ {
				prefix := svc.request
				if operations[op].flags&OpResponse != 0 {
					prefix = svc.response
				}
				t[s<<5|int(op)] = row(operations[op], prefix)
			}
		}
	}
	t[CNP] = row(operation{"CNP", OpCNP, PayloadNone, []Header{HdrCNPReserved}}, nil)
	return t
}

// row lays the headers out one after the other and derives a flag from each.
func row(op operation, prefix []Header) OpInfo {
	i := OpInfo{Name: op.name, Flags: op.flags, HdrLen: BTHLen, Payload: op.payload}
	if op.payload != PayloadNone {
		i.Flags |= OpPayload
	}
	i.Headers = append(append(i.Headers, prefix...), op.headers...)
	for _, h := range i.Headers {
		i.Off[h] = i.HdrLen
		i.HdrLen += headers[h].size
		i.Flags |= headerFlag << h
	}
	return i
}
