package main

// The defects, each as the change that brings it back: those of the protocol here, those of what is
// built on it in stack.go.

import "slices"

// mutant is a defect.
type mutant struct {
	name  string
	tests []string // each finds it: a package and what -run takes
	edits []edit
}

// edit replaces a piece of a file that occurs there once.
type edit struct{ file, old, new string }

// lifeWorlds are the random worlds of package lives, and worlds those of package qptest.
const (
	lifeWorlds = "qp/qptest/lives TestLives"
	worlds     = "qp/qptest TestWorlds"
)

var mutants = slices.Concat(ofProtocol, ofStack)

// ofProtocol are those of packages wire, mr and qp.
var ofProtocol = []mutant{
	{"a datagram to a group comes to its first member only", []string{worlds, "qp/qptest TestMulticast"}, []edit{
		{"qp/datagram.go", "range members {", "range members[:1] {"}}},
	{"a queue pair that leaves one of its groups leaves all", []string{"roce/conformance TestPipe"}, []edit{
		{"qp/datagram.go", "	e.groups[g] = slices.Delete(e.groups[g], i, i+1)\n",
			"	e.groups[g] = slices.Delete(e.groups[g], i, i+1)\n	defer e.detachAll(q)\n"}}},
	{"everything is sent from row 0 of the GID table", []string{worlds}, []edit{
		{"qp/ah.go", "	src := e.cfg.GIDs[a.SGIDIndex]\n", "	src := e.cfg.GIDs[0]\n"}}},
	{"a datagram to another row than the first is dropped", []string{worlds}, []edit{
		{"qp/ah.go", "	for i := range e.cfg.GIDs {", "	for i := range e.cfg.GIDs[:1] {"}}},
	{"RESET keeps the starting PSN", []string{lifeWorlds, "roce TestStale"}, []edit{
		{"qp/qp.go", "		q.endLife()\n		e.drawStart(q)\n", "		q.endLife()\n"}}},
	{"UC: the rest of a message that was given up counts as malformed", []string{"qp/qptest TestUCGap"}, []edit{
		{"qp/responder.go", "		return wire.DropOutOfSequence, true\n	case d == 0:\n",
			"		return wire.DropMalformed, true\n	case d == 0:\n"}}},
	{"a new life begins anywhere", []string{"qp TestStartPSN"}, []edit{
		{"qp/qp.go", "		if q.isPast(psn) {", "		if true {"}}},
	{"memory gone: no probe for what is before a request that cannot be sent",
		[]string{lifeWorlds, "qp/qptest TestGoneBehind"}, []edit{
			{"qp/silence.go", " || q.stopped():", ":"}}},
	{"memory gone: a late ACK completes the request, the queue pair stays stopped",
		[]string{lifeWorlds, "qp/qptest TestGoneButArrived"}, []edit{
			{"qp/requester.go", "q.req.doomed > 0 && int32(q.req.next-q.req.stop) >= 0 }", "q.req.doomed > 0 }"},
			{"qp/completer.go", "		q.req.spare(i)\n", ""}}},
	{"memory gone: the request fails in the middle of what a response does", []string{"qp/qptest TestGoneAndAnswered"},
		[]edit{
			{"qp/completer.go", "	e.carryOut(q, d)\n	e.checkDrained(q)\n",
				"	e.carryOut(q, d)\n	e.failDoomed(q)\n	e.checkDrained(q)\n"}}},
	{"selective repeat: a NAK's PSN is that of its gap", []string{lifeWorlds, "qp/qptest TestSelectiveResponderAlone"},
		[]edit{
			{"qp/reply.go", "wire.SynNAKSeq, r.epsn, code)", "wire.SynNAKSeq, from, code)"}}},
	{"selective repeat: a READ is asked for again from its middle before its beginning has come",
		[]string{"qp/qptest TestSelectiveReadOnce"}, []edit{
			{"qp/gaps.go", "		s.widen(g, next)\n", ""}}},
	{"long window: what lies beyond a short one finds another's place", []string{"qp/qptest TestLongWindow$"},
		[]edit{
			{"qp/reorder.go", "	if long {\n		e.lengthen(r.kept)\n	}\n", ""}}},
	{"long window: a gap that takes two NAKs is named by its beginning only", []string{"qp/qptest TestLongWindow$"},
		[]edit{
			{"qp/reply.go", "		r.kept.reported = from.Add(uint32(n))\n",
				"		_, r.kept.reported = n, to\n"}}},
	{"long window: a responder remembers no more READs and atomics than with a short one",
		[]string{"qp/qptest TestLongDepth"}, []edit{
			{"qp/answers.go", "		return longDepth * int(a.MaxDestRdAtomic)\n",
				"		return int(a.MaxDestRdAtomic)\n"}}},
	{"long window: all that a window has room for leaves at once", []string{"qp TestSpread"}, []edit{
		{"qp/spread.go", "q.rec.window.nextAt <= e.now+spreadBurst*gap {", "true {"}}},
	{"answers: one that comes early is dropped", []string{"qp/qptest TestMissingReplies$"}, []edit{
		{"qp/answers.go", "	return q.placeOf(psn), wire.DropNone\n", "	return 0, wire.DropOutOfSequence\n"}}},
	{"answers: a missing one has the rest of its request sent again", []string{"qp/qptest TestMissingReplies$"}, []edit{
		{"qp/answers.go", "			return uint32(g.to.Sub(psn)) * q.mtu\n", ""}}},
	{"answers: one that is lost again is not missed", []string{"qp/qptest TestMissingRepliesLostAgain"}, []edit{
		{"qp/gaps.go", "			g.next = g.from\n			s.due++\n			n += ", "			n += "}}},
	{"answers: a late NAK has those forgotten that are missing", []string{"qp TestLateNAK"}, []edit{
		{"qp/goback.go", "case r.phase == phaseResting, psn != r.reached, ", "case r.phase == phaseResting, "}}},
	{"answers: a NAK that comes twice has all behind it sent twice", []string{"qp/qptest TestMissingRepliesGoBack"},
		[]edit{
			{"qp/goback.go", "	case psn == r.backTo && ", "	case false && "}}},
	{"answers: what an ACK said beyond a missing one is forgotten",
		[]string{"qp/qptest TestMissingRepliesLostAgain"}, []edit{
			{"qp/answers.go", "	if !answers {\n		r.gaps.came(r.reached, to)\n	}\n	r.reached = to\n",
				"	if !answers {\n		r.gaps.came(r.reached, to)\n		return false\n	}\n" +
					"	r.reached = to\n"}}},
	{"answers: max_rd_atomic counts those that are missing only", []string{worlds}, []edit{
		{"qp/answers.go", "	r := &q.rec\n	una, ok := r.arrived(psn)\n",
			"	r := &q.rec\n	if psn != r.una {\n		q.req.readsOut--\n	}\n" +
				"	una, ok := r.arrived(psn)\n"}}},
	{"replays: a part takes the place of another", []string{"qp TestReplayParts"}, []edit{
		{"qp/reply.go", "			j.left = uint32(done)\n			continue\n", "			*old = j\n"}}},
	{"window: a queue that overflows is no reason for a smaller one", []string{"qp TestWindowShares"}, []edit{
		{"qp/window.go", "	w.resize(max(w.size*7/10, leastShare))\n	return true\n", "	return true\n"}}},
	{"window: losses without a queue are congestion", []string{"qp TestWindowSelective"}, []edit{
		{"qp/window.go", "rare && w.queued <= noise+base/16", "rare && false"}}},
	{"window: each loss of a round trip cuts it", []string{"qp TestCutOnce"}, []edit{
		{"qp/recovery.go", "		r.cutTop = r.top\n", ""}}},
	{"window: a share that others have left stays one", []string{"qp TestWindowShares"}, []edit{
		{"qp/window.go", "		arrived *= max(int64(w.size)/8, 1)\n", ""}}},
	{"window: a queue that others keep full passes for one's own", []string{"qp TestWindowTries"}, []edit{
		{"qp/window.go", "rate > w.trial.before+w.trial.before/8", "false"}}},
	{"window: a share never grows as CUBIC does", []string{"qp TestWindowCubic"}, []edit{
		{"qp/window.go", "	n = max(n, min(w.cubic(at), w.size+w.size/2))\n", "	_ = w.cubic(at)\n"}}},
	{"round trip: a packet that is lost is measured by one behind it", []string{"qp TestRoundTripEnds"}, []edit{
		{"qp/recovery.go", "	case r.timed.Sub(lost) >= 0 && r.timed.Sub(end) < 0:\n		r.timed = noPSN\n", ""}}},
	{"round trip: a probe ends the measurement, so that none is ever made where probes are answered late",
		[]string{"qp/qptest TestNetworks"}, []edit{
			{"qp/silence.go", "	r.phase, r.probePSN, r.probeTop = phaseProbeSent, r.una, psn\n",
				"	r.phase, r.probePSN, r.probeTop = phaseProbeSent, r.una, psn\n	r.timed = noPSN\n"}}},
	{"round trip: one slower than the ack timeout is never measured", []string{"qp TestSlowPath"}, []edit{
		{"qp/roundtrip.go", "	case t.srtt == 0:\n", "	case false:\n"}}},
	{"round trip: an answer after probes makes the next one hurry", []string{"qp TestKeptBackoff"}, []edit{
		{"qp/recovery.go", "	r.backoff = min(r.backoff, keptBackoff)\n", "	r.backoff = 0\n"}}},
	{"credits are compared as if messages were not counted anew after 2^24", []string{"qp/qptest TestSwarm"}, []edit{
		{"qp/credits.go", "r.at(r.next).ssn.Sub(c.lsn) <= 1 ||", "r.at(r.next).ssn <= c.lsn+1 ||"}}},
	{"max_dest_rd_atomic changed in SQD forgets what is owed",
		[]string{lifeWorlds, "qp/qptest TestDepthChangesWhileOwed"}, []edit{
			{"qp/reply.go", "	r.depth = depth\n	old",
				"	r.depth, r.res, r.jobs, r.resNext = depth, nil, nil, 0\n	r.dropReplies()\n	old"}}},
	{"selective repeat keeps packets longer than the path MTU", []string{lifeWorlds, "qp/qptest TestKeepsNoJumbo"},
		[]edit{
			{"qp/reorder.go", "	if len(p.Payload) > int(q.mtu) {", "	if false {"}}},
	{"selective repeat: who comes first has all places for kept packets", []string{"qp/qptest TestKeptOfSources"},
		[]edit{
			{"qp/reorder.go", "!e.giveWay(share) {", "true {"}}},
	{"lingering: what others have executed before is taken for news", []string{"roce TestLingerCatchesUp"}, []edit{
		{"roce/internal/soft/linger.go", "	if n := silent - l.silent.Swap(silent); n > 0 {\n",
			"	if n := silent - l.silent.Load(); n > 0 {\n"}}},
	{"lingering: one pause of the peer ends it", []string{"roce/internal/soft TestLingersLonger"}, []edit{
		{"roce/internal/soft/linger.go",
			"l.saved.Add(min(took, l.most.Load()) / savedPart)", "l.saved.Add(took * 0)"}}},
	{"waiting: two who sleep only as each other sleeps never poll", []string{"roce/internal/soft TestTries"}, []edit{
		{"roce/internal/soft/wait.go", "case d < trySpin && s.tries.short.Add(-1) == 0:", "case false:"}}},
	{"events: nobody is told of what a goroutine in Wait leaves", []string{"roce TestEventFDOfTakers"}, []edit{
		{"roce/eventqueue.go", "	if q.takers--; !q.closed {\n", "	if q.takers--; false {\n"}}},
	{"READs: pieces are short also while nothing is lost", []string{"qp TestPieces"}, []edit{
		{"qp/answers.go", "	if w.smooth() {", "	if false {"}}},
	{"lingering: an atomic is no sign of a peer that works on memory", []string{"roce TestLinger"}, []edit{
		{"qp/responder.go", "(wire.OpWrite|wire.OpAtomic|wire.OpAtomicWrite)", "(wire.OpWrite|wire.OpAtomicWrite)"}}},
	{"selective repeat: a queue pair whose packets gave way is not told", []string{"qp/qptest TestKeptOfSources"},
		[]edit{
			{"qp/reorder.go", "		e.dropKept(q)\n		e.goBack(q, at)\n", "		e.dropKept(q)\n"}}},
	{"selective repeat: what gave way is not asked for behind what is still kept",
		[]string{"qp/qptest TestKeptOfSources"}, []edit{
			{"qp/reorder.go", "	q.resp.miss(at)\n", ""}}},
	{"selective repeat: a gap that no report names comes one packet a round trip",
		[]string{"qp/qptest TestLostReportOfMany", "qp/qptest TestGivenWayRounds"}, []edit{
			{"qp/gaps.go", "n = max(n, 2*s.guess)", "n = max(n, s.guess)"}}},
	{"selective repeat: what gave way is asked for though it has come again", []string{"qp/qptest TestGivenWayRounds"},
		[]edit{
			{"qp/reorder.go", "	case r.dropped.Sub(r.epsn) <= 0:\n", "	case false:\n"}}},
	{"selective repeat: what was not kept is forgotten with the NAK that is taken back",
		[]string{"qp TestMissedBehindNAKTakenBack", "qp/qptest TestRoomBehindRNR"}, []edit{
			{"qp/engine.go", "	if q.resp.missed {\n		e.recall(q)\n	}\n", ""}}},
	{"selective repeat: a NAK of all passes for an echo of the gap that was repeated",
		[]string{"qp TestMissedIsNews"}, []edit{
			{"qp/goback.go", "r.retry(now, !r.whole)", "r.retry(now, false)"}}},
	{"selective repeat: a gap that is named alone still stands for all", []string{"qp TestGivesWayTwice"}, []edit{
		{"qp/absence.go", "		whenNoRoom:    {absentAsked, false},\n" +
			"		whenKept:      {absentUnnoticed, false},\n",
			"		whenNoRoom:    {absentAsked, false},\n		whenKept:      {absentAsked, false},\n"}}},
	{"selective repeat: what was asked for comes, and is asked for still",
		[]string{"qp TestGivesWayBeforeNamed"}, []edit{
			{"qp/reorder.go", "	if q.resp.nak == 0 { // if all was asked for, it comes\n" +
				"		q.resp.notice(whenKept)\n	}\n", ""}}},
	{"selective repeat: a READ is asked for from its middle too, as that was a gap of its own",
		[]string{"qp TestGapsWiden"}, []edit{
			{"qp/gaps.go", "s.list[n].to.Sub(to) <= 0 {", "false {"},
			{"qp/gaps.go", "i < len(s.list) && s.list[i].from.Sub(to) < 0 {", "false {"}}},
	{"selective repeat: what gave way still counts as kept", []string{"qp/qptest TestCrowd"}, []edit{
		{"qp/reorder.go", "	s.high = at.Add(s.at(at).psns)\n", ""}}},
	{"selective repeat: who is below its share gives way", []string{"qp/qptest TestCrowd"}, []edit{
		{"qp/reorder.go", "s.places > share {", "s.places > 0 {"}}},
	{"selective repeat: a READ that is asked for with all behind it is also reported from its middle",
		[]string{"qp/qptest TestSelectiveTooFar"}, []edit{
			{"qp/reorder.go", "(r.absent == absentReported || r.absent == absentPostponed)",
				"r.absent != absentUnnoticed"}}},
	{"selective repeat: a kept packet that ends the queue pair has no source any more", []string{worlds}, []edit{
		{"qp/reorder.go", "		e.giveBody(body, of)\n", "		e.giveBody(body, s.of)\n"},
		{"qp/reorder.go", "		body, of := k.body, s.of\n", "		body := k.body\n"}}},
	{"a connection takes packets from any address", []string{worlds, lifeWorlds}, []edit{
		{"qp/engine.go", "	if q.away || !p.Frame.From(&q.path.Dst) ||", "	if q.away ||"}}},
	{"messages that never end hold all requests of a shared receive queue",
		[]string{worlds, "qp/qptest TestReceivesOfSources"}, []edit{
			{"qp/srq.go", "if over = by != nil && s.first != nil &&",
				"if over = by != nil && s.first != nil && false &&"}}},
	{"a shared receive queue counts requests as held that have been given back",
		[]string{worlds, "qp/qptest TestReceivesOfReset"}, []edit{
			{"qp/srq.go", "	s.letGo(slot)\n	if slot.next = s.first;", "	if slot.next = s.first;"}}},
	{"a shared receive queue counts requests as held that have completed",
		[]string{worlds, "qp/qptest TestReceivesOfReset"}, []edit{
			{"qp/srq.go", "	s.letGo(slot)\n	slot.next, s.spare", "	slot.next, s.spare"}}},
	{"a shared receive queue keeps no share for a peer that is to come", []string{"qp/qptest TestReceivesOfLatecomer"},
		[]edit{
			{"qp/srq.go", "uint32(len(s.sharers)) + 1", "uint32(len(s.sharers))"}}},
	{"a shared receive queue counts peers that have gone", []string{"qp TestXRCSharers"}, []edit{
		{"qp/sources.go", "		e.eachShared(q, func(s *SRQ) { s.leave(old.gid) })\n", ""}}},
	{"XRC: a shared receive queue does not know the peers that were there before it",
		[]string{"qp TestXRCSharers"}, []edit{
			{"qp/xrc.go", "			s.join(q.source.gid)\n", ""}}},
	{"selective repeat: the stores of kept packets count for nothing", []string{"qp TestStoresTakePlaces"}, []edit{
		{"qp/reorder.go", "	e.count(s.of, storePlaces)\n", "	e.count(s.of, 0)\n"}}},
	{"a READ's key is not checked again for each reply", []string{lifeWorlds}, []edit{
		{"mr/access.go", "	e := t.lookup(rkey)\n	if e == nil {\n", "	e := t.lookup(rkey)\n" +
			"	if e == nil && need == RemoteRead && n > 0 {\n		return Span{mem: make([]byte, n)}, OK\n	}\n" +
			"	if e == nil {\n"}}},
	{"a window obeys every queue pair", []string{lifeWorlds}, []edit{
		{"mr/window.go", "	case e.qpn != qpn:\n		return BadAccess\n	}\n	return OK\n",
			"	}\n	return OK\n"}}},
	{"Modify(ERR) of a queue pair that has failed by itself leaves the replies that it owes",
		[]string{lifeWorlds, "qp/qptest TestTakenBack", "roce TestTakenBack"}, []edit{
			{"qp/modify.go", "		q.resp.dropReplies() // also those of one that has failed by itself " +
				"(section 7.7)\n", ""}}},
	{"a READ that is repeated or owed needs no right of the queue pair",
		[]string{lifeWorlds, "qp/qptest TestTakenBack"}, []edit{
			{"qp/reply.go", "		if q.attr.AccessFlags&mr.RemoteRead == 0 {\n			st = mr.BadAccess\n" +
				"		}\n", ""}}},
	{"a window of type 2 outlives RESET", []string{lifeWorlds, "qp/qptest TestWindowEndsWithLife"}, []edit{
		{"qp/qp.go", "	e.cfg.Memory.InvalidateAll(q.qpn) // what was opened to this peer is not for the next\n",
			""}}},
	{"a window of type 2 outlives its queue pair", []string{lifeWorlds, "qp/qptest TestWindowEndsWithLife"}, []edit{
		{"qp/qp.go", "	e.cfg.Memory.InvalidateAll(q.qpn)\n	e.qps", "	e.qps"}}},
	{"the old key of a region that was registered again still opens what it did", []string{lifeWorlds}, []edit{
		{"mr/reregister.go", "		t.remove(old)\n", "		_ = old\n"}}},
	{"a null region registered again is the address space", []string{"mr TestNullRegion"}, []edit{
		{"mr/reregister.go", "	if old.null {", "	if false {"}}},
	{"a window that was invalidated still opens what it did", []string{lifeWorlds, "qp/qptest TestTakenBack"}, []edit{
		{"mr/window.go", "	t.free(e)\n", "	_ = e\n"}}},
	{"a window of type 1 that is unbound still opens what it did", []string{lifeWorlds, "qp/qptest TestTakenBack"},
		[]edit{
			{"mr/window.go", "		t.republish(w, &entry{key: b.NewKey, pd: pd, kind: kindFreeWindow, window: w})\n",
				""}}},
	{"a region that was deregistered still opens what it did", []string{lifeWorlds, "qp/qptest TestTakenBack"}, []edit{
		{"mr/table.go", "	t.remove(r.entry)\n", ""}}},
	{"a window of type 1 that was bound elsewhere while a lane read by it", []string{"mr TestWindowOfType1"}, []edit{
		{"mr/access.go", "		span.by = e\n", ""}}},
	{"where a queue pair is stopped is the newest of the requests that cannot be sent",
		[]string{"qp TestStopped"}, []edit{
			{"qp/requester.go", "	if r.doomed == 0 || int32(r.next-r.stop) < 0 {", "	if true {"}}},
	{"a duplicate atomic is executed again", []string{lifeWorlds}, []edit{
		{"qp/responder.go", "		return e.duplicate(q, p), true\n", "		if p.Op.Flags&wire.OpAtomic != 0 {\n" +
			"			_ = e.execute(q, p)\n		}\n		return e.duplicate(q, p), true\n"}}},
	{"an atomic that is repeated is answered with the result of one with the same PSN, 16 million packets ago",
		[]string{"qp TestReplayAfterRound"}, []edit{
			{"qp/reply.go", "		i := r.resNext - 1 - n\n", "		i := n\n"}}},
	{"queue pairs take turns to send, whoever they are connected to", []string{"qp/qptest TestTurnsOfSources"}, []edit{
		{"qp/sources.go", "	if q.source.gid == gid {\n", "	if q.source != nil {\n"}}},
	{"a turn to send begins anew with each batch", []string{"qp/qptest TestTurnsOfSources"}, []edit{
		{"qp/sources.go", "	for ; e.line.had < quantum;", "	for e.line.had = 0; e.line.had < quantum;"}}},
	{"a moderated queue waits for one completion more", []string{lifeWorlds}, []edit{
		{"qp/cq.go", "	return c.held >= c.enough ||", "	return c.held > c.enough ||"}}},
	{"who has asked once for the event of a drained send queue is told each time", []string{lifeWorlds}, []edit{
		{"qp/modify.go", "		q.attr.EnSQDAsyncNotify = false", "		_ = q.attr.EnSQDAsyncNotify"}}},
	{"a FLUSH is answered before storage has the data", []string{"qp/qptest TestWorlds", "qp/qptest TestFlushWaits"},
		[]edit{
			{"qp/reply.go", "	case r.jobLen > 0 && r.jobAt(0).sync != 0:\n" +
				"		return e.replyNotYet(q, b, r.jobAt(0))\n", ""}}},
	{"a peer that repeats a FLUSH is not told to wait", []string{"qp/qptest TestFlushTakesLong"}, []edit{
		{"qp/flush.go", "	r.jobAt(0).asked = true\n", ""}}},
	{"a peer that repeats a FLUSH is told to wait for what comes behind",
		[]string{"qp/qptest TestWorlds", "qp/qptest TestFlushTakesLong"}, []edit{
			{"qp/flush.go", "j.start, q.resp.msn)", "j.start.Next(), q.resp.msn)"}}},
	{"a FLUSH of memory that was given away succeeds", []string{"qp/qptest TestFlushOfOthers"}, []edit{
		{"qp/flush.go", "	ok = ok && !s.mapping.Gone()\n", ""}}},
	{"datagrams go by the MTU that the port had when it was opened",
		[]string{"qp/qptest TestMTUChanges", "roce TestPipeEvents"}, []edit{
			{"qp/datagram.go", "q.attr.PathMTU, q.mtu = m, uint32(m.Bytes())", "q.attr.PathMTU = m"}}},
	{"a datagram that has begun goes by the MTU of then", []string{"qp/qptest TestMTUChanges"}, []edit{
		{"qp/requester.go", "		if s.length > q.mtu { //", "		if false { //"}}},
	{"a peer takes all of storage", []string{"qp/qptest TestFlushShare"}, []edit{
		{"qp/flush.go", "from.begun >= most-most/2", "false"}}},
	{"a peer's queue pairs each have a turn at storage before the next peer has one",
		[]string{"qp/qptest TestStorageTurns"}, []edit{
			{"qp/flush.go", "		s.turns.MoveToBack(turn)\n", ""}}},
	{"what waits for its turn at storage outlives its queue pair",
		[]string{"qp/qptest TestStorageForgets", "roce TestFlushesOfClosed"}, []edit{
			{"qp/flush.go", "	l.at.lock()\n	defer l.at.unlock()\n",
				"	if true {\n		return\n	}\n	l.at.lock()\n	defer l.at.unlock()\n"}}},
	{"an ATOMIC WRITE passes a FLUSH", []string{"qp/qptest TestWorlds", "qp/qptest TestAtomicWriteBehindFlush"}, []edit{
		{"qp/flush.go", "		return r.syncing > 0\n", "		return false\n"}}},
	{"a queue pair that is destroyed answers a FLUSH", []string{"qp/qptest TestFlushOutlived"}, []edit{
		{"qp/qp.go", "	q.resp.dropReplies() // one may still wait for storage\n", ""}}},
	{"a window of type 1 is the region's for ever", []string{"mr TestWindowOfType1"}, []edit{
		{"mr/window.go", "	t.unbind(w, old)\n	if w.typ == Window2 {", "	if w.typ == Window2 {"}}},
	{"an overrun completion queue fails nobody", []string{lifeWorlds}, []edit{
		{"qp/engine.go", "		e.failUsers(c)\n", ""}}},
	{"a queue pair that comes to an overrun completion queue later never fails",
		[]string{"qp/qptest TestOverrunLater"}, []edit{
			{"qp/engine.go", "			e.raise(Event{Type: EventCQErr, CQ: c})\n		}\n		e.failUsers(c)\n",
				"			e.raise(Event{Type: EventCQErr, CQ: c})\n			e.failUsers(c)\n		}\n"}}},
	{"a completion queue forgets where its ring begins when it is resized",
		[]string{lifeWorlds, "qp/qptest TestResizeCQ"}, []edit{
			{"qp/cq.go", "		c.ring[i&c.mask] = ring[i&mask]\n",
				"		c.ring[(i-first)&c.mask] = ring[i&mask]\n"}}},
	{"completions go on behind one that is lost", []string{"qp/qptest TestNothingBehindOverrun"}, []edit{
		{"qp/cq.go", " > c.mask || c.overrun.Load() {", " > c.mask {"}}},
	{"a notification that is held back is forgotten", []string{"qp/qptest TestModeration"}, []edit{
		{"qp/engine.go", "	if e.tellAt <= now {\n		e.tellHeld()\n	}\n", ""}}},
	{"nobody wakes up for a notification that is held back", []string{"qp/qptest TestModeration"}, []edit{
		{"qp/engine.go", "return min(e.timers.next(), e.tellAt)", "return e.timers.next()"}}},
	{"a list of requests that is refused is posted in part", []string{lifeWorlds, "roce TestBuiltWrongly"}, []edit{
		{"qp/wr.go", "(err == nil || !all)", "true"}}},
	{"a user's rate limit is heard of, not obeyed", []string{"qp/qptest TestWorlds", "qp TestCeiling"}, []edit{
		{"qp/rate.go", "	if !r.paced || r.sendAt <= e.now {", "	if !r.limited || r.sendAt <= e.now {"}}},
	{"at a low rate nobody asks for ACKs in time", []string{"qp/qptest TestRateIsNoSilence"}, []edit{
		{"qp/ask.go", " || q.rate.takes(uint32(r.unasked)*q.mtu) >= minProbe", ""}}},
	{"DestroyQP flushes", []string{lifeWorlds}, []edit{
		{"qp/qp.go", "	e.detachAll(q)\n	e.dropKept(q)\n	q.putBack()\n",
			"	e.flushSends(q)\n	e.detachAll(q)\n	e.dropKept(q)\n	q.putBack()\n"}}},
	{"NICs: M must be 0", []string{worlds}, []edit{
		{"qp/engine.go", "		return e.cnp(q, p)\n	}\n",
			"		return e.cnp(q, p)\n	}\n	if p.BTH.MigReq() {\n		return wire.DropMalformed\n	}\n"}}},
	{"NICs: source ports are 1024 or more", []string{worlds}, []edit{
		{"qp/engine.go", "		return e.cnp(q, p)\n	}\n", "		return e.cnp(q, p)\n	}\n" +
			"	if f.SrcPort() < 1024 {\n		return wire.DropMalformed\n	}\n"}}},
	{"NICs: reserved bits must be 0", []string{worlds}, []edit{
		{"qp/engine.go", "		return e.cnp(q, p)\n	}\n", "		return e.cnp(q, p)\n	}\n" +
			"	if p.Body[8]&0x7f != 0 {\n		return wire.DropMalformed\n	}\n"}}},
	{"NICs: an ACK with credits is none", []string{worlds}, []edit{
		{"qp/completer.go", "	case wire.KindACK:\n		e.ackThrough(q, psn)\n",
			"	case wire.KindACK:\n		if syn != wire.SynACK {\n			return wire.DropMalformed\n" +
				"		}\n		e.ackThrough(q, psn)\n"}}},
	{"NICs: a socket's packets have the Identification 0", []string{worlds}, []edit{
		{"wire/icrc.go", "	return ok && fragment == DontFragment\n",
			"	return false && ok && fragment == DontFragment\n"}}},
	{"NICs: every repeated NAK uses up a retry", []string{worlds}, []edit{
		{"qp/goback.go", " again && !news && (r.base == 0 ||", " false && (r.base == 0 ||"},
		{"qp/goback.go", "	if !again || now", "	if true || !again || now"}}},
	{"credits are not obeyed", []string{worlds, "qp/qptest TestCredits$"}, []edit{
		{"qp/credits.go", "credits.stage == creditsLimited && q.beyondCredit()",
			"credits.stage > creditsUnlimited && q.beyondCredit()"}}},
	{"credits: no message goes to ask for more", []string{worlds, "qp/qptest TestCredits$"}, []edit{
		{"qp/credits.go", " || q.rec.psn == q.rec.una || r.at(r.next).ssn.Sub(c.lsn) <= 1 ||",
			" || r.at(r.next).ssn.Sub(c.lsn) <= 0 ||"}}},
	{"credits: a READ in pieces counts as one message", []string{"qp/qptest TestCreditsCountMessages"}, []edit{
		{"qp/credits.go", "		n = (s.length-1)/q.pieceLen(w) + 1\n", ""}}},
	{"credits: a late ACK takes some back", []string{"qp/qptest TestCredits$"}, []edit{
		{"qp/credits.go", " && lsn.Sub(c.lsn) > 0:", ":"}}},
	{"an address handle of another device will do", []string{"roce TestForeignHandle"}, []edit{
		{"qp/wr.go", "wr.AH.mem != q.mem", "false"}}},
	{"a queue looks whether it is armed before it shows its completions",
		[]string{"roce/internal/soft TestSteps/polls_what_completes$", "roce/internal/soft TestSteps/one_hears"},
		[]edit{
			{"qp/cq.go", "	c.published.Store(c.staged)\n",
				"	armed := c.armed.Load()\n	c.published.Store(c.staged)\n"},
			{"qp/cq.go", "	}\n	armed := c.armed.Load()\n	notify = c.fresh", "	}\n	notify = c.fresh"}}},
	{"SRQ: a request that came to nothing goes to the end", []string{worlds}, []edit{
		{"qp/srq.go", "	if slot.next = s.first; s.first == nil {\n		s.last = slot\n	}\n" +
			"	s.first = slot\n", "	if slot.next = nil; s.last == nil {\n		s.first = slot\n	} else {\n" +
			"		s.last.next = slot\n	}\n	s.last = slot\n"}}},
	{"SRQ: RESET takes a request with it", []string{worlds, lifeWorlds}, []edit{
		{"qp/qp.go", "	q.putBack()\n	if q.rq != nil {\n", "	if q.rq != nil {\n"}}},
	{"SRQ: the end of a queue pair takes a request with it", []string{worlds, lifeWorlds}, []edit{
		{"qp/qp.go", "	q.putBack()\n	e.unschedule(q)\n", "	e.unschedule(q)\n"}}},
	{"SRQ: the limit is reached too early", []string{worlds}, []edit{
		{"qp/srq.go", "	low := s.posted < s.limit\n", "	low := s.posted <= s.limit && s.limit > 0\n"}}},
	{"SRQ: the limit stays armed", []string{worlds}, []edit{
		{"qp/srq.go", "	if low {\n		s.limit = 0\n	}\n", ""}}},
	{"SRQ: a failed queue pair keeps its request", []string{worlds, lifeWorlds}, []edit{
		{"qp/receives.go", "			e.endReceive(q, &WC{Status: WCWRFlushErr, Opcode: WCRecv}, false)\n" +
			"		}\n		q.abandon()\n",
			"			q.resp.recv = receive{}\n		}\n		q.abandon()\n"}}},
	{"SRQ: a slot is spare before its request is over", []string{worlds}, []edit{
		{"qp/receives.go", "		q.resp.recv = receive{claimed: slot != nil, shared: slot}\n",
			"		q.resp.recv = receive{claimed: slot != nil, shared: slot}\n		if slot != nil {\n" +
				"			copied := *slot\n			q.resp.recv.shared = &copied\n			s.release(slot)\n" +
				"		}\n"}}},
	{"SRQ: a queue pair that fails says nothing", []string{worlds, lifeWorlds}, []edit{
		{"qp/qp.go", "		e.raise(Event{Type: EventQPLastWQE, QP: q})\n", ""}}},
	{"XRC: shared receive queues of other domains are found too", []string{worlds, "roce/conformance TestPipe/XRC"},
		[]edit{
			{"qp/xrc.go", "	case !ok || t.srq.xrcd != q.xrcd:", "	case !ok:"}}},
	{"XRC: a queue pair stays with the first shared receive queue", []string{worlds, "roce/conformance TestPipe/XRC"},
		[]edit{
			{"qp/xrc.go", "	case t.srq != q.srq && q.resp",
				"	case q.srq != nil:\n	case t.srq != q.srq && q.resp"}}},
	{"XRC: a READ is answered from the protection domain of the request at hand", []string{lifeWorlds}, []edit{
		{"qp/reply.go", "Remote(j.pd, q.qpn, j.rkey", "Remote(q.pd, q.qpn, j.rkey"}}},
	{"XRC: a message goes on into a shared receive queue that is no more", []string{lifeWorlds}, []edit{
		{"qp/xrc.go", "			q.putBack()\n			q.srq, q.recvCQ = nil, nil\n", ""}}},
}
