package wire

// The connection manager's messages (section 9.2).
//
// A message is a struct; where its fields lie in the MAD is said once, in its walk method: a table
// of rows "name, offset, width, field" as the specification prints it. A walker goes down the table
// and, depending on what it was made for, puts the fields into a MAD, gets them out of one, or
// prints them. Reserved bits are put as 0 and not looked at.
//
// REQ, the large one, is in cmreq.go.

import (
	"errors"
	"strconv"
)

// CMMessage is one of *CMReq *CMMra *CMRej *CMRep *CMRtu *CMDreq *CMDrep *CMLap *CMApr *CMSidrReq
// *CMSidrRep.
type CMMessage interface {
	Attribute() CMAttribute
	walk(*cmWalker)
}

// PutCM writes a message into a MAD, header and all.
func PutCM(m *MAD, tid uint64, msg CMMessage) {
	m.PutHeader(msg.Attribute(), tid)
	msg.walk(&cmWalker{mode: cmPut, body: m.body()})
}

// GetCM fills a message from a MAD whose header is that of such a message; an error says what it is
// instead.
func GetCM(m *MAD, msg CMMessage) error {
	switch {
	case !m.IsCM():
		return errNotCM
	case m.Attribute() != msg.Attribute():
		return errors.New("wire: a " + m.Attribute().String() + " is no " + msg.Attribute().String())
	}
	msg.walk(&cmWalker{mode: cmGet, body: m.body()})
	return nil
}

// ParseCM returns the message that a MAD holds.
func ParseCM(m *MAD) (CMMessage, error) {
	if !m.IsCM() {
		return nil, errNotCM
	}
	i := int(m.Attribute()) - int(CMAttrREQ)
	if i < 0 || i >= len(cmNew) {
		return nil, errors.New("wire: connection manager message with unknown " + m.Attribute().String())
	}
	msg := cmNew[i]()
	msg.walk(&cmWalker{mode: cmGet, body: m.body()})
	return msg, nil
}

var errNotCM = errors.New("wire: not a connection manager's MAD (base version 1, class 7, class version " +
	"2, method Send)")

// cmNew makes an empty message, indexed by attribute from CMAttrREQ on.
var cmNew = [...]func() CMMessage{
	func() CMMessage { return new(CMReq) },
	func() CMMessage { return new(CMMra) },
	func() CMMessage { return new(CMRej) },
	func() CMMessage { return new(CMRep) },
	func() CMMessage { return new(CMRtu) },
	func() CMMessage { return new(CMDreq) },
	func() CMMessage { return new(CMDrep) },
	func() CMMessage { return new(CMSidrReq) },
	func() CMMessage { return new(CMSidrRep) },
	func() CMMessage { return new(CMLap) },
	func() CMMessage { return new(CMApr) },
}

// CMMra asks the peer to wait longer for an answer.
type CMMra struct {
	LocalCommID, RemoteCommID uint32
	MessageMRAed              CMWhich // the message it answers
	ServiceTimeout            uint8   // 4.096 us * 2^n; 5 bits
	PrivateData               [222]byte
}

// Attribute returns CMAttrMRA.
func (*CMMra) Attribute() CMAttribute { return CMAttrMRA }

func (m *CMMra) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	bits(w, "of", 8, 1, 7, 6, &m.MessageMRAed)
	bits(w, "service timeout", 9, 1, 7, 3, &m.ServiceTimeout)
	w.bytes("private", 10, m.PrivateData[:])
}

// CMRej refuses a connection or ends an attempt.
type CMRej struct {
	LocalCommID, RemoteCommID uint32 // LocalCommID is 0 if none was made for the request
	MessageRejected           CMWhich
	ARILen                    uint8 // bytes of ARI that mean something; 7 bits
	Reason                    CMRejReason
	ARI                       [72]byte // additional rejection information
	PrivateData               [148]byte
}

// Attribute returns CMAttrREJ.
func (*CMRej) Attribute() CMAttribute { return CMAttrREJ }

func (m *CMRej) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	bits(w, "of", 8, 1, 7, 6, &m.MessageRejected)
	bits(w, "ari length", 9, 1, 7, 1, &m.ARILen)
	num(w, "reason", 10, 2, &m.Reason)
	w.bytes("ari", 12, m.ARI[:])
	w.bytes("private", 84, m.PrivateData[:])
}

