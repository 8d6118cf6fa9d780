package wire

import "strconv"

// PSN is a packet sequence number: 24 bits, arithmetic modulo 2^24 (section 4.1). Values above
// PSNMask do not occur on the wire; Add and Next never produce one. The message sequence number
// (MSN) of an AETH has the same arithmetic.
type PSN uint32

const (
	PSNMask PSN = 1<<24 - 1 // the largest PSN; the one after it is 0
)

// Add returns the PSN n packets after p.
func (p PSN) Add(n uint32) PSN { return (p + PSN(n)) & PSNMask }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return (p + 1) & PSNMask }

// Prev returns the PSN before p.
func (p PSN) Prev() PSN { return (p - 1) & PSNMask }

// Sub returns the signed distance p-q in [-2^23, 2^23): positive means p is newer than q.
func (p PSN) Sub(q PSN) int32 { return int32(uint32(p-q)<<8) >> 8 }

// Before says whether p is older than q.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// String prints the number, decimal.
func (p PSN) String() string { return strconv.FormatUint(uint64(p), 10) }
