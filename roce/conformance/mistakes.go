package conformance

// Mistakes of the caller as a table: a call, and the kind of error that it returns at once. Nothing
// else has changed then: the queue pair's attributes are what they were, nothing has completed, and
// the next message arrives.
//
// Stages: what a row is; playing one; rows by verb: posts, Modify, what is created, what is closed
// too early.

import (
	"errors"

	"github.com/goroce/goroce/roce"
)

// A mistake is a row.
type mistake struct {
	name string
	call func(e *End) error
	want error
}

// mistakesIn are rows by what the queue pair is when the call is made.
var mistakesIn = []struct {
	typ   roce.QPType
	state roce.QPState // RESET, INIT or RTS
	rows  []mistake
}{
	{roce.RC, roce.StateReset, inReset},
	{roce.RC, roce.StateInit, inInit},
	{roce.RC, roce.StateRTS, badPosts},
	{roce.RC, roce.StateRTS, badChanges},
	{roce.RC, roce.StateRTS, badObjects},
	{roce.RC, roce.StateRTS, closedTooEarly},
	{roce.UC, roce.StateRTS, badUCPosts},
	{roce.UD, roce.StateRTS, badDatagrams},
}

func mistakeCases() (cases []Case) {
	for _, group := range mistakesIn {
		for _, m := range group.rows {
			act := func(e *End) {
				e.Make(group.typ, 64)
				if group.state == roce.StateInit {
					e.Must(e.QP.Init(&roce.ConnectOptions{QKey: qkey}))
				}
				if group.state == roce.StateRTS {
					bringUp(e)
				}
				m.made(e)
				if group.state != roce.StateRTS {
					bringUp(e)
				}
				e.Sync() // there is a receive
				wr := small(e, 1)
				if group.typ == roce.UD {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = handle(e, e.Peer.Endpoint.GID), e.Peer.Endpoint.QPN, qkey
				}
				e.Send(wr)
				e.Good(roce.WCSend)
			}
			serve := func(e *End) {
				e.Make(group.typ, 64)
				bringUp(e)
				e.Recv(1, 0, 64)
				e.Sync()
				e.Good(roce.WCRecv)
			}
			cases = append(cases, Case{"mistake/" + m.name, act, serve})
		}
	}
	return cases
}

// bringUp brings the queue pair to RTS.
func bringUp(e *End) {
	if e.QP.Type() != roce.UD {
		e.Connect(options())
		return
	}
	e.Must(e.QP.Activate(qkey))
	e.Swap()
	e.Sync()
}

// made makes the mistake.
func (m *mistake) made(e *End) {
	before, err := e.QP.Query()
	e.Must(err)
	err = m.call(e)
	if errors.Is(err, roce.ErrNotSupported) && m.want != roce.ErrNotSupported {
		e.Skip("%v", err)
	}
	e.Refused(m.name, err, m.want)
	after, err := e.QP.Query()
	e.Must(err)
	e.Check(before == after, "the attributes were %+v, and are %+v", before, after)
	e.Check(e.CQ.Len() == 0, "%d completions", e.CQ.Len())
}

// posting makes a row of a send work request.
func posting(name string, wr roce.SendWR) mistake {
	return mistake{name, func(e *End) error { return e.QP.PostSend(wr) }, roce.ErrInvalid}
}

// local makes a row of a send work request with elements of n bytes each.
func local(name string, wr roce.SendWR, n ...int) mistake {
	return mistake{name, func(e *End) error {
		own := wr
		for _, n := range n {
			own.SGL = append(own.SGL, e.MR.SGE(0, n))
		}
		return e.QP.PostSend(own)
	}, roce.ErrInvalid}
}

// changing makes a row of a Modify.
func changing(name string, a roce.QPAttr, mask roce.AttrMask) mistake {
	return mistake{name, func(e *End) error { return e.QP.Modify(e.ctx, &a, mask) }, roce.ErrInvalid}
}

// connecting makes a row of a way to RTR and RTS that goes wrong at RTR.
func connecting(name string, tune func(a *roce.QPAttr)) mistake {
	return mistake{name, func(e *End) error {
		self := e.QP.Endpoint()
		a := roce.QPAttr{State: roce.StateRTR, PathMTU: roce.MTU1024, DestQPN: self.QPN, RQPSN: 1, MaxDestRdAtomic: 1,
			MinRNRTimer: 1, AV: roce.AHAttr{DGID: self.GID}}
		tune(&a)
		return e.QP.Modify(e.ctx, &a, roce.AttrState|toRTR)
	}, roce.ErrInvalid}
}

