package qptest

// What an engine may put on the wire. Stages: the frame is well-formed → it belongs to a queue pair
// → as a request it is the next packet or an identical old one, inside window, rd_atomic limit and
// fence → as a response it says what is so.

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// departed checks a frame that the engine of node n sends.
func (w *World) departed(n *Node, f *wire.Frame) {
	w.leaving = wire.AppendFrame(w.leaving[:0], f) // nothing keeps it
	pkt := w.leaving
	fr, why := wire.SplitFrame(pkt)
	if why != wire.DropNone || len(fr.Head) != len(f.Head) || len(fr.Body) != len(f.Body) {
		w.Fail("%s sent what is no frame: %v (% x)", n, why, pkt)
		return
	}
	var p wire.Packet
	if why := wire.Parse(&fr, &p); why != wire.DropNone {
		w.Fail("%s sent what is no packet: %v (% x)", n, why, pkt)
		return
	}
	bad := func(format string, args ...any) {
		w.Fail("%s sent %s: "+format, append([]any{n, wire.AppendPacket(nil, &fr)}, args...)...)
	}
	switch {
	case !wire.Verify(&fr) && !(p.Opcode == wire.RCFlush && wire.VerifyFlush(&fr)):
		bad("its ICRC is wrong")
	case !slices.Contains(n.GIDs, fr.Src()):
		bad("its source is not the node's address")
	case fr.SrcPort() < 0xc000 && n.cfg.Engine.SrcPort == 0:
		bad("source ports of RoCE are 0xc000 and above (section 1.2)")
	case fr.IPv4() != nil && fr.IPv4().Fragment() != wire.DontFragment:
		bad("DF alone must be set")
	case p.BTH.PKey() != wire.DefaultPKey:
		bad("its P_Key is not the default one")
	case p.BTH.TVer() != 0 || p.Body[4]&0x3f != 0 || p.Body[8]&0x7f != 0:
		bad("reserved bits are set")
	case int(p.BTH.PadCount()) != wire.Pad(len(p.Payload)):
		bad("its pad count is not that of its payload")
	case !zero(p.Body[len(p.Body)-4-int(p.BTH.PadCount()) : len(p.Body)-4]):
		bad("its pad is not zero")
	}
	switch {
	case p.Opcode == wire.CNP || w.err != nil:
	case w.Applications != nil:
		p.Frame = &fr
		w.Applications.Leaves(n, &p)
	default:
		w.attribute(n, &p, bad)
		w.inTime(n, &p, bad)
	}
}

// Of a delay the packets behind it may make up for late at least, or for lateBurst packets up to
// lateTimer.
const (
	late      = 200 * Microsecond
	lateTimer = 4 * Millisecond
	lateBurst = 60
)

