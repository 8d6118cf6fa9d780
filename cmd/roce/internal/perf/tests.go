package perf

// The eight tests, with the defaults that perftest has for them.

import (
	"slices"
	"strings"

	"github.com/goroce/goroce/roce"
)

// Test is one of perftest's programs.
type Test struct {
	Name  string // "write-bw"
	Tool  string // perftest's name of it
	Title string // as the banner has it
	Op    roce.WROpcode
	Lat   bool

	Size   int // defaults, as perftest has them
	Iters  int
	Inline int
	Types  []roce.QPType

	access    roce.Access // of the region, beside local writes
	qpAccess  roce.Access // of the queue pair
	respOp    bool        // READ or atomic: Outs matter, and only the client acts
	extraKeys bool        // the queue pairs' keys go round once more at the start
	untimely  bool        // ends without a word on TCP
}

// sends says whether the test's messages need receives.
func (t *Test) sends() bool { return t.Op == roce.WRSend }

var (
	anyType   = []roce.QPType{roce.RC, roce.UC, roce.UD}
	connected = []roce.QPType{roce.RC, roce.UC}
	reliable  = []roce.QPType{roce.RC}
)

// Tests are all tests in the order of the documentation.
var Tests = []Test{
	{Name: "write-bw", Tool: "ib_write_bw", Title: "RDMA_Write", Op: roce.WRWrite, Size: 65536, Iters: 5000,
		Types: connected, access: roce.RemoteWrite, qpAccess: roce.RemoteWrite},
	{Name: "write-lat", Tool: "ib_write_lat", Title: "RDMA_Write", Op: roce.WRWrite, Lat: true, Size: 2, Iters: 1000,
		Inline: 220, Types: connected, access: roce.RemoteWrite, qpAccess: roce.RemoteWrite, extraKeys: true,
		untimely: true},
	{Name: "read-bw", Tool: "ib_read_bw", Title: "RDMA_Read", Op: roce.WRRead, Size: 65536, Iters: 1000,
		Types: reliable, access: roce.RemoteRead, qpAccess: roce.RemoteRead, respOp: true},
	{Name: "read-lat", Tool: "ib_read_lat", Title: "RDMA_Read", Op: roce.WRRead, Lat: true, Size: 2, Iters: 1000,
		Types: reliable, access: roce.RemoteRead, qpAccess: roce.RemoteRead, respOp: true, extraKeys: true},
	{Name: "send-bw", Tool: "ib_send_bw", Title: "Send", Op: roce.WRSend, Size: 65536, Iters: 1000, Types: anyType},
	{Name: "send-lat", Tool: "ib_send_lat", Title: "Send", Op: roce.WRSend, Lat: true, Size: 2, Iters: 1000,
		Inline: 236, Types: anyType},
	{Name: "atomic-bw", Tool: "ib_atomic_bw", Title: "Atomic", Op: roce.WRAtomicFetchAndAdd, Size: 8, Iters: 1000,
		Types: reliable, access: roce.RemoteAtomic, qpAccess: roce.RemoteAtomic, respOp: true},
	{Name: "atomic-lat", Tool: "ib_atomic_lat", Title: "Atomic", Op: roce.WRAtomicFetchAndAdd, Lat: true, Size: 8,
		Iters: 1000, Types: reliable, access: roce.RemoteAtomic, qpAccess: roce.RemoteAtomic, respOp: true,
		extraKeys: true},
}

// Find returns the test of a name, "write-bw" or "ib_write_bw".
func Find(name string) (*Test, bool) {
	i := slices.IndexFunc(Tests, func(t Test) bool { return t.Name == name || t.Tool == name })
	if i < 0 {
		return nil, false
	}
	return &Tests[i], true
}

func join(types []roce.QPType) string {
	s := make([]string, len(types))
	for i, t := range types {
		s[i] = t.String()
	}
	return strings.Join(s, " or ")
}