const (
	toInit = roce.AttrPKeyIndex | roce.AttrPort | roce.AttrAccessFlags
	toRTR  = roce.AttrAV | roce.AttrPathMTU | roce.AttrDestQPN | roce.AttrRQPSN | roce.AttrMaxDestRdAtomic |
		roce.AttrMinRNRTimer
)

func postSend(e *End) error { return e.QP.PostSend(small(e, 1)) }

var inReset = []mistake{
	{"PostSend in RESET", postSend, roce.ErrState},
	{"PostRecv in RESET", func(e *End) error { return e.QP.PostRecv(roce.RecvWR{}) }, roce.ErrState},
	changing("Modify from RESET to RTS", roce.QPAttr{State: roce.StateRTS}, roce.AttrState),
	changing("Modify from RESET to ERR", roce.QPAttr{State: roce.StateErr}, roce.AttrState),
	changing("Modify to INIT without attributes", roce.QPAttr{State: roce.StateInit}, roce.AttrState),
	changing("Modify to INIT on port 2", roce.QPAttr{State: roce.StateInit, Port: 2}, roce.AttrState|toInit),
	changing("Modify to INIT with pkey_index 500", roce.QPAttr{State: roce.StateInit, Port: 1, PKeyIndex: 500},
		roce.AttrState|toInit),
	changing("Modify to INIT with unknown rights", roce.QPAttr{
		State:       roce.StateInit,
		Port:        1,
		AccessFlags: 1 << 19,
	}, roce.AttrState|toInit),
	changing("Modify to state 9", roce.QPAttr{State: 9}, roce.AttrState),
}

var inInit = []mistake{
	{"PostSend in INIT", postSend, roce.ErrState},
	changing("Modify to RTR without attributes", roce.QPAttr{State: roce.StateRTR}, roce.AttrState),
	changing("Modify from INIT to SQD", roce.QPAttr{State: roce.StateSQD}, roce.AttrState),
	connecting("Modify to RTR with path_mtu 0", func(a *roce.QPAttr) { a.PathMTU = 0 }),
	connecting("Modify to RTR with path_mtu 6", func(a *roce.QPAttr) { a.PathMTU = 6 }),
	connecting("Modify to RTR with a QPN of 25 bits", func(a *roce.QPAttr) { a.DestQPN = 1 << 24 }),
	connecting("Modify to RTR with min_rnr_timer 32", func(a *roce.QPAttr) { a.MinRNRTimer = 32 }),
	connecting("Modify to RTR with max_dest_rd_atomic 255", func(a *roce.QPAttr) { a.MaxDestRdAtomic = 255 }),
	connecting("Modify to RTR without an address", func(a *roce.QPAttr) { a.AV = roce.AHAttr{} }),
	connecting("Modify to RTR with a group's address", func(a *roce.QPAttr) { a.AV.DGID, _ = roce.ParseGID(group) }),
	connecting("Modify to RTR with sgid_index 255", func(a *roce.QPAttr) { a.AV.SGIDIndex = 255 }),
	connecting("Modify to RTR with a flow label of 21 bits", func(a *roce.QPAttr) { a.AV.FlowLabel = 1 << 20 }),
}

