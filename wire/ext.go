package wire

// The extension headers (section 1.5): which of them follow the BTH, and in what order, is the
// opcode's business.

// RETH is the RDMA extended transport header of RDMA WRITE and READ, FLUSH and ATOMIC_WRITE.
type RETH [16]byte

// Put writes all fields.
func (h *RETH) Put(va uint64, rkey, dmaLen uint32) {
	be.PutUint64(h[0:], va)
	be.PutUint32(h[8:], rkey)
	be.PutUint32(h[12:], dmaLen)
}

// VA is the remote virtual address.
func (h *RETH) VA() uint64 { return be.Uint64(h[0:]) }

// SetVA changes the remote virtual address.
func (h *RETH) SetVA(va uint64) { be.PutUint64(h[0:], va) }

// RKey is the key of the remote memory.
func (h *RETH) RKey() uint32 { return be.Uint32(h[8:]) }

// SetRKey changes the key.
func (h *RETH) SetRKey(k uint32) { be.PutUint32(h[8:], k) }

// DMALen is the length of the whole operation in bytes, at most 2^31.
func (h *RETH) DMALen() uint32 { return be.Uint32(h[12:]) }

// SetDMALen changes the length.
func (h *RETH) SetDMALen(n uint32) { be.PutUint32(h[12:], n) }

// AETH is the acknowledge extended transport header of responses.
type AETH [4]byte

// Put writes all fields.
func (h *AETH) Put(s Syndrome, msn PSN) { be.PutUint32(h[0:], uint32(s)<<24|uint32(msn&PSNMask)) }

