package conformance

// FLUSH and ATOMIC WRITE: WRITEs that are visible, or on storage, when the request says so; a word
// that is stored at once, in its order.

import (
	"encoding/binary"
	"errors"

	"github.com/goroce/goroce/roce"
)

func placement() []Case {
	cases := []Case{
		{"ATOMIC WRITE", atomicWriteActs, atomicWriteServes},
		{"data, FLUSH and flag in one post", commitActs, commitServes},
	}
	for i := range flushes {
		f := &flushes[i]
		cases = append(cases, Case{"FLUSH " + f.name, f.act, f.serve})
	}
	return cases
}

// has skips where a device lacks abilities.
func has(e *End, caps roce.DeviceCaps, what string) {
	if e.Query().DeviceCaps&caps != caps {
		e.Skip("%s has no %s", e.Name(), what)
	}
}

// sends posts requests that some devices serve and cannot post.
func sends(e *End, wrs ...roce.SendWR) {
	err := e.QP.PostSend(wrs...)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
}

func atomicWriteActs(e *End) {
	e.Join(roce.RC, 64)
	e.Sync()
	for i := range uint64(3) {
		sends(e, roce.SendWR{
			WRID:       i,
			Opcode:     roce.WRAtomicWrite,
			Flags:      roce.SendSignaled,
			RemoteAddr: e.Peer.Addr + 8,
			RKey:       e.Peer.RKey,
			Swap:       1<<40 + i,
		})
		wc := e.Good(roce.WCAtomicWrite)
		e.Check(wc.WRID == i, "%+v", wc)
		e.Sync()
		e.Sync()
	}
	err := e.QP.PostSend(roce.SendWR{Opcode: roce.WRAtomicWrite, RemoteAddr: e.Peer.Addr + 4, RKey: e.Peer.RKey})
	e.Refused("an ATOMIC WRITE at an address that is not aligned", err, roce.ErrInvalid)
}

func atomicWriteServes(e *End) {
	has(e, roce.CapAtomicWrite, "ATOMIC WRITE")
	e.Join(roce.RC, 64)
	copy(e.Buf, pattern(64, 3))
	e.Sync()
	for i := range uint64(3) {
		e.Sync()
		got := binary.NativeEndian.Uint64(e.Buf[8:])
		e.Check(got == 1<<40+i, "the word is 0x%x, want 0x%x", got, 1<<40+i)
		e.Sync()
	}
	e.Same(e.Buf[:8], 3)
	e.Check(string(e.Buf[16:]) == string(pattern(64, 3)[16:]), "bytes behind the word have changed")
}

// flushCase is a FLUSH of memory that grants some rights.
type flushCase struct {
	name   string
	caps   roce.DeviceCaps // that the serving end must have
	access roce.Access     // of its region
	flush  roce.FlushInfo
}

const globally = roce.PlacementGlobal

var flushes = []flushCase{
	{"of a range", roce.CapFlushGlobal, roce.FlushGlobal, roce.FlushInfo{Length: 512, Placement: globally}},
	{"of a whole region", roce.CapFlushGlobal, roce.FlushGlobal,
		roce.FlushInfo{Placement: globally, Selectivity: roce.SelectivityMR}},
	{"to storage", roce.CapFlushPersistent, roce.FlushPersistent,
		roce.FlushInfo{Length: 512, Placement: roce.PlacementPersistent}},
	{"to storage, of all, and visible", roce.CapFlushPersistent | roce.CapFlushGlobal, roce.FlushPersistent |
		roce.FlushGlobal,
		roce.FlushInfo{Placement: roce.PlacementPersistent | globally, Selectivity: roce.SelectivityMR}},
}

func (f *flushCase) act(e *End) {
	e.Join(roce.RC, 4096)
	var c Card
	e.Hear(&c)
	copy(e.Buf, pattern(512, 4))
	sends(e, roce.SendWR{Opcode: roce.WRWrite, SGL: []roce.SGE{e.MR.SGE(0, 512)}, RemoteAddr: c.Addr, RKey: c.RKey},
		roce.SendWR{
			WRID:       5,
			Opcode:     roce.WRFlush,
			Flags:      roce.SendSignaled,
			RemoteAddr: c.Addr,
			RKey:       c.RKey,
			Flush:      f.flush,
		})
	wc := e.Good(roce.WCFlush)
	e.Check(wc.WRID == 5, "%+v", wc)
	e.Sync()
}

func (f *flushCase) serve(e *End) {
	has(e, f.caps, "such FLUSH")
	e.Join(roce.RC, 4096)
	m, err := e.PD.RegMR(make([]byte, regionSize), roce.LocalWrite|roce.RemoteWrite|f.access)
	if err != nil && f.access&roce.FlushPersistent != 0 {
		e.Skip("FLUSH to storage is not for ordinary memory: %v", err)
	}
	e.Must(err)
	e.later(m.Close)
	e.Tell(Card{Addr: m.Addr(), RKey: m.RKey()})
	e.Sync()
	e.Same(m.Bytes()[:512], 4)
}

// commitActs writes data, has it flushed, and then sets a flag, thirty times in a row.
const commits = 30

func commitActs(e *End) {
	e.Join(roce.RC, 4096)
	var c Card
	e.Hear(&c)
	copy(e.Buf, pattern(4096, 5))
	placement := globally
	if c.Endpoint.QPN != 0 { // the other end has storage
		placement = roce.PlacementPersistent
	}
	for i := range uint64(commits) {
		off := 64 * i
		sends(e, roce.SendWR{
			Opcode:     roce.WRWrite,
			SGL:        []roce.SGE{e.MR.SGE(int(off), 64)},
			RemoteAddr: c.Addr + off,
			RKey:       c.RKey,
		},
			roce.SendWR{
				Opcode:     roce.WRFlush,
				RemoteAddr: c.Addr + off,
				RKey:       c.RKey,
				Flush:      roce.FlushInfo{Length: 64, Placement: placement},
			},
			roce.SendWR{
				WRID:       i,
				Opcode:     roce.WRAtomicWrite,
				Flags:      roce.SendSignaled,
				RemoteAddr: c.Addr + 64*commits,
				RKey:       c.RKey,
				Swap:       i + 1,
			})
		if i%10 == 9 {
			for j := i - 9; j <= i; j++ {
				wc := e.Good(roce.WCAtomicWrite)
				e.Check(wc.WRID == j, "commit %d in place %d", wc.WRID, j)
			}
		}
	}
	e.Sync()
}

func commitServes(e *End) {
	has(e, roce.CapFlushGlobal|roce.CapAtomicWrite, "FLUSH or ATOMIC WRITE")
	e.Join(roce.RC, 4096)
	c := Card{}
	m, err := e.PD.RegMR(make([]byte, 4096), roce.LocalWrite|roce.RemoteWrite|roce.FlushGlobal|roce.FlushPersistent)
	if err == nil {
		c.Endpoint.QPN = 1
	} else {
		m, err = e.PD.RegMR(make([]byte, 4096), roce.LocalWrite|roce.RemoteWrite|roce.FlushGlobal)
	}
	e.Must(err)
	e.later(m.Close)
	c.Addr, c.RKey = m.Addr(), m.RKey()
	e.Tell(c)
	e.Sync()
	e.Same(m.Bytes()[:64*commits], 5)
	flag := binary.NativeEndian.Uint64(m.Bytes()[64*commits:])
	e.Check(flag == commits, "the flag is %d", flag)
}