// badPosts are requests of RC that break a rule of ibv_post_send or ibv_post_recv.
var badPosts = []mistake{
	posting("PostSend of an operation that is none", roce.SendWR{Opcode: 99}),
	posting("PostSend of a TSO", roce.SendWR{Opcode: 10}),
	local("PostSend of an atomic of 4 bytes", roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd}, 4),
	local("PostSend of an atomic at an odd address", roce.SendWR{Opcode: roce.WRAtomicCmpAndSwp, RemoteAddr: 4}, 8),
	posting("PostSend of a READ inline", roce.SendWR{
		Opcode: roce.WRRead,
		Flags:  roce.SendInline,
		Inline: make([]byte, 8),
	}),
	local("PostSend of inline data and elements", roce.SendWR{
		Opcode: roce.WRSend,
		Flags:  roce.SendInline,
		Inline: make([]byte, 8),
	}, 4),
	posting("PostSend of inline data without the flag", roce.SendWR{Opcode: roce.WRSend, Inline: make([]byte, 8)}),
	posting("PostSend of too much inline data", roce.SendWR{
		Opcode: roce.WRSend,
		Flags:  roce.SendInline,
		Inline: make([]byte, 64<<10),
	}),
	local("PostSend of more than 2^31 bytes", roce.SendWR{Opcode: roce.WRSend}, 1<<30, 1<<30, 1),
	{"PostSend of too many elements", func(e *End) error {
		return e.QP.PostSend(roce.SendWR{Opcode: roce.WRSend, SGL: make([]roce.SGE, 100)})
	}, roce.ErrInvalid},
	{"PostRecv of too many elements", func(e *End) error {
		return e.QP.PostRecv(roce.RecvWR{SGL: make([]roce.SGE, 100)})
	}, roce.ErrInvalid},
	posting("PostSend of a bind of nothing", roce.SendWR{Opcode: roce.WRBindMW}),
	posting("PostSend of a bind to another window's key",
		roce.SendWR{Opcode: roce.WRBindMW, Bind: &roce.BindInfo{WindowKey: 0x100, NewKey: 0x200}}),
	local("PostSend of a LOCAL_INV with an element", roce.SendWR{Opcode: roce.WRLocalInv}, 8),
	posting("PostSend of an ATOMIC WRITE at an odd address", roce.SendWR{Opcode: roce.WRAtomicWrite, RemoteAddr: 4}),
	posting("PostSend of a FLUSH to nowhere", roce.SendWR{Opcode: roce.WRFlush}),
	posting("PostSend of a FLUSH to a fourth place",
		roce.SendWR{Opcode: roce.WRFlush, Flush: roce.FlushInfo{Placement: 4}}),
	posting("PostSend of a FLUSH of something else",
		roce.SendWR{Opcode: roce.WRFlush, Flush: roce.FlushInfo{Placement: globally, Selectivity: 2}}),
	{"BindMW of no window", func(e *End) error { return e.QP.BindMW(nil, roce.MWBindAttr{}) }, roce.ErrInvalid},
}

// badUCPosts are operations that UC does not have.
var badUCPosts = []mistake{
	local("PostSend of a READ on UC", roce.SendWR{Opcode: roce.WRRead}, 8),
	local("PostSend of an atomic on UC", roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd}, 8),
	local("PostSend of a SEND with invalidate on UC", roce.SendWR{Opcode: roce.WRSendWithInv}, 8),
	posting("PostSend of a FLUSH on UC", roce.SendWR{Opcode: roce.WRFlush, Flush: roce.FlushInfo{Placement: globally}}),
}

// to makes a row of a datagram, whose address handle a function makes.
func to(name string, ah func(e *End) *roce.AH, wr roce.SendWR) mistake {
	return mistake{name, func(e *End) error {
		wr.AH = ah(e)
		return e.QP.PostSend(wr)
	}, roce.ErrInvalid}
}

func toPeer(e *End) *roce.AH { return handle(e, e.Peer.Endpoint.GID) }

var badDatagrams = []mistake{
	posting("PostSend of a datagram to nobody", roce.SendWR{Opcode: roce.WRSend}),
	to("PostSend of a WRITE on UD", toPeer, roce.SendWR{Opcode: roce.WRWrite}),
	to("PostSend of a READ on UD", toPeer, roce.SendWR{Opcode: roce.WRRead}),
	to("PostSend of a datagram to a QPN of 25 bits", toPeer, roce.SendWR{Opcode: roce.WRSend, RemoteQPN: 1 << 24}),
	to("PostSend of a datagram by a destroyed handle", func(e *End) *roce.AH {
		ah, err := e.PD.CreateAH(e.ctx, roce.AHAttr{DGID: e.Peer.Endpoint.GID})
		e.Must(err)
		e.Must(e.PD.DestroyAH(ah))
		return ah
	}, roce.SendWR{Opcode: roce.WRSend}),
	to("PostSend of a datagram by a handle of another domain", func(e *End) *roce.AH {
		pd := elsewhere(e)
		ah, err := pd.CreateAH(e.ctx, roce.AHAttr{DGID: e.Peer.Endpoint.GID})
		e.Must(err)
		e.later(func() error { return pd.DestroyAH(ah) })
		return ah
	}, roce.SendWR{Opcode: roce.WRSend}),
	{"AttachMcast of an address that is no group's", func(e *End) error {
		return e.QP.AttachMcast(e.GIDs()[0])
	}, roce.ErrInvalid},
	{"DetachMcast of a group that was not attached", func(e *End) error {
		g, err := roce.ParseGID(group)
		e.Must(err)
		return e.QP.DetachMcast(g)
	}, roce.ErrInvalid},
	{"Connect of a UD queue pair", func(e *End) error {
		return e.QP.Connect(e.ctx, e.Peer.Endpoint, nil)
	}, roce.ErrInvalid},
}

