package wire

import "errors"

// CMReq asks for a connection. GIDs, QPN and PSN are the sender's ("local") and the receiver's
// ("remote").
type CMReq struct {
	LocalCommID             uint32 // not 0
	VendorID                uint32 // 24 bits, for enhanced connection establishment
	ServiceID               uint64 // who is called: CMServiceID
	LocalCAGUID             uint64
	LocalQKey               uint32
	LocalQPN                uint32 // 24 bits
	ResponderResources      uint8  // READs and ATOMICs the sender serves at a time
	LocalEECN               uint32 // 24 bits, RD only
	InitiatorDepth          uint8  // READs and ATOMICs it has outstanding at most
	RemoteEECN              uint32 // 24 bits, RD only
	RemoteCMResponseTimeout uint8  // 4.096 us * 2^n; 5 bits
	TransportServiceType    uint8  // 0 RC, 1 UC, 2 RD, 3 by ExtendedTransportType
	EndToEndFlowControl     bool
	StartingPSN             PSN   // what the passive side sends first
	LocalCMResponseTimeout  uint8 // 4.096 us * 2^n; 5 bits
	RetryCount              uint8 // 3 bits
	PartitionKey            uint16
	PathMTU                 MTU
	RDCExists               bool
	RNRRetryCount           uint8 // 3 bits
	MaxCMRetries            uint8 // 4 bits
	SRQ                     bool
	ExtendedTransportType   uint8 // 3 bits; 1 XRC
	Primary                 CMPath
	Alternate               CMPath // all zero: none
	SAPSupported            bool
	PrivateData             [92]byte // starts with a CMIPHeader when RDMA IP CM is used
}

// Attribute returns CMAttrREQ.
func (*CMReq) Attribute() CMAttribute { return CMAttrREQ }

func (m *CMReq) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "vendor id", 5, 3, &m.VendorID)
	num(w, "service id", 8, 8, &m.ServiceID)
	num(w, "ca guid", 16, 8, &m.LocalCAGUID)
	num(w, "qkey", 28, 4, &m.LocalQKey)
	num(w, "qpn", 32, 3, &m.LocalQPN)
	num(w, "responder resources", 35, 1, &m.ResponderResources)
	num(w, "eecn", 36, 3, &m.LocalEECN)
	num(w, "initiator depth", 39, 1, &m.InitiatorDepth)
	num(w, "remote eecn", 40, 3, &m.RemoteEECN)
	bits(w, "remote timeout", 43, 1, 7, 3, &m.RemoteCMResponseTimeout)
	bits(w, "service type", 43, 1, 2, 1, &m.TransportServiceType)
	w.flag("flow control", 43, 0, &m.EndToEndFlowControl)
	num(w, "starting psn", 44, 3, &m.StartingPSN)
	bits(w, "local timeout", 47, 1, 7, 3, &m.LocalCMResponseTimeout)
	bits(w, "retry", 47, 1, 2, 0, &m.RetryCount)
	num(w, "pkey", 48, 2, &m.PartitionKey)
	bits(w, "mtu", 50, 1, 7, 4, &m.PathMTU)
	w.flag("rdc exists", 50, 3, &m.RDCExists)
	bits(w, "rnr retry", 50, 1, 2, 0, &m.RNRRetryCount)
	bits(w, "cm retries", 51, 1, 7, 4, &m.MaxCMRetries)
	w.flag("srq", 51, 3, &m.SRQ)
	bits(w, "extended type", 51, 1, 2, 0, &m.ExtendedTransportType)
	m.Primary.walk(w, "", 52)
	m.Alternate.walk(w, "alternate ", 96)
	w.flag("sap", 139, 2, &m.SAPSupported)
	w.bytes("private", 140, m.PrivateData[:])
}

// CMPath is a path as a REQ describes it: 44 bytes.
type CMPath struct {
	LocalLID, RemoteLID uint16 // 0xffff over RoCE
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits; 0 over RoCE
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	LocalAckTimeout     uint8 // 4.096 us * 2^n; 5 bits
}

// walk goes over the path that starts at offset at of the body.
func (p *CMPath) walk(w *cmWalker, which string, at int) {
	num(w, which+"local lid", at, 2, &p.LocalLID)
	num(w, which+"remote lid", at+2, 2, &p.RemoteLID)
	w.gid(which+"local gid", at+4, &p.LocalGID)
	w.gid(which+"remote gid", at+20, &p.RemoteGID)
	bits(w, which+"flow label", at+36, 4, 31, 12, &p.FlowLabel)
	bits(w, which+"rate", at+39, 1, 5, 0, &p.PacketRate)
	num(w, which+"tclass", at+40, 1, &p.TrafficClass)
	num(w, which+"hop limit", at+41, 1, &p.HopLimit)
	bits(w, which+"sl", at+42, 1, 7, 4, &p.SL)
	w.flag(which+"subnet local", at+42, 3, &p.SubnetLocal)
	bits(w, which+"ack timeout", at+43, 1, 7, 3, &p.LocalAckTimeout)
}

// CMLap asks to load an alternate path. Nobody sends it over RoCE.
type CMLap struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // 24 bits
	RemoteCMResponseTimeout   uint8  // 5 bits
	Alternate                 CMPath
	PrivateData               [168]byte
}

