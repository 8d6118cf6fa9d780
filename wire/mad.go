package wire

import "strconv"

// MADLen is the length of every management datagram.
const MADLen = 256

// MAD is a management datagram: a header of 24 bytes and a body of 232 (section 9.1). It travels as
// the payload of a UD SEND_ONLY between queue pairs 1. The connection manager's messages are its
// only use over RoCEv2.
type MAD [MADLen]byte

// What the header of a connection manager's MAD says.
const (
	MADBaseVersion  uint8 = 1
	MADClassCM      uint8 = 7 // communication management
	MADClassVersion uint8 = 2 // of class 7
	MADMethodSend   uint8 = 3
	madHeaderLen          = 24
	cmBodyLen             = MADLen - madHeaderLen
)

// MADOf returns the MAD that a packet carries, nil if it carries none: only a UD SEND_ONLY to queue
// pair 1 with the right Q_Key and exactly 256 bytes does.
func MADOf(p *Packet) *MAD {
	if p.Opcode != UDSendOnly || p.BTH.DestQP() != GSIQPN || p.DETH().QKey() != GSIQKey || len(p.Payload) != MADLen {
		return nil
	}
	return (*MAD)(p.Payload)
}

// PutHeader clears the MAD and writes the header of a connection manager's message.
func (m *MAD) PutHeader(attr CMAttribute, tid uint64) {
	*m = MAD{0: MADBaseVersion, 1: MADClassCM, 2: MADClassVersion, 3: MADMethodSend}
	m.SetTransactionID(tid)
	be.PutUint16(m[16:], uint16(attr))
}

// IsCM says whether the header is that of a connection manager's message, of whatever attribute.
func (m *MAD) IsCM() bool {
	return [4]byte(m[:4]) == [4]byte{MADBaseVersion, MADClassCM, MADClassVersion, MADMethodSend}
}

// BaseVersion is 1.
func (m *MAD) BaseVersion() uint8 { return m[0] }

// MgmtClass is 7 for communication management.
func (m *MAD) MgmtClass() uint8 { return m[1] }

// ClassVersion is 2 for class 7.
func (m *MAD) ClassVersion() uint8 { return m[2] }

// Method is 3 (Send) in all messages of the connection manager.
func (m *MAD) Method() uint8 { return m[3] }

// Status is 0.
func (m *MAD) Status() uint16 { return be.Uint16(m[4:]) }

// ClassSpecific is 0.
func (m *MAD) ClassSpecific() uint16 { return be.Uint16(m[6:]) }

// TransactionID pairs answers with questions (section 9.6).
func (m *MAD) TransactionID() uint64 { return be.Uint64(m[8:]) }

// SetTransactionID changes the transaction ID.
func (m *MAD) SetTransactionID(tid uint64) { be.PutUint64(m[8:], tid) }

// Attribute says which message it is.
func (m *MAD) Attribute() CMAttribute { return CMAttribute(be.Uint16(m[16:])) }

// AttributeModifier is 0, or the option bits of enhanced connection establishment in REQ and REP.
func (m *MAD) AttributeModifier() uint32 { return be.Uint32(m[20:]) }

// SetAttributeModifier changes the modifier.
func (m *MAD) SetAttributeModifier(v uint32) { be.PutUint32(m[20:], v) }

// body is what follows the header.
func (m *MAD) body() *[cmBodyLen]byte { return (*[cmBodyLen]byte)(m[madHeaderLen:]) }

// CMAttribute is the AttributeID of a MAD of class 7.
type CMAttribute uint16

const (
	CMAttrREQ     CMAttribute = 0x10 + iota // connection request
	CMAttrMRA                               // message receipt acknowledgement: "wait, I am at it"
	CMAttrREJ                               // reject
	CMAttrREP                               // reply to a request
	CMAttrRTU                               // ready to use
	CMAttrDREQ                              // disconnect request
	CMAttrDREP                              // disconnect reply
	CMAttrSIDRREQ                           // service ID resolution request
	CMAttrSIDRREP                           // service ID resolution response
	CMAttrLAP                               // load alternate path
	CMAttrAPR                               // alternate path response
)

var cmNames = [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}

// String prints the message's name: "REQ".
func (a CMAttribute) String() string {
	if i := int(a) - int(CMAttrREQ); i >= 0 && i < len(cmNames) {
		return cmNames[i]
	}
	return "attribute 0x" + strconv.FormatUint(uint64(a), 16)
}