// Syndrome says whether this is an ACK, an RNR NAK or a NAK, and which.
func (h *AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// SetSyndrome changes the syndrome.
func (h *AETH) SetSyndrome(s Syndrome) { h[0] = byte(s) }

// MSN is the message sequence number: messages completed by the responder, modulo 2^24.
func (h *AETH) MSN() PSN { return PSN(be.Uint32(h[0:])) & PSNMask }

// SetMSN changes the message sequence number.
func (h *AETH) SetMSN(m PSN) { put24(h[1:4], uint32(m)) }

// AtomicETH is the atomic extended transport header of COMPARE_SWAP and FETCH_ADD.
type AtomicETH [28]byte

// Put writes all fields. FETCH_ADD sends compare 0.
func (h *AtomicETH) Put(va uint64, rkey uint32, swapAdd, compare uint64) {
	be.PutUint64(h[0:], va)
	be.PutUint32(h[8:], rkey)
	be.PutUint64(h[12:], swapAdd)
	be.PutUint64(h[20:], compare)
}

// VA is the remote virtual address, a multiple of 8.
func (h *AtomicETH) VA() uint64 { return be.Uint64(h[0:]) }

// SetVA changes the remote virtual address.
func (h *AtomicETH) SetVA(va uint64) { be.PutUint64(h[0:], va) }

// RKey is the key of the remote memory.
func (h *AtomicETH) RKey() uint32 { return be.Uint32(h[8:]) }

// SetRKey changes the key.
func (h *AtomicETH) SetRKey(k uint32) { be.PutUint32(h[8:], k) }

// SwapAdd is the new value of a COMPARE_SWAP or the addend of a FETCH_ADD.
func (h *AtomicETH) SwapAdd() uint64 { return be.Uint64(h[12:]) }

// SetSwapAdd changes the new value or addend.
func (h *AtomicETH) SetSwapAdd(v uint64) { be.PutUint64(h[12:], v) }

// Compare is the value a COMPARE_SWAP expects.
func (h *AtomicETH) Compare() uint64 { return be.Uint64(h[20:]) }

// SetCompare changes the expected value.
func (h *AtomicETH) SetCompare(v uint64) { be.PutUint64(h[20:], v) }

// AtomicAckETH is the atomic acknowledge extended transport header.
type AtomicAckETH [8]byte

// Put writes the only field.
func (h *AtomicAckETH) Put(orig uint64) { be.PutUint64(h[0:], orig) }

// Orig is the remote value before the operation.
func (h *AtomicAckETH) Orig() uint64 { return be.Uint64(h[0:]) }

// SetOrig changes the value.
func (h *AtomicAckETH) SetOrig(v uint64) { be.PutUint64(h[0:], v) }

// ImmDt is immediate data: four bytes that the receiver's completion carries. The verbs field
// imm_data holds these bytes in network order; Imm is their big-endian value.
type ImmDt [4]byte

// Put writes the only field.
func (h *ImmDt) Put(imm uint32) { be.PutUint32(h[0:], imm) }

// Imm is the value.
func (h *ImmDt) Imm() uint32 { return be.Uint32(h[0:]) }

// SetImm changes the value.
func (h *ImmDt) SetImm(v uint32) { be.PutUint32(h[0:], v) }

// IETH is the invalidate extended transport header of SEND with invalidate.
type IETH [4]byte

// Put writes the only field.
func (h *IETH) Put(rkey uint32) { be.PutUint32(h[0:], rkey) }

// RKey is the key to invalidate.
func (h *IETH) RKey() uint32 { return be.Uint32(h[0:]) }

// SetRKey changes the key.
func (h *IETH) SetRKey(k uint32) { be.PutUint32(h[0:], k) }

// DETH is the datagram extended transport header of UD.
type DETH [8]byte

// Put writes all fields. srcQP is 24 bits.
func (h *DETH) Put(qkey, srcQP uint32) {
	be.PutUint32(h[0:], qkey)
	be.PutUint32(h[4:], srcQP&QPNMask)
}

// QKey must equal the receiving queue pair's.
func (h *DETH) QKey() uint32 { return be.Uint32(h[0:]) }

// SetQKey changes the queue key.
func (h *DETH) SetQKey(k uint32) { be.PutUint32(h[0:], k) }

// SrcQP is the sender's queue pair, 24 bits.
func (h *DETH) SrcQP() uint32 { return be.Uint32(h[4:]) & QPNMask }

// SetSrcQP changes the sender's queue pair.
func (h *DETH) SetSrcQP(qpn uint32) { put24(h[5:8], qpn) }

// RDETH is the reliable datagram extended transport header. Nobody sends it; it is decoded for
// completeness.
type RDETH [4]byte

// Put writes the only field, 24 bits.
func (h *RDETH) Put(eec uint32) { be.PutUint32(h[0:], eec&QPNMask) }

// EEContext is the end-to-end context, 24 bits.
func (h *RDETH) EEContext() uint32 { return be.Uint32(h[0:]) & QPNMask }

// SetEEContext changes the end-to-end context.
func (h *RDETH) SetEEContext(eec uint32) { put24(h[1:4], eec) }

// XRCETH is the XRC extended transport header of XRC requests.
type XRCETH [4]byte

// Put writes the only field, 24 bits.
func (h *XRCETH) Put(srqn uint32) { be.PutUint32(h[0:], srqn&QPNMask) }

// SRQN is the shared receive queue the request is for, 24 bits.
func (h *XRCETH) SRQN() uint32 { return be.Uint32(h[0:]) & QPNMask }

// SetSRQN changes the shared receive queue.
func (h *XRCETH) SetSRQN(n uint32) { put24(h[1:4], n) }

// FETH is the flush extended transport header.
type FETH [4]byte

// Values of the two fields of a FETH.
const (
	PlacementGlobal     uint8 = 1 // make data visible to all
	PlacementPersistent uint8 = 2 // make data survive a power failure
	SelectivityRange    uint8 = 0 // the range of the RETH
	SelectivityMR       uint8 = 1 // the whole memory region
)

// Put writes all fields: placement is a set of Placement bits (4 bits), selectivity 0 or 1 (2
// bits).
func (h *FETH) Put(placement, selectivity uint8) {
	be.PutUint32(h[0:], uint32(placement&0xf)|uint32(selectivity&3)<<4)
}

// Placement is PLT, a set of Placement bits.
func (h *FETH) Placement() uint8 { return h[3] & 0xf }

// SetPlacement changes PLT.
func (h *FETH) SetPlacement(p uint8) { h[3] = h[3]&^0xf | p&0xf }

// Selectivity is SEL.
func (h *FETH) Selectivity() uint8 { return h[3] >> 4 & 3 }

// SetSelectivity changes SEL.
func (h *FETH) SetSelectivity(s uint8) { h[3] = h[3]&^0x30 | s&3<<4 }