// CMRep accepts a connection.
type CMRep struct {
	LocalCommID, RemoteCommID uint32
	LocalQKey                 uint32
	LocalQPN                  uint32 // 24 bits
	VendorID                  uint32 // 24 bits, for enhanced connection establishment
	LocalEECN                 uint32 // 24 bits, RD only
	StartingPSN               PSN    // what the active side sends first
	// READs and ATOMICs the sender of this message serves at a time
	ResponderResources  uint8
	InitiatorDepth      uint8 // READs and ATOMICs it has outstanding at most
	TargetAckDelay      uint8 // 4.096 us * 2^n; 5 bits
	FailoverAccepted    uint8 // 2 bits
	EndToEndFlowControl bool
	RNRRetryCount       uint8 // 3 bits
	SRQ                 bool
	LocalCAGUID         uint64
	PrivateData         [196]byte
}

// Attribute returns CMAttrREP.
func (*CMRep) Attribute() CMAttribute { return CMAttrREP }

func (m *CMRep) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	num(w, "qkey", 8, 4, &m.LocalQKey)
	num(w, "qpn", 12, 3, &m.LocalQPN)
	split(w, "vendor id", &m.VendorID, part{15, 1, 16}, part{19, 1, 8}, part{23, 1, 0})
	num(w, "eecn", 16, 3, &m.LocalEECN)
	num(w, "starting psn", 20, 3, &m.StartingPSN)
	num(w, "responder resources", 24, 1, &m.ResponderResources)
	num(w, "initiator depth", 25, 1, &m.InitiatorDepth)
	bits(w, "ack delay", 26, 1, 7, 3, &m.TargetAckDelay)
	bits(w, "failover", 26, 1, 2, 1, &m.FailoverAccepted)
	w.flag("flow control", 26, 0, &m.EndToEndFlowControl)
	bits(w, "rnr retry", 27, 1, 7, 5, &m.RNRRetryCount)
	w.flag("srq", 27, 4, &m.SRQ)
	num(w, "ca guid", 28, 8, &m.LocalCAGUID)
	w.bytes("private", 36, m.PrivateData[:])
}

// CMRtu tells the passive side that its reply arrived.
type CMRtu struct {
	LocalCommID, RemoteCommID uint32
	PrivateData               [224]byte
}

// Attribute returns CMAttrRTU.
func (*CMRtu) Attribute() CMAttribute { return CMAttrRTU }

func (m *CMRtu) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	w.bytes("private", 8, m.PrivateData[:])
}

// CMDreq asks to end a connection.
type CMDreq struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // the receiver's queue pair, 24 bits
	PrivateData               [220]byte
}

// Attribute returns CMAttrDREQ.
func (*CMDreq) Attribute() CMAttribute { return CMAttrDREQ }

func (m *CMDreq) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	num(w, "remote qpn", 8, 3, &m.RemoteQPN)
	w.bytes("private", 12, m.PrivateData[:])
}

// CMDrep answers a DREQ.
type CMDrep struct {
	LocalCommID, RemoteCommID uint32
	PrivateData               [224]byte
}

// Attribute returns CMAttrDREP.
func (*CMDrep) Attribute() CMAttribute { return CMAttrDREP }

func (m *CMDrep) walk(w *cmWalker) {
	num(w, "local id", 0, 4, &m.LocalCommID)
	num(w, "remote id", 4, 4, &m.RemoteCommID)
	w.bytes("private", 8, m.PrivateData[:])
}

// CMSidrReq asks which queue pair serves a service ID (UD).
type CMSidrReq struct {
	RequestID    uint32
	PartitionKey uint16
	ServiceID    uint64
	PrivateData  [216]byte
}

// Attribute returns CMAttrSIDRREQ.
func (*CMSidrReq) Attribute() CMAttribute { return CMAttrSIDRREQ }

func (m *CMSidrReq) walk(w *cmWalker) {
	num(w, "request id", 0, 4, &m.RequestID)
	num(w, "pkey", 4, 2, &m.PartitionKey)
	num(w, "service id", 8, 8, &m.ServiceID)
	w.bytes("private", 16, m.PrivateData[:])
}

// CMSidrRep answers a SIDR_REQ.
type CMSidrRep struct {
	RequestID   uint32
	Status      CMSidrStatus
	InfoLen     uint8  // bytes of Info that mean something
	VendorID    uint32 // 24 bits, for enhanced connection establishment
	QPN         uint32 // 24 bits
	ServiceID   uint64
	QKey        uint32
	Info        [72]byte
	PrivateData [136]byte
}