// inTime holds a queue pair to its rate limit.
func (w *World) inTime(n *Node, p *wire.Packet, bad func(string, ...any)) {
	q := n.remotes[remote{p.Frame.Dst(), p.BTH.DestQP()}]
	if p.Opcode.Service() == wire.ServiceUD {
		q = n.qps[p.DETH().SrcQP()]
	}
	if q == nil || q.Cfg.RateLimit == 0 || len(p.Payload) == 0 {
		return
	}
	took := func(bytes int) qp.Time { return qp.Time(bytes) * 8 * 1_000_000 / qp.Time(q.Cfg.RateLimit) }
	if q.mayAt > w.Now {
		bad("it is %d ns too early for a limit of %d kbit/s", q.mayAt-w.Now, q.Cfg.RateLimit)
	}
	slack := max(late, min(took(lateBurst*q.Cfg.MTU.Bytes()), lateTimer))
	q.mayAt = max(q.mayAt, w.Now-slack) + took(len(p.Payload))
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// attribute finds the sender's queue pair and holds the packet against what that may send.
func (w *World) attribute(n *Node, p *wire.Packet, bad func(string, ...any)) {
	if d := p.DETH(); d != nil {
		if q := n.qps[d.SrcQP()]; q == nil {
			bad("no such source queue pair")
		} else if q.gram != nil && !w.Unchecked {
			q.datagramSent(p, bad)
		}
		return
	}
	q := n.remotes[remote{p.Frame.Dst(), p.BTH.DestQP()}]
	if q != nil {
		defer func() { q.port = p.Frame.SrcPort() }()
	}
	switch {
	case q == nil:
		bad("no queue pair is connected to there")
	case !p.Op.Payload.Allows(len(p.Payload), q.Cfg.MTU.Bytes()):
		bad("%d bytes of payload at path MTU %d", len(p.Payload), q.Cfg.MTU.Bytes())
	case q.port != 0 && q.port != p.Frame.SrcPort():
		bad("the source port of a connection must not change, it was %d", q.port)
	case p.Frame.Src() != q.GID():
		bad("source should be %v, the queue pair's own row", q.GID())
	case p.Frame.TOS() != q.trafficClass():
		bad("traffic class is not that of the address vector")
	case w.Unchecked || !q.modelled():
	case p.Op.Has(wire.OpRequest):
		q.out.sent(p, bad)
	default:
		q.in.answer(p, bad)
	}
}

// trafficClass is what the packets of a connected queue pair must say.
func (q *QP) trafficClass() uint8 {
	if tc := q.Cfg.TrafficClass; !q.Node.cfg.Engine.ECN || tc%4 > 0 {
		return tc
	}
	return q.Cfg.TrafficClass + 2
}

// sent checks a request.
func (s *stream) sent(p *wire.Packet, bad func(string, ...any)) {
	q := s.from
	at := s.number(p.BTH.PSN(), s.nxt)
	if s.sounding(p, at) {
		return
	}
	if at < 0 || uint64(at) > s.nxt {
		bad("PSN should be %d or older", s.psn(s.nxt))
		return
	}
	n := uint64(at)
	o, k := s.locate(n)
	switch {
	case o == nil:
		bad("nothing was posted for this PSN")
	case q.down != "":
		bad("%s is in ERR: %s", q, q.down)
	case !o.good:
		bad("it belongs to a work request with bad elements")
	case n < s.acked:
		bad("it repeats what has been acknowledged (up to PSN %d)", s.psn(s.acked-1))
	case n < s.nxt && !q.reliable():
		bad("UC does not retransmit")
	case s.counts == countsCredits && o.takes() && k == 0 && s.messageOf(o) > s.lsn+1 && n > s.ackable:
		bad("it is message %d, and the peer's credits are for %d", s.messageOf(o), s.lsn)
	default:
		s.content(o, k, p, bad)
		if h := p.XRCETH(); h != nil && h.SRQN() != o.wr.RemoteSRQN {
			bad("the shared receive queue should be 0x%06x", o.wr.RemoteSRQN)
		}
		if n == s.nxt {
			s.first(o, k, n, bad)
		}
	}
}

// messageOf is the number of the message of a SEND.
func (s *stream) messageOf(o *op) int {
	if o.ssn == 0 {
		return s.ssn + 1
	}
	return o.ssn
}

// sounding says whether a request is the empty one by which a requester finds out whether short
// packets arrive where a long one, the oldest, or its answer, has not: with the PSN before that, so
// that nothing comes of it.
func (s *stream) sounding(p *wire.Packet, at int64) bool {
	if p.Opcode != wire.RCSendOnly || len(p.Payload) > 0 || !p.BTH.AckReq() || at != int64(s.acked)-1 ||
		s.nxt == s.acked {
		return false
	}
	o, k := s.locate(s.acked)
	long := o != nil && k == 0 && min(o.length, s.from.Cfg.MTU.Bytes()) > 256
	return long && s.from.down == "" && s.from.Node.W.Now-s.since >= qp.Time(wire.AckTimeout(s.from.Cfg.Timeout))
}

// first checks a packet that is sent for the first time.
func (s *stream) first(o *op, k, n uint64, bad func(string, ...any)) {
	q := s.from
	s.nxt = n + 1
	if n == s.acked {
		s.since = q.Node.W.Now
	}
	if o.read() {
		s.nxt = o.first + s.pieceEnd(o, k)
	}
	if k == 0 {
		whole := s.piece(o)
		s.ssn += int((o.packets + whole - 1) / whole)
		o.ssn = s.ssn
	}
	if !q.reliable() {
		return
	}
	window := q.Node.cfg.Engine.Window
	if window == 0 {
		window = int(q.Cfg.span())
	}
	depth := q.Cfg.depth(window)
	// What has arrived is not on its way.
	if s.heard > s.ackable && n-s.ackable < q.Cfg.span() {
		window += int(s.heard + 1 - s.ackable)
	}
	if n-s.ackable >= uint64(window) {
		bad("window: %d packets are unacknowledged", n-s.ackable)
	}
	outstanding := uint64(0)
	for _, f := range q.fetching {
		if f.first <= o.first && f.progress < f.packets {
			n := s.piece(f)
			outstanding += (min(s.nxt, f.end())-f.first+n-1)/n - f.progress/n
			if f != o && k == 0 && o.wr.Flags&qp.SendFence != 0 {
				bad("fence: an earlier READ or atomic is not complete")
			}
		}
	}
	if o.fetches() && outstanding > depth {
		bad("%d READs and atomics outstanding, %d may be", outstanding, depth)
	}
}

// content checks that the packet is packet k of its operation: every header and every byte.
func (s *stream) content(o *op, k uint64, p *wire.Packet, bad func(string, ...any)) {
	whole := o.packets
	if !o.read() {
		whole = s.piece(o)
	}
	last := k == o.packets-1 || o.read() || whole == 1
	if want := requestOpcode(s.from.Type(), o, k == 0 || o.read() || whole == 1, last); p.Opcode != want {
		bad("opcode should be %v", want)
		return
	}
	if se := o.wr.Flags&qp.SendSolicited != 0 && last &&
		(o.send() || o.is(qp.WRWriteWithImm)); p.BTH.Solicited() != se {
		bad("SE should be %v", se)
	}
	if s.from.Type() == qp.UC && p.BTH.AckReq() {
		bad("A is set on UC")
	}
	if h := p.RETH(); h != nil {
		skip, n := uint64(0), uint64(o.length)
		switch {
		case o.flush():
			n = uint64(o.wr.Flush.Length)
		case o.atomicWrite():
			n = 8
		case o.read():
			skip, n = k*uint64(s.mtu), s.asks(o, k, uint64(h.DMALen()), bad)
		case whole == 1:
			skip, n = k*uint64(s.mtu), uint64(len(o.part(k, s.mtu)))
		}
		if h.VA() != o.wr.RemoteAddr+skip || h.RKey() != o.wr.RKey || uint64(h.DMALen()) != n {
			bad("RETH should be va %#x rkey %#x len %d", o.wr.RemoteAddr+skip, o.wr.RKey, n)
		}
	}
	if h := p.AtomicETH(); h != nil {
		swapAdd, compare := o.wr.CompareAdd, uint64(0)
		if o.is(qp.WRAtomicCmpAndSwp) {
			swapAdd, compare = o.wr.Swap, o.wr.CompareAdd
		}
		if h.VA() != o.wr.RemoteAddr || h.RKey() != o.wr.RKey || h.SwapAdd() != swapAdd || h.Compare() != compare {
			bad("AtomicETH is not what was posted")
		}
	}
	if h := p.FETH(); h != nil && (qp.Placement(h.Placement()) != o.wr.Flush.Placement ||
		qp.Selectivity(h.Selectivity()) != o.wr.Flush.Selectivity) {
		bad("FETH should be of %+v", o.wr.Flush)
	}
	if o.atomicWrite() && !bytes.Equal(p.Payload, binary.NativeEndian.AppendUint64(nil, o.wr.Swap)) {
		bad("payload should be %#x", o.wr.Swap)
	}
	if h := p.ImmDt(); h != nil && h.Imm() != o.wr.Imm {
		bad("immediate data should be %#x", o.wr.Imm)
	}
	if h := p.IETH(); h != nil && h.RKey() != o.wr.InvalidateKey {
		bad("invalidated key should be %#x", o.wr.InvalidateKey)
	}
	if !o.fetches() && !bytes.Equal(p.Payload, o.part(k, s.mtu)) {
		bad("payload is not part %d of the message", k)
	}
}

// asks returns how many bytes a request for reply k of a READ has to ask for, which is so many:
// those to the end of its piece; or, with selective repeat, a part that is missing of what was
// executed.
func (s *stream) asks(o *op, k, bytes uint64, bad func(string, ...any)) uint64 {
	mtu := uint64(s.mtu)
	if k == 0 && o.cut == 0 {
		s.cuts(o, max(1, (bytes+mtu-1)/mtu), bad)
	}
	end := s.pieceEnd(o, k)
	if part := k + (bytes+mtu-1)/mtu; s.early != nil && part > k && part < end && o.first+part <= s.known {
		end = part
	}
	for at := k; at < end; at++ {
		if o.came[at] && (at == k || s.early != nil) {
			bad("it asks for reply %d again, which has come", at)
		}
	}
	return min(end*mtu, uint64(o.length)) - k*mtu
}

// requestOpcode returns the opcode of a request packet.
func requestOpcode(t qp.QPType, o *op, first, last bool) wire.Opcode {
	at := 1 // middle
	switch {
	case first && last:
		at = 3
	case first:
		at = 0
	case last:
		at = 2
	}
	row := map[qp.WROpcode][4]wire.Opcode{
		qp.WRSend:              {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly},
		qp.WRSendWithImm:       {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, wire.RCSendOnlyImm},
		qp.WRSendWithInv:       {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastInv, wire.RCSendOnlyInv},
		qp.WRWrite:             {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly},
		qp.WRWriteWithImm:      {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLastImm, wire.RCWriteOnlyImm},
		qp.WRRead:              {3: wire.RCReadRequest},
		qp.WRAtomicCmpAndSwp:   {3: wire.RCCompareSwap},
		qp.WRAtomicFetchAndAdd: {3: wire.RCFetchAdd},
		qp.WRFlush:             {3: wire.RCFlush},
		qp.WRAtomicWrite:       {3: wire.RCAtomicWrite},
	}[o.wr.Opcode]
	switch t {
	case qp.UC:
		return row[at] + wire.UCSendFirst
	case qp.XRCSend:
		return row[at] + wire.XRCSendFirst
	}
	return row[at]
}

// answer checks a response.
func (s *stream) answer(p *wire.Packet, bad func(string, ...any)) {
	n := s.number(p.BTH.PSN(), s.epsn)
	selective := s.early != nil && p.Opcode == wire.RCAcknowledge
	if a := p.AETH(); a != nil && s.messages(a) > s.msn && !(selective && ownMSN(a.Syndrome())) {
		bad("MSN should be %d at most", wire.PSN(s.msn)&wire.PSNMask)
	}
	_, _, named := s.to.namedGap(p)
	switch {
	case s.to.mute:
		bad("the application has moved it to ERR, and has its memory back (section 7.7)")
	case selective && p.AETH().Syndrome().Kind() == wire.KindACK:
		s.selectiveAck(n, p, bad)
	case selective && named:
		s.gapReport(n, p, bad)
	case n == -1 && p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome().Kind() == wire.KindACK:
		// In the place of a NAK of the first packet, which came after all: it acknowledges nothing.
	case n < 0:
		bad("it answers a packet before the first")
	case !s.to.reliable():
		bad("only RC answers")
	case p.Op.Has(wire.OpRead):
		s.readReply(uint64(n), p, bad)
	case p.Op.Has(wire.OpAtomic):
		s.atomicReply(uint64(n), p, bad)
	case p.AETH().Syndrome().Kind() == wire.KindACK:
		s.ackSent(uint64(n), bad)
	case p.AETH().Syndrome().Kind() == wire.KindRNR && s.slowFlush(uint64(n)):
		if code := p.AETH().Syndrome().Code(); wire.RNRTimeout(code) < wire.RNRTimeout(s.to.Cfg.MinRNRTimer) {
			bad("RNR timer code should be %d at least", s.to.Cfg.MinRNRTimer)
		}
	case uint64(n) != s.epsn:
		bad("a NAK's PSN must be the expected one, %d", s.psn(s.epsn))
	default:
		s.nakSent(p.AETH().Syndrome(), bad)
	}
}

// slowFlush says that packet n is the FLUSH to storage that is to be answered next: if it is
// repeated meanwhile, the peer may be asked to wait.
func (s *stream) slowFlush(n uint64) bool {
	if len(s.owed) == 0 || s.owed[0].op.first != n {
		return false
	}
	o := s.owed[0].op
	return o.is(qp.WRFlush) && o.wr.Flush.Placement&qp.PlacementPersistent != 0
}

func (s *stream) ackSent(n uint64, bad func(string, ...any)) {
	if n >= s.epsn {
		bad("it acknowledges a packet that was not executed; expected is PSN %d", s.psn(s.epsn))
	}
	if len(s.owed) > 0 && s.owed[0].first+s.owed[0].from <= n {
		bad("it overtakes the reply to a READ or atomic at PSN %d", s.psn(s.owed[0].first+s.owed[0].from))
	}
}

func (s *stream) nakSent(syn wire.Syndrome, bad func(string, ...any)) {
	switch {
	case syn.Kind() == wire.KindRNR:
		if !s.starved {
			bad("RNR although no message waits for a receive")
		}
		if syn.Code() != s.to.Cfg.MinRNRTimer {
			bad("RNR timer code should be %d", s.to.Cfg.MinRNRTimer)
		}
	case syn == wire.SynNAKSeq:
		if !s.away && (!s.gap || s.naked) {
			bad("a sequence error NAK needs a gap, and there is one NAK for each gap only")
		}
		s.naked, s.away = true, false
		if s.early != nil {
			s.early.dropped = 0
		}
	default:
		if syn != s.refused {
			bad("the NAK should be %v", s.refused)
		}
		s.refused = 0
	}
}

// reply returns the executed operation that a READ or atomic reply is for, and the number of the
// reply.
func (s *stream) reply(n uint64, bad func(string, ...any)) (o *op, k uint64) {
	o, k = s.locate(n)
	switch {
	case o == nil || !o.fetches() || k >= o.asked:
		bad("it replies to what was not asked")
		return nil, 0
	case k > o.answered:
		bad("replies before it are missing: PSN %d is next", s.psn(o.first+o.answered))
	case k == o.answered:
		if s.owed[0].op != o {
			bad("an earlier READ or atomic has not been answered yet")
			return nil, 0
		}
		if o.answered++; o.answered == s.owed[0].end {
			s.owed = s.owed[1:]
		}
	}
	return o, k
}

func (s *stream) readReply(n uint64, p *wire.Packet, bad func(string, ...any)) {
	o, k := s.reply(n, bad)
	if o == nil {
		return
	}
	fresh := k+1 == o.answered && n+1 > s.replied
	s.replied = max(s.replied, n+1)
	switch {
	case o.atomic():
		bad("the request was an atomic")
		return
	case o.syncing:
		bad("storage has not got what the FLUSH is about")
		return
	}
	from := min(int(k)*s.mtu, o.length)
	to := min(from+s.mtu, o.length)
	if len(p.Payload) != to-from {
		bad("payload should be %d bytes", to-from)
	} else if o.read() && o.length > 0 && !bytes.Equal(p.Payload,
		s.to.Node.span(s.to.Cfg.PD, o.wr.RKey, o.wr.RemoteAddr+uint64(from), to-from, 0)) {
		bad("payload is not what memory holds")
	}
	// With selective repeat a part may have been asked for again.
	if end, last := p.Op.Has(wire.OpEnd), k+1 == s.pieceEnd(o, k); end != last && (last || s.early == nil || fresh) {
		bad("LAST or ONLY is for the last reply only")
	}
	if k%s.piece(o) == 0 && !p.Op.Has(wire.OpStart) {
		bad("the first reply is FIRST or ONLY")
	}
}

func (s *stream) atomicReply(n uint64, p *wire.Packet, bad func(string, ...any)) {
	o, _ := s.reply(n, bad)
	if o == nil {
		return
	}
	if !o.atomic() || p.AtomicAckETH().Orig() != binary.NativeEndian.Uint64(o.result) {
		bad("the original value should be %#x", o.result)
	}
}
