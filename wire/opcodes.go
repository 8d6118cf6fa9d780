package wire

// operations is the reference's table of RC operations (section 2.1), indexed by the lower five
// bits of the opcode. Flags that follow from a header or from the payload are added by row.
var operations = [32]operation{
	0x00: {"SEND_FIRST", OpRequest | OpSend | OpStart | OpConsumesRecv, PayloadFull, nil},
	0x01: {"SEND_MIDDLE", OpRequest | OpSend | OpMiddle, PayloadFull, nil},
	0x02: {"SEND_LAST", OpRequest | OpSend | OpEnd, PayloadSome, nil},
	0x03: {"SEND_LAST_IMM", OpRequest | OpSend | OpEnd, PayloadSome, []Header{HdrImmDt}},
	0x04: {"SEND_ONLY", OpRequest | OpSend | OpStart | OpEnd | OpConsumesRecv, PayloadAny, nil},
	0x05: {"SEND_ONLY_IMM", OpRequest | OpSend | OpStart | OpEnd | OpConsumesRecv, PayloadAny, []Header{HdrImmDt}},
	0x06: {"RDMA_WRITE_FIRST", OpRequest | OpWrite | OpStart, PayloadFull, []Header{HdrRETH}},
	0x07: {"RDMA_WRITE_MIDDLE", OpRequest | OpWrite | OpMiddle, PayloadFull, nil},
	0x08: {"RDMA_WRITE_LAST", OpRequest | OpWrite | OpEnd, PayloadSome, nil},
	0x09: {"RDMA_WRITE_LAST_IMM", OpRequest | OpWrite | OpEnd | OpConsumesRecv, PayloadSome, []Header{HdrImmDt}},
	0x0a: {"RDMA_WRITE_ONLY", OpRequest | OpWrite | OpStart | OpEnd, PayloadAny, []Header{HdrRETH}},
	0x0b: {"RDMA_WRITE_ONLY_IMM", OpRequest | OpWrite | OpStart | OpEnd | OpConsumesRecv, PayloadAny,
		[]Header{HdrRETH, HdrImmDt}},
	0x0c: {"RDMA_READ_REQUEST", OpRequest | OpRead | OpStart | OpEnd, PayloadNone, []Header{HdrRETH}},
	0x0d: {"RDMA_READ_RESPONSE_FIRST", OpResponse | OpRead | OpStart, PayloadFull, []Header{HdrAETH}},
	0x0e: {"RDMA_READ_RESPONSE_MIDDLE", OpResponse | OpRead | OpMiddle, PayloadFull, nil},
	0x0f: {"RDMA_READ_RESPONSE_LAST", OpResponse | OpRead | OpEnd, PayloadSome, []Header{HdrAETH}},
	0x10: {"RDMA_READ_RESPONSE_ONLY", OpResponse | OpRead | OpStart | OpEnd, PayloadAny, []Header{HdrAETH}},
	0x11: {"ACKNOWLEDGE", OpResponse | OpAck | OpStart | OpEnd, PayloadNone, []Header{HdrAETH}},
	0x12: {"ATOMIC_ACKNOWLEDGE", OpResponse | OpAck | OpAtomic | OpStart | OpEnd, PayloadNone,
		[]Header{HdrAETH, HdrAtomicAckETH}},
	0x13: {"COMPARE_SWAP", OpRequest | OpAtomic | OpStart | OpEnd, PayloadNone, []Header{HdrAtomicETH}},
	0x14: {"FETCH_ADD", OpRequest | OpAtomic | OpStart | OpEnd, PayloadNone, []Header{HdrAtomicETH}},
	// RD only (section 2.3)
	0x15: {"RESYNC", OpRequest | OpResync | OpStart | OpEnd, PayloadNone, nil},
	0x16: {"SEND_LAST_INVALIDATE", OpRequest | OpSend | OpEnd, PayloadSome, []Header{HdrIETH}},
	0x17: {"SEND_ONLY_INVALIDATE", OpRequest | OpSend | OpStart | OpEnd | OpConsumesRecv, PayloadAny,
		[]Header{HdrIETH}},
	0x1c: {"FLUSH", OpRequest | OpFlush | OpStart | OpEnd, PayloadNone, []Header{HdrFETH, HdrRETH}},
	0x1d: {"ATOMIC_WRITE", OpRequest | OpAtomicWrite | OpStart | OpEnd, PayloadEight, []Header{HdrRETH}},
}

// Opcodes of reliable connections.
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAcknowledge        Opcode = 0x11
	RCAtomicAcknowledge  Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
	RCFlush              Opcode = 0x1c
	RCAtomicWrite        Opcode = 0x1d
)

// Opcodes of unreliable connections.
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// Opcodes of unreliable datagrams, and the congestion notification packet of RoCEv2.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81
)

// Opcodes of extended reliable connections.
const (
	XRCSendFirst          Opcode = 0xa0
	XRCSendMiddle         Opcode = 0xa1
	XRCSendLast           Opcode = 0xa2
	XRCSendLastImm        Opcode = 0xa3
	XRCSendOnly           Opcode = 0xa4
	XRCSendOnlyImm        Opcode = 0xa5
	XRCWriteFirst         Opcode = 0xa6
	XRCWriteMiddle        Opcode = 0xa7
	XRCWriteLast          Opcode = 0xa8
	XRCWriteLastImm       Opcode = 0xa9
	XRCWriteOnly          Opcode = 0xaa
	XRCWriteOnlyImm       Opcode = 0xab
	XRCReadRequest        Opcode = 0xac
	XRCReadResponseFirst  Opcode = 0xad
	XRCReadResponseMiddle Opcode = 0xae
	XRCReadResponseLast   Opcode = 0xaf
	XRCReadResponseOnly   Opcode = 0xb0
	XRCAcknowledge        Opcode = 0xb1
	XRCAtomicAcknowledge  Opcode = 0xb2
	XRCCompareSwap        Opcode = 0xb3
	XRCFetchAdd           Opcode = 0xb4
	XRCSendLastInv        Opcode = 0xb6
	XRCSendOnlyInv        Opcode = 0xb7
)