// elsewhere makes another protection domain.
func elsewhere(e *End) *roce.PD {
	pd, err := e.AllocPD()
	e.Must(err)
	e.later(pd.Close)
	return pd
}

var badChanges = []mistake{
	{"Modify without attributes", func(e *End) error {
		return e.QP.Modify(e.ctx, nil, roce.AttrState)
	}, roce.ErrInvalid},
	changing("Modify from RTS to RTR", roce.QPAttr{State: roce.StateRTR}, roce.AttrState),
	changing("Modify from RTS to INIT", roce.QPAttr{State: roce.StateInit}, roce.AttrState),
	changing("Modify to SQE", roce.QPAttr{State: roce.StateSQE}, roce.AttrState),
	changing("Modify of path_mtu in RTS", roce.QPAttr{PathMTU: roce.MTU256}, roce.AttrPathMTU),
	changing("Modify of timeout in RTS", roce.QPAttr{Timeout: 3}, roce.AttrTimeout),
	changing("Modify of an alternate path", roce.QPAttr{}, roce.AttrAltPath),
	changing("Modify of the migration state", roce.QPAttr{}, roce.AttrPathMigState),
	changing("Modify of the capacities", roce.QPAttr{Cap: roce.DefaultQPCap()}, roce.AttrCap),
	changing("Modify from another state than the present one",
		roce.QPAttr{State: roce.StateRTS, CurState: roce.StateSQD}, roce.AttrState|roce.AttrCurState),
	{"AttachMcast of an RC queue pair", func(e *End) error {
		g, err := roce.ParseGID(group)
		e.Must(err)
		return e.QP.AttachMcast(g)
	}, roce.ErrInvalid},
	{"Activate of an RC queue pair", func(e *End) error { return e.QP.Activate(1) }, roce.ErrInvalid},
}

// creating makes a row of a queue pair that cannot be made. Without a completion queue it gets the
// end's.
func creating(name string, a roce.QPInitAttr) mistake {
	return mistake{name, func(e *End) error {
		a.SendCQ = e.CQ
		_, err := e.PD.CreateQP(a)
		return err
	}, roce.ErrInvalid}
}

func registering(name string, buf []byte, access roce.Access) mistake {
	return mistake{name, func(e *End) error { _, err := e.PD.RegMR(buf, access); return err }, roce.ErrInvalid}
}

func queueing(name string, a roce.CQInitAttr) mistake {
	return mistake{name, func(e *End) error { _, err := e.CreateCQ(a); return err }, roce.ErrInvalid}
}

func sharing(name string, a roce.SRQInitAttr) mistake {
	return mistake{name, func(e *End) error { _, err := e.PD.CreateSRQ(a); return err }, roce.ErrInvalid}
}

// tooMany is more than any device has of anything.
const tooMany = 1 << 30