// Attribute returns CMAttrSIDRREP.
func (*CMSidrRep) Attribute() CMAttribute { return CMAttrSIDRREP }

func (m *CMSidrRep) walk(w *cmWalker) {
	num(w, "request id", 0, 4, &m.RequestID)
	num(w, "status", 4, 1, &m.Status)
	num(w, "info length", 5, 1, &m.InfoLen)
	split(w, "vendor id", &m.VendorID, part{6, 2, 8}, part{11, 1, 0})
	num(w, "qpn", 8, 3, &m.QPN)
	num(w, "service id", 12, 8, &m.ServiceID)
	num(w, "qkey", 20, 4, &m.QKey)
	w.bytes("info", 24, m.Info[:])
	w.bytes("private", 96, m.PrivateData[:])
}

// CMWhich says which message a MRA or REJ answers.
type CMWhich uint8

const (
	CMWhichREQ   CMWhich = 0 // a REQ
	CMWhichREP   CMWhich = 1 // a REP
	CMWhichOther CMWhich = 2 // an established connection, or a LAP
)

// String prints the message's name.
func (x CMWhich) String() string { return name([]string{"REQ", "REP", "other"}, uint64(x)) }

// CMRejReason says why a connection was refused (section 9.3). The ones that Linux sends have
// constants.
type CMRejReason uint16

const (
	CMRejNoQP            CMRejReason = 1  // no queue pair available
	CMRejNoResources     CMRejReason = 3  // no resources
	CMRejTimeout         CMRejReason = 4  // the peer never answered; ARI is the sender's CA GUID
	CMRejUnsupported     CMRejReason = 5  // unsupported request
	CMRejInvalidCommID   CMRejReason = 6  // invalid communication ID
	CMRejInvalidService  CMRejReason = 8  // nobody listens on the service ID
	CMRejInvalidType     CMRejReason = 9  // invalid transport service type
	CMRejStale           CMRejReason = 10 // the connection is one from before
	CMRejInvalidGID      CMRejReason = 12 // invalid GID
	CMRejInvalidMTU      CMRejReason = 26 // invalid path MTU
	CMRejResources       CMRejReason = 27 // insufficient responder resources
	CMRejConsumer        CMRejReason = 28 // the application said no
	CMRejInvalidRNRRetry CMRejReason = 29 // invalid RNR retry count
	CMRejDuplicateCommID CMRejReason = 30 // duplicate local communication ID
	CMRejInvalidClass    CMRejReason = 31 // unsupported class version
)

var rejReasons = []string{1: "no QP available", "no EEC", "no resources", "timeout", "unsupported request",
	"invalid communication ID", "invalid communication instance", "invalid service ID",
	"invalid transport service type", "stale connection", "RDC does not exist", "invalid GID", "invalid LID",
	"invalid SL", "invalid traffic class", "invalid hop limit", "invalid packet rate", "invalid alternate GID",
	"invalid alternate LID", "invalid alternate SL", "invalid alternate traffic class", "invalid alternate hop limit",
	"invalid alternate packet rate", "port and CM redirect", "port redirect", "invalid path MTU",
	"insufficient responder resources", "consumer defined", "invalid RNR retry count",
	"duplicate local communication ID", "unsupported class version", "invalid flow label",
	"invalid alternate flow label", 35: "vendor option not supported"}

// String prints the reason: "invalid service ID".
func (r CMRejReason) String() string { return name(rejReasons, uint64(r)) }

// CMSidrStatus is the answer to a SIDR_REQ.
type CMSidrStatus uint8

const (
	CMSidrOK          CMSidrStatus = 0 // QPN and QKey are valid
	CMSidrUnsupported CMSidrStatus = 1 // nobody serves the service ID
	CMSidrRejected    CMSidrStatus = 2 // the application said no
	CMSidrNoQP        CMSidrStatus = 3 // no queue pair available
	CMSidrRedirect    CMSidrStatus = 4 // ask elsewhere
	CMSidrVersion     CMSidrStatus = 5 // unsupported version
)

var sidrStatuses = []string{"success", "unsupported service ID", "rejected", "no QP", "redirect", "unsupported version"}

// String prints the status.
func (s CMSidrStatus) String() string { return name(sidrStatuses, uint64(s)) }

// name looks a number up in a list of names with gaps.
func name(names []string, i uint64) string {
	if i < uint64(len(names)) && names[i] != "" {
		return names[i]
	}
	return strconv.FormatUint(i, 10)
}