// Attribute returns CMAttrLAP.
func (*CMLap) Attribute() CMAttribute { return CMAttrLAP }

func (m *CMLap) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	num(w, "remote qpn", 12, 3, &m.RemoteQPN)
	bits(w, "remote timeout", 15, 1, 7, 3, &m.RemoteCMResponseTimeout)
	a := &m.Alternate
	num(w, "local lid", 20, 2, &a.LocalLID)
	num(w, "remote lid", 22, 2, &a.RemoteLID)
	w.gid("local gid", 24, &a.LocalGID)
	w.gid("remote gid", 40, &a.RemoteGID)
	bits(w, "flow label", 56, 4, 31, 12, &a.FlowLabel)
	num(w, "tclass", 59, 1, &a.TrafficClass)
	num(w, "hop limit", 60, 1, &a.HopLimit)
	bits(w, "rate", 61, 1, 5, 0, &a.PacketRate)
	bits(w, "sl", 62, 1, 7, 4, &a.SL)
	w.flag("subnet local", 62, 3, &a.SubnetLocal)
	bits(w, "ack timeout", 63, 1, 7, 3, &a.LocalAckTimeout)
	w.bytes("private", 64, m.PrivateData[:])
}

// CMApr answers a LAP.
type CMApr struct {
	LocalCommID, RemoteCommID uint32
	InfoLen                   uint8
	Status                    CMAprStatus
	Info                      [72]byte
	PrivateData               [148]byte
}

// Attribute returns CMAttrAPR.
func (*CMApr) Attribute() CMAttribute { return CMAttrAPR }

func (m *CMApr) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	num(w, "info length", 8, 1, &m.InfoLen)
	num(w, "status", 9, 1, &m.Status)
	w.bytes("info", 12, m.Info[:])
	w.bytes("private", 84, m.PrivateData[:])
}

// CMAprStatus is the answer to a LAP; 2 is "unsupported".
type CMAprStatus uint8

var aprStatuses = []string{"ok", "invalid communication ID", "unsupported", "rejected", "redirect",
	"is the current path", "invalid QPN", "invalid LID", "invalid GID", "invalid flow label", "invalid traffic class",
	"invalid hop limit", "invalid packet rate", "invalid SL"}

// String prints the status.
func (s CMAprStatus) String() string { return name(aprStatuses, uint64(s)) }

// CMPortSpace is the space an RDMA IP CM port belongs to (section 9.4).
type CMPortSpace uint16

const (
	CMPortSpaceTCP CMPortSpace = 0x0106 // connected: RC
	CMPortSpaceUDP CMPortSpace = 0x0111 // datagrams: UD
	CMPortSpaceIB  CMPortSpace = 0x013f // any type of queue pair
)

// CMServiceID returns the service ID of an IP port.
func CMServiceID(ps CMPortSpace, port uint16) uint64 { return uint64(ps)<<16 | uint64(port) }

// CMServicePort takes an IP service ID apart; ok is false if it is none.
func CMServicePort(id uint64) (ps CMPortSpace, port uint16, ok bool) {
	return CMPortSpace(id >> 16), uint16(id), id&0xffffffffff000000 == 0x0000000001000000
}

// CMFlowLabel returns the flow label that the kernel gives a connection between two RDMA ports
// (section 1.2).
func CMFlowLabel(sport, dport uint16) uint32 { return (uint32(sport)*31 + uint32(dport)) & 0xfffff }

// CMIPHeaderLen is how much of a REQ's or SIDR_REQ's private data the RDMA IP CM takes.
const CMIPHeaderLen = 36

// CMIPHeader is what RDMA IP CM puts in front of the private data of REQ and SIDR_REQ: who calls
// whom (section 9.5).
type CMIPHeader struct {
	SrcPort  uint16 // the active side's RDMA port
	Src, Dst GID    // both IPv4 or both IPv6
}

// Put writes the header over the first CMIPHeaderLen bytes of private data.
func (h *CMIPHeader) Put(private []byte) {
	b := (*[CMIPHeaderLen]byte)(private)
	*b = [CMIPHeaderLen]byte{1: 6 << 4}
	be.PutUint16(b[2:], h.SrcPort)
	copy(b[4:20], h.Src[:])
	copy(b[20:36], h.Dst[:])
	if h.Src.Is4() {
		b[1] = 4 << 4
		clear(b[4:16])
		clear(b[20:32])
	}
}

var errCMIP = errors.New("wire: private data does not start with an RDMA IP CM header (version 0, IPv4 or IPv6)")

// Get reads the header from private data.
func (h *CMIPHeader) Get(private []byte) error {
	if len(private) < CMIPHeaderLen || private[0] != 0 {
		return errCMIP
	}
	h.SrcPort = be.Uint16(private[2:])
	h.Src, h.Dst = GID(private[4:20]), GID(private[20:36])
	switch private[1] >> 4 {
	case 4:
		h.Src, h.Dst = gid4((*[4]byte)(private[16:20])), gid4((*[4]byte)(private[32:36]))
	case 6:
	default:
		return errCMIP
	}
	return nil
}
