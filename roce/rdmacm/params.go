package rdmacm

// What both sides tell each other when they connect, and what a queue pair must know of it.

import (
	"fmt"

	"github.com/goroce/goroce/roce"
)

// ConnParam are the properties of a connection (rdma_conn_param).
type ConnParam struct {
	// PrivateData travels with the request or the answer: at most MaxConnectData or MaxAcceptData
	// bytes and so on. In an event it has that length, with zeros behind what the peer gave, and is
	// the taker's.
	PrivateData []byte
	// ResponderResources is how many READs and atomics of the peer this side serves at a time,
	// InitiatorDepth how many of its own it has outstanding; 0 to what the device has
	// (DeviceAttr.MaxQPRdAtom, MaxQPInitRdAtom), or MaxRdAtomic for all of that. Accept takes as
	// many as the peer wants at most.
	ResponderResources, InitiatorDepth uint8
	FlowControl                        bool  // accepted, told, and without effect
	RetryCount                         uint8 // 0..7, of both sides: Accept does not look at it
	RNRRetryCount                      uint8 // 0..7, of the peer when it sends; 7 is for ever
	// The next two count if the ID has no queue pair of its own (CreateQP).
	SRQ  bool
	QPN  uint32 // 24 bits
	QKey uint32 // PSUDP: what the peer must send with; 0: UDPQKey
}

// DatagramParam says where datagrams go to (rdma_ud_param).
type DatagramParam struct {
	AH          roce.AHAttr // for PD.CreateAH
	QPN         uint32
	QKey        uint32
	PrivateData []byte // of the peer's Accept: MaxResolvedData bytes
}

// check holds the caller's values against their limits.
func (p *ConnParam) check(maxData int) error {
	switch {
	case len(p.PrivateData) > maxData:
		return fmt.Errorf("%w: %d bytes of private data, at most %d fit", ErrInvalid, len(p.PrivateData), maxData)
	case p.RetryCount > 7:
		return fmt.Errorf("%w: retry_count %d, want 0 to 7", ErrInvalid, p.RetryCount)
	case p.RNRRetryCount > 7:
		return fmt.Errorf("%w: rnr_retry_count %d, want 0 to 7", ErrInvalid, p.RNRRetryCount)
	case p.QPN >= 1<<24:
		return fmt.Errorf("%w: qp_num 0x%x, which has 24 bits", ErrInvalid, p.QPN)
	}
	return nil
}

// depth is a number of READs and atomics as the device has them.
func depth(name string, wanted uint8, has int) (uint8, error) {
	has = min(has, MaxRdAtomic-1)
	if wanted == MaxRdAtomic {
		return uint8(has), nil
	}
	if int(wanted) > has {
		return 0, fmt.Errorf("%w: %s %d, the device has %d", ErrInvalid, name, wanted, has)
	}
	return wanted, nil
}