var badObjects = []mistake{
	{"CreateQP without a completion queue", func(e *End) error {
		_, err := e.PD.CreateQP(roce.QPInitAttr{})
		return err
	}, roce.ErrInvalid},
	creating("CreateQP of type 77", roce.QPInitAttr{Type: 77}),
	{"CreateQP of raw packets", func(e *End) error {
		_, err := e.PD.CreateQP(roce.QPInitAttr{Type: roce.RawPacket, SendCQ: e.CQ})
		return err
	}, roce.ErrNotSupported},
	{"CreateQP of XRC_RECV without a domain", func(e *End) error {
		_, err := e.PD.CreateQP(roce.QPInitAttr{Type: roce.XRCRecv})
		return err
	}, roce.ErrInvalid},
	creating("CreateQP with too many requests", roce.QPInitAttr{Cap: roce.QPCap{
		MaxSendWR:  tooMany,
		MaxRecvWR:  1,
		MaxSendSGE: 1,
		MaxRecvSGE: 1,
	}}),
	creating("CreateQP with too many receives", roce.QPInitAttr{Cap: roce.QPCap{
		MaxSendWR:  1,
		MaxRecvWR:  tooMany,
		MaxSendSGE: 1,
		MaxRecvSGE: 1,
	}}),
	creating("CreateQP with too many elements", roce.QPInitAttr{Cap: roce.QPCap{
		MaxSendWR:  1,
		MaxRecvWR:  1,
		MaxSendSGE: 10000,
		MaxRecvSGE: 1,
	}}),
	creating("CreateQP with too much inline data", roce.QPInitAttr{Cap: roce.QPCap{
		MaxSendWR:     1,
		MaxRecvWR:     1,
		MaxInlineData: tooMany,
	}}),
	queueing("CreateCQ of 0", roce.CQInitAttr{}),
	queueing("CreateCQ that is too large", roce.CQInitAttr{CQE: tooMany}),
	queueing("CreateCQ with a vector that is none", roce.CQInitAttr{CQE: 1, Vector: tooMany}),
	queueing("CreateCQ with an unknown flag", roce.CQInitAttr{CQE: 1, Flags: 1 << 7}),
	{"CreateCQ with VLAN tags", func(e *End) error {
		_, err := e.CreateCQ(roce.CQInitAttr{CQE: 1, WCFlags: 1 << 8})
		return err
	}, roce.ErrNotSupported},
	{"Resize of a completion queue to 0", func(e *End) error { return e.CQ.Resize(0) }, roce.ErrInvalid},
	sharing("CreateSRQ that is too large", roce.SRQInitAttr{MaxWR: tooMany}),
	sharing("CreateSRQ of -1", roce.SRQInitAttr{MaxWR: -1}),
	sharing("CreateSRQ with too many elements", roce.SRQInitAttr{MaxWR: 4, MaxSGE: 10000}),
	sharing("CreateSRQ with a limit above its size", roce.SRQInitAttr{MaxWR: 4, Limit: 5}),
	registering("RegMR for WRITEs without LocalWrite", make([]byte, 8), roce.RemoteWrite),
	registering("RegMR for atomics without LocalWrite", make([]byte, 8), roce.RemoteAtomic),
	{"RegMRAt of nil", func(e *End) error {
		_, err := e.PD.RegMRAt(0, 5, 0, roce.LocalWrite)
		return err
	}, roce.ErrInvalid},
	{"AllocMW of type 3", func(e *End) error { _, err := e.PD.AllocMW(3); return err }, roce.ErrInvalid},
	{"CreateAH to nobody", func(e *End) error {
		_, err := e.PD.CreateAH(e.ctx, roce.AHAttr{})
		return err
	}, roce.ErrInvalid},
	{"CreateAH from row 255 of the GID table", func(e *End) error {
		_, err := e.PD.CreateAH(e.ctx, roce.AHAttr{DGID: e.GIDs()[0], SGIDIndex: 255})
		return err
	}, roce.ErrInvalid},
	{"DestroyAH of none", func(e *End) error { return e.PD.DestroyAH(nil) }, roce.ErrInvalid},
	{"QueryGID of row -1", func(e *End) error { _, err := e.QueryGID(-1); return err }, roce.ErrInvalid},
	{"QueryGID behind the end", func(e *End) error {
		_, err := e.QueryGID(len(e.GIDs()))
		return err
	}, roce.ErrInvalid},
	{"ReqNotify without a channel", func(e *End) error {
		cq, err := e.CreateCQ(roce.CQInitAttr{CQE: 1})
		e.Must(err)
		e.later(cq.Close)
		return cq.ReqNotify(false)
	}, roce.ErrInvalid},
}

var closedTooEarly = []mistake{
	{"Close of a domain with a queue pair", func(e *End) error { return e.PD.Close() }, roce.ErrBusy},
	{"Close of a domain with a region", func(e *End) error {
		pd := elsewhere(e)
		m, err := pd.RegMR(make([]byte, 8), roce.LocalWrite)
		e.Must(err)
		e.later(m.Close)
		return pd.Close()
	}, roce.ErrBusy},
	{"Close of a domain with a window", func(e *End) error {
		windows1(e)
		pd := elsewhere(e)
		w, err := pd.AllocMW(roce.MWType1)
		e.Must(err)
		e.later(w.Close)
		return pd.Close()
	}, roce.ErrBusy},
	{"Close of a domain with an address handle", func(e *End) error {
		pd := elsewhere(e)
		ah, err := pd.CreateAH(e.ctx, roce.AHAttr{DGID: e.Peer.Endpoint.GID})
		e.Must(err)
		e.later(func() error { return pd.DestroyAH(ah) })
		return pd.Close()
	}, roce.ErrBusy},
	{"Close of a completion queue with a queue pair", func(e *End) error { return e.CQ.Close() }, roce.ErrBusy},
	{"Close of a channel with a completion queue", func(e *End) error { return e.Ch.Close() }, roce.ErrBusy},
	{"Close of a device with a domain", func(e *End) error { return e.Device.Close() }, roce.ErrBusy},
	{"Close of a shared receive queue with a queue pair", func(e *End) error {
		s := e.share(1, 0)
		e.queue(roce.RC, s)
		return s.Close()
	}, roce.ErrBusy},
}
