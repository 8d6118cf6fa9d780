package main

// The defects of what the protocol is driven by, and of what is built on it.

// ofStack are those of ports, lanes, the verbs, connections and streams.
var ofStack = []mutant{
	{"who comes late takes a turn of a closed device", []string{
		"roce/internal/soft TestLatePoll", "roce/internal/soft TestLatePost"}, []edit{
		{"roce/internal/soft/lane.go", "	if l.closed {\n		l.turns.unlock()\n		return false\n	}\n",
			""}}},
	{"lingering: a poll stays however often it was in vain", []string{"roce TestLingerInVain"}, []edit{
		{"roce/internal/soft/linger.go", "			l.inVain()\n", ""}}},
	{"hub: connections of processes that go on are ended with the hub", []string{"roce/hub TestNewHub"}, []edit{
		{"roce/hub/process.go", "	a.wait(ctx, p, dead)\n", "	a.leave(p)\n"}}},
	{"hub: nobody tells the peers of a process that was killed", []string{"roce/hub TestKilled"}, []edit{
		{"roce/hub/ends.go", "range p.ledger.Estates() {", "range p.ledger.Estates()[:0] {"}}},
	{"hub: a process speaks for another", []string{"roce/hub TestRouter"}, []edit{
		{"roce/hub/router.go", "sender>>hub.SlotShift == uint32(p.slot))", "sender != 0)"}}},
	{"io.Copy hands out what the other end can still write", []string{"roce/rsocket TestCopyIsPrivate"}, []edit{
		{"roce/rsocket/read.go", "w.Write(chunk[:there])", "w.Write(c.receive[:there])"}}},
	{"Close of a stream is content when the connection below ends before all has arrived",
		[]string{"roce/rsocket TestCloseSaysWhatArrived"}, []edit{
			{"roce/rsocket/internal/stream/end.go", " && e.finished == e.begun {", " {"}}},
	{"datagrams go to the queue pair of a process that has ended, for ever",
		[]string{"roce/rsocket TestPacketPeerAnew"}, []edit{
			{"roce/rsocket/rail.go", " && now.Sub(d.asked) < p.again\n", "\n"}}},
	{"a datagram of a link-local address cannot be answered once it comes directly",
		[]string{"roce/rsocket TestPacketLinkLocal"}, []edit{{"roce/rsocket/rail.go", ".WithZone(r.zone)", ""}}},
	{"who reads waits for another call's Writer", []string{"roce/rsocket TestReadBesideCopy"}, []edit{
		{"roce/rsocket/read.go", "	switch n, err := w.Write(",
			"	c.reads.Lock()\n	defer c.reads.Unlock()\n	switch n, err := w.Write("}}},
	{"an entry of the target SGL is looked at twice", []string{"roce/rsocket/internal/stream TestHostileWorlds"},
		[]edit{
			{"roce/rsocket/internal/stream/send.go", "	if e.target.Length == 0 {\n",
				"	if readSGE(e.order, e.cfg.Tables[(e.taken-1)%Entries*SGESize:]).Length == 0 {\n"}}},
	{"Dial outlives its context while it takes leave of who is no rsocket",
		[]string{"roce/rsocket TestDialEnds"}, []edit{
			{"roce/rsocket/dial.go", "hangUp(ctx, below, c.lingers())",
				"hangUp(context.Background(), below, c.lingers())"}}},
	{"a deadline that ends the connection keeps Close from saying what is lost",
		[]string{"roce/rsocket TestCloseAfterDeadline"}, []edit{
			{"roce/rsocket/buffer.go", "cmp.Or(err, late); err", "cmp.Or(err, late, c.tell()); err"}}},
	{"who writes takes in what comes although his time is up", []string{"roce/rsocket TestLateWriter"}, []edit{
		{"roce/rsocket/wait.go", " && c.stopped(writing) == nil {", " {"}}},
	{"a Write of nothing knows no deadline", []string{"roce/rsocket TestErrors"}, []edit{
		{"roce/rsocket/write.go", "	for err = c.stopped(writing); left > 0 ", "	for ; left > 0 "}}},
	{"a write deadline does not count for who waits for his Buffer", []string{"roce/rsocket TestBufferDeadline"},
		[]edit{
			{"roce/rsocket/wait.go", ", s == owning && c.until[writing].passed:", ":"}}},
	{"the errors of Listen are not those of TCP", []string{"roce/rsocket TestListenErrors"}, []edit{
		{"roce/rdmacm/numbers.go", "{ return target == e.code }", "{ return false }"}}},
	{"the other lanes do not hear that their completion queue was overrun",
		[]string{"roce TestOverrunManyLanes"}, []edit{
			{"roce/internal/soft/cq.go", "		if q.Err() == nil {\n", "		if false {\n"}}},
	{"a busy poller leaves ACKs for ever", []string{"roce/internal/soft TestTurns"}, []edit{
		{"roce/internal/soft/drive/trust.go", "	if r.Overdue(t) {\n		return false\n	}\n", ""}}},
	{"a busy poller leaves NAKs and CNPs", []string{"roce/internal/soft TestTurns"}, []edit{
		{"roce/internal/soft/calls.go", "!l.engine.Idle() && !l.engine.Urgent()", "!l.engine.Idle()"}}},
	{"posts are held without a background", []string{"roce/internal/soft TestTurns"}, []edit{
		{"roce/internal/soft/drive/machine.go", "m.setMayHold(yes && m.trusting()",
			"m.setMayHold(yes && m.earned() && m.place() <= standsBy"}}},
	{"ACKs are left without a background", []string{"roce/internal/soft TestTurns"}, []edit{
		{"roce/internal/soft/drive/machine.go", "return m.trusting() && m.postpones(t)",
			"return m.earned() && m.place() <= standsBy && m.postpones(t)"}}},
	{"Connect ignores the rights after Init", []string{"roce TestConnectGrants"}, []edit{
		{"roce/connect.go", "		toRTR |= AttrAccessFlags\n", ""}}},
	{"a datagram may be longer than the port's MTU", []string{"roce TestPortMTU"}, []edit{
		{"roce/internal/soft/changes.go", "max(wire.MTUForNet(d.NetMTU(info)), wire.MTU256)", "wire.MTU4096"}}},
	{"completions of before RESET are seen after it", []string{"roce TestStaleCompletions"}, []edit{
		{"roce/internal/soft/qp.go", "			q.purge()\n", ""}}},
	{"relief: the background hears what the relief is woken by", []string{"transport/udp TestWatched/udp4/Packet"},
		[]edit{
			{"transport/internal/host/wait_linux.go", "		w.berths[transport.Background].hear(false)\n", ""}}},
	{"udp: the socket of a slot whose ports are closed leaves its place", []string{"transport/udp TestSlotEnds"},
		[]edit{{"transport/udp/slots_linux.go",
			"	return unix.FcntlInt(uintptr(s.FDs[row][lane]), unix.F_DUPFD_CLOEXEC, 0)\n",
			"	fd, s.FDs[row][lane] = s.FDs[row][lane], -1\n	return fd, nil\n"}}},
	{"udp: who opens a slot is told what was lost before", []string{"transport/udp TestSlotInheritsNoDrops"}, []edit{
		{"transport/udp/rows_linux.go", "		s.before = uint32(s.kernelDrops())\n", ""}}},
	{"udp: a batch leaves by the address of its first packet", []string{"transport/udp TestSlotSendsFromEachAddress"},
		[]edit{
			{"transport/udp/send_linux.go", "		if several && !frames[at]", "		if false && !frames[at]"}}},
	{"udp: the interface of a slot's first address is that of all",
		[]string{"transport/udp TestSlotsOfSeveralInterfaces"}, []edit{
			{"transport/udp/rows_linux.go",
				"	if !st.slot.given() {\n		return st.zone", "	if true {\n		return st.zone"}}},
	{"udp: what was last sent to an address says by which interface the next leaves",
		[]string{"transport/udp TestSlotsOfSeveralInterfaces"}, []edit{
			{"transport/udp/send_linux.go", "		clear(s.dsts)\n", ""}}},
	{"udp: a port to send from that somebody has at one address ends the open",
		[]string{"transport/udp TestSlotFindsAPort", "transport/udp TestLanesFindAPort"}, []edit{
			{"transport/udp/rows_linux.go", " && tries < portTries;", " && tries < 1;"}}},
	{"a run is for whoever is at an address", []string{"roce/conformance TestRunsStayWithinASlot",
		"roce/internal/soft TestRunsStayWithinALane"}, []edit{{"qp/sources.go", "	b.Toward(q.peerAt)\n", ""}}},
	{"queue pairs that have heard of no peer share a run", []string{"roce/internal/soft TestRunsStayWithinALane"},
		[]edit{{"qp/modify.go", "path, q.attr.DestQPN, false", "path, 0, false"}}},
	{"a run of datagrams is for whoever is at an address", []string{"roce/internal/soft TestDatagramRuns"},
		[]edit{{"qp/requester.go", "		b.Toward(s.remoteQPN)\n", ""}}},
	{"a packet that came to another process than its own goes no further", []string{"roce/hub TestStrays"}, []edit{
		{"roce/hub/router.go", "taken = to.SayFrame(f)", "taken = false"}}},
	{"a packet that came to another process than its own wakes nobody", []string{"roce/hub TestStrays"}, []edit{
		{"roce/internal/soft/stray.go", "	d.lanes[to].carryOut(d.lanes[to].drive.Mail())\n", ""}}},
	{"nobody is told of packets of another slot", []string{"roce/conformance TestForeign"}, []edit{
		{"roce/internal/soft/stray.go", "			l.showForeign(f)\n			continue\n", ""}}},
	{"a request that is made again says what lies now where the application had its data",
		[]string{"roce/rdmacm TestSmallerPort"}, []edit{
			{"roce/rdmacm/machineid.go", "append([]byte(nil), private...)", "private"}}},
	{"nobody is told that a request which Born knows was withdrawn", []string{"roce/rdmacm TestUnborn"}, []edit{
		{"roce/rdmacm/listen.go", "{ id.unheard() }", "{ id.Close() }"}}},
	{"who dials takes an ID away from who has it", []string{"roce/rdmacm TestBound"}, []edit{
		{"roce/rdmacm/dial.go", "	if id.parts {\n", "	if false {\n"}}},
	{"an ID of which nobody was told has events", []string{"roce/rdmacm TestUnbornHearsNothing"}, []edit{
		{"roce/rdmacm/id.go", "			e.ID.forgone.Store(true) //", "			//"}}},
	{"an interface by its number is another one", []string{"roce/rdmacm TestZoneByNumber"}, []edit{
		{"roce/rdmacm/resolve.go", "named(to.Addr().Unmap())", "to.Addr().Unmap()"}}},
	{"a link-local address is that of any interface", []string{"roce/rdmacm TestOpenOfZone"}, []edit{
		{"roce/rdmacm/devices.go", "!ok || !inZone(dev, addr) {\n		return nil, fmt.Errorf(\"%w: Config.Open",
			"!ok {\n		return nil, fmt.Errorf(\"%w: Config.Open"}}},
	{"time stands still when queue pair 1 has come to its end", []string{"roce/rdmacm TestQP1Ends"}, []edit{
		{"roce/rdmacm/machine.go", "			ready = nil\n", "			ready, next = nil, cm.Never\n"}}},
	{"who has lost queue pair 1 looks for what comes, without end", []string{"roce/rdmacm TestQP1Ends"}, []edit{
		{"roce/rdmacm/machine.go", "			ready = nil\n", ""}}},
	{"rdmacm has queue pair 1 of its own wherever the caller says it is", []string{"roce/conformance TestHub"}, []edit{
		{"roce/rdmacm/machine.go", "	case open != nil:", "	case false:"}}},
	{"rdmacm: where queue pair 1 is the first channel says, and others are not heard",
		[]string{"roce/rdmacm TestQP1IsSaidByAll"}, []edit{
			{"roce/rdmacm/devices.go", " || isKernel(dev) || ", " || true || "}}},
	{"rdmacm: who listens does not hear that queue pair 1 has come to its end",
		[]string{"roce/rdmacm TestQP1EndsForListeners"}, []edit{
			{"roce/rdmacm/machine.go", "				m.tellDeaf(err)\n", ""}}},
	{"any owner of an address has queue pair 1", []string{"roce/conformance TestQueuePairOneIsTheFirstSlots"}, []edit{
		{"qp/qp.go", "if e.cfg.QPNs.Value>>wire.OwnerShift != 0 {", "if false {"}}},
	{"udp: a flood to one address has every Recv, as long as it fills them",
		[]string{"transport/udp TestShareOfRows", "roce TestNeighbours/udp"}, []edit{
			{"transport/udp/recv_linux.go", "l.both && p.streak < maxStreak {", "l.both {"}}},
	{"udp: every Recv that looks at all begins with the first address", []string{"transport/udp TestShareOfRows"},
		[]edit{
			{"transport/udp/recv_linux.go", "		p.order.Gave(at, got)\n", ""}}},
	{"udp: several floods leave a Recv of eight to each other", []string{"transport/udp TestShareOfRows"}, []edit{
		{"transport/udp/recv_linux.go", "p.streak = maxStreak //", "p.streak = 0 //"}}},
	{"packet: frames to ourselves get what the ring leaves of a Recv",
		[]string{"transport/packet TestPort/packet4-lo/Share", "roce TestNeighbours/packet"}, []edit{
			{"transport/packet/recv_linux.go", "		r.order.Gave(source, got)\n", ""}}},
	{"runs pass the packets of a packet port that came alone before them", []string{
		"transport/packet TestOrder", "transport/packet TestNext"}, []edit{
		{"transport/packet/order_linux.go", "if shortAt < longAt {", "if shortAt < longAt && false {"}}},
	{"a packet that was copied late lets those pass that came after the ones behind it",
		[]string{"transport/packet TestNext"},
		[]edit{{"transport/packet/order_linux.go", "	ahead = 4\n", "	ahead = 1\n"}}},
	{"xdp: frames to ourselves get what the queues leave of a Recv", []string{"transport/xdp TestPort/xdp4/Share",
		"transport/xdp TestShareOfQueues", "roce TestNeighbours/xdp"}, []edit{
		{"transport/xdp/recv_linux.go", "		r.order.Gave(source, got)\n", ""}}},
	{"pipe: who sends first has all slots", []string{"transport/pipe TestPort/pipe/Share"}, []edit{
		{"transport/pipe/pipe.go", "free == 0 || len(p.claims) > 1 && c.held >= free", "free == 0"}}},
	{"rota: a Recv begins behind the last that gave something", []string{"transport/internal/rota TestShare"}, []edit{
		{"transport/internal/rota/rota.go", "frames > 0 && !r.begun", "frames > 0"}}},
	{"who captures changes who watches the port", []string{"roce/internal/soft TestReliefExchange/captured"}, []edit{
		{"transport/capture/capture.go", "{ return transport.SeatsOf(c.Port) }", "{ return nil }"}}},
	{"fault: the alarm of a delayed packet takes that of the lane", []string{"transport/fault TestDelayAlarm"}, []edit{
		{"transport/fault/seats.go", "	s.set() //", "	//"}}},
	{"relief: it leaves and keeps the port", []string{"transport/udp TestWatched/udp4/Leave"}, []edit{
		{"transport/internal/host/wait_linux.go", "		w.relieved = false\n", ""}}},
	{"a datagram to the number of groups is copied for every lane", []string{"roce/internal/soft TestHandRound"},
		[]edit{
			{"roce/internal/soft/stray.go", "lanes, own := l.dev.groups.lanesOf(f.Dst()), uint64(1)<<l.index\n",
				"lanes, own := uint64(1)<<len(l.dev.lanes)-1, uint64(1)<<l.index\n"}}},
	{"a port that has taken what it could not send has failed until the next packet",
		[]string{"roce TestPortFailsOneWay"}, []edit{
			{"roce/internal/soft/lane.go", "			if l.failing[outward] { //", "			if false { //"}}},
	{"a port fails both ways or none", []string{"roce TestPortFailsOneWay"}, []edit{
		{"roce/internal/soft/lane.go", "	failed := l.failing[inward] || l.failing[outward]\n",
			"	failed := err != nil\n"}}},
	{"the clock is never read again once the processor's counter stands still",
		[]string{"roce/internal/soft TestSameTime"}, []edit{
			{"roce/internal/soft/world.go", "return passed-1 < age-1", "return passed < age"}}},
	{"a second Close of a device does not wait for the first",
		[]string{"roce TestCloseTwice", "roce/rdmacm TestDeviceClosedTwice"}, []edit{
			{"roce/device.go", "	d.ending.Lock()\n	defer d.ending.Unlock()\n", ""}}},
	{"relief: the port changes hands without an alarm", []string{"roce/internal/soft TestReliefLeavesACK"}, []edit{
		{"roce/internal/soft/drive/machine.go", "		return m.announce(until, t)\n	}\n	return m.HandsOver",
			"		return CallNobody\n	}\n	return m.HandsOver"}}},
	{"relief: a background that gives way to it forgets what it has earned",
		[]string{"roce/internal/soft TestReliefKeepsTrust", "roce/internal/soft/drive TestTrustOfRelief"}, []edit{
			{"roce/internal/soft/drive/machine.go", "	if !m.Relieved() {\n		m.forget()\n	}\n",
				"	m.forget()\n"}}},
	{"relief: it leaves, and ends the lease of another poller", []string{"roce/internal/soft TestReliefLeavesLease",
		"roce/internal/soft/drive TestLeaseOfAnother"}, []edit{
		{"roce/internal/soft/drive/machine.go", "	return m.HandsOver(t)\n",
			"	m.StopsPolling()\n	return m.HandsOver(t)\n"}}},
	{"relief: it leaves without a look into the mailbox", []string{"roce/internal/soft TestReliefLeavesMail",
		"roce/internal/soft TestSteps/for_which_a_packet_strays"}, []edit{
		{"roce/internal/soft/relief.go", "	if l.mail.waiting() {", "	if false {"}}},
	{"relief: a completion that another turn makes wakes nobody", []string{"roce/internal/soft TestReliefWakes",
		"roce/internal/soft TestReliefTurnOfAnother"}, []edit{
		{"roce/internal/soft/wait.go", "	default:\n	}\n	c.sleepers.rouse()\n", "	default:\n	}\n"}}},
	{"relief: a post sets no alarm for who sleeps", []string{"roce/internal/soft TestReliefIsTold"}, []edit{
		{"roce/internal/soft/drive/machine.go",
			"			return m.setAlarm(at, t)\n		}\n		return CallNobody",
			"			return CallNobody\n		}\n		return CallNobody"}}},
	{"a queue says that it is armed after its rings are, when one may have rung",
		[]string{"roce/internal/soft TestSteps/polls_what_completes$"}, []edit{
			{"roce/internal/soft/cq.go", "	wanted  atomic.Bool", "	said    atomic.Bool\n	wanted  atomic.Bool"},
			{"roce/internal/soft/wait.go", "		q.ArmNow()\n	}\n",
				"		q.ArmNow()\n	}\n	c.said.Store(true)\n"},
			{"roce/internal/soft/wait.go", "	if c.wanted.Load() &&",
				"	c.said.Store(false)\n	if c.wanted.Load() &&"},
			{"roce/internal/soft/wait.go", "func (c *CQ) armedNow() bool {\n",
				"func (c *CQ) armedNow() bool {\n	if len(c.rings) > 0 {\n		return c.said.Load()\n	}\n"}}},
	{"who waits takes what another has asked for by ReqNotify for its own",
		[]string{"roce/internal/soft TestSteps/solicited"}, []edit{
			{"roce/internal/soft/wait.go", "|| !c.armedNow() }", "|| !c.armed() }"}}},
	{"a queue seems empty while a purge has its completions", []string{"roce/internal/soft TestSteps/takes_out"},
		[]edit{
			{"roce/internal/soft/cq.go", "	c.other.Store(true)\n	goes :=", "	goes :="}}},
	{"relief: it says that it sleeps when its turn is over", []string{"roce/internal/soft TestSteps/nobody_answers"},
		[]edit{
			{"roce/internal/soft/relief.go", "		if !more {\n" +
				"			l.carryOut(l.drive.Dozes(l.bedtime(t), t))\n		}\n		l.pause()\n",
				"		until := l.bedtime(t)\n		l.pause()\n		if !more {\n" +
					"			l.carryOut(l.drive.Dozes(until, t))\n		}\n"}}},
	{"relief: it says whom to wake when it has looked", []string{"roce/internal/soft TestSteps/closes_the_queue"},
		[]edit{
			{"roce/internal/soft/relief.go", "		l.relief.awaits.Store(s) // from here", "		// from here"},
			{"roce/internal/soft/relief.go", "		if !more {\n			l.carryOut(",
				"		l.relief.awaits.Store(s)\n		if !more {\n			l.carryOut("}}},
	{"relief: an event that another turn makes wakes nobody who waits for the channel",
		[]string{"roce/internal/soft TestSteps/one_waits_for_the_channel"}, []edit{
			{"roce/internal/soft/wait.go", "		if c.Channel != nil {\n			c.Channel.rouse()\n		}\n",
				""}}},
	{"relief: who waits for a channel sleeps on when it is closed", []string{"roce/internal/soft TestSteps/closes_it"},
		[]edit{
			{"roce/internal/soft/wait.go", "	ch.closed.Store(true)\n	ch.rouse()\n",
				"	ch.closed.Store(true)\n"}}},
	{"relief: a poll behind an event that was waited for means that the application polls on",
		[]string{"roce/internal/soft TestReliefExchangeByChannel"}, []edit{
			{"roce/internal/soft/cq.go", " || c.Channel != nil && c.dev.loop.Load() == loopWaited", ""}}},
	{"an event is no edge while another waits", []string{"roce TestEventFDEdges"}, []edit{
		{"roce/eventqueue.go", "	q.tell(true)\n", "	q.tell(false)\n"}}},
	{"relief: it goes to sleep with mail", []string{"roce/internal/soft TestSteps/one_waits,_a_packet_strays"}, []edit{
		{"roce/internal/soft/relief.go", "		if !more && !l.mail.waiting() {", "		if !more {"}}},
	{"background: it says that it sleeps when its turn is over",
		[]string{"roce/internal/soft TestSteps/one_posts_what_nobody_answers"}, []edit{
			{"roce/internal/soft/background.go", "	l.carryOut(l.drive.Parks(until, t))\n	l.release()\n",
				"	l.release()\n	l.carryOut(l.drive.Parks(until, t))\n"}}},
	{"an event is taken, and the token for the next one is not put back",
		[]string{"roce TestSteps/two_get", "roce TestSteps/selects"}, []edit{
			{"roce/eventqueue.go", "	e = q.queue[0]\n	q.queue = slices.Delete(q.queue, 0, 1)\n	if !q.closed {",
				"	e = q.queue[0]\n	q.queue = slices.Delete(q.queue, 0, 1)\n" +
					"	if !q.closed && len(q.queue) == 0 {"}}},
	{"rsocket: who has led tells nobody who waits beside", []string{"roce/rsocket TestSteps/comes_first"}, []edit{
		{"roce/rsocket/wait.go", "	c.tellBeside()\n}\n\n// look takes", "}\n\n// look takes"}}},
	{"rsocket: who hears that the other end ends both does not answer",
		[]string{"roce/rsocket TestLastACK", "roce/rsocket/internal/stream TestMoves"}, []edit{
			{"roce/rsocket/internal/stream/state.go",
				"gotDisconnect: {Disconnected, disconnect},\n		toldDisconnect: {Open",
				"gotDisconnect: {Disconnected, nothing},\n		toldDisconnect: {Open"},
			{"roce/rsocket/internal/stream/state.go",
				"gotDisconnect: {Disconnected, disconnect},\n		toldDisconnect: {WriteOnly",
				"gotDisconnect: {Disconnected, nothing},\n		toldDisconnect: {WriteOnly"}}},
	{"rsocket: when both ends have ended writing neither says that it disconnects",
		[]string{"roce/rsocket TestLastACK", "roce/rsocket/internal/stream TestMoves"}, []edit{
			{"roce/rsocket/internal/stream/state.go", "gotShutdown: {Closing, disconnect}",
				"gotShutdown: {Closing, nothing}"}}},
	{"rsocket: who has no more time does not hear what another has taken", []string{"roce/rsocket TestLookBeside"},
		[]edit{
			{"roce/rsocket/wait.go", "c.wait.turns + 2; c.wait.turns < upTo; {",
				"c.wait.turns + 2; !c.wait.leading && c.wait.turns < upTo; {"}}},
	{"rsocket: Close gives up before it has looked", []string{"roce/rsocket TestCloseInTime"}, []edit{
		{"roce/rsocket/conn.go", "		if c.look(ending); c.over() {", "		if c.over() {"}}},
	{"rsocket: a leader that sleeps does not hear of a deadline or of Close",
		[]string{"roce/rsocket TestSteps/one_sleeps,_one_sets"}, []edit{
			{"roce/rsocket/wait.go", "		c.wait.end()\n", "		_ = c.wait.end\n"}}},
	{"rsocket: what comes is not shown", []string{"roce/rsocket TestSteps/one_has_a_loop,_the_peer_writes"}, []edit{
		{"roce/rsocket/wait.go", "		}\n	}\n	c.show()\n}", "		}\n	}\n}"}}},
	{"rsocket: a call that leaves does not show what it leaves", []string{"roce/rsocket TestFDWriterInside"},
		[]edit{
			{"roce/rsocket/conn.go", "	c.show()\n	if c.users--", "	if c.users--"}}},
	{"rsocket: nobody takes what comes for a descriptor", []string{
		"roce/rsocket TestSteps/one_has_a_loop,_the_peer_closes"}, []edit{
		{"roce/rsocket/ready.go", "	if c.wait.watches {", "	if true {"}}},
	{"rsocket: what comes to what has not been read is no edge", []string{"roce/rsocket TestFDEdges"}, []edit{
		{"roce/rsocket/signs_linux.go", "(more || changed&Readable != 0)", "changed&Readable != 0"}}},
	{"rsocket: a TryWrite goes into the midst of another call's Write", []string{
		"roce/rsocket TestSteps/one_reads,_one_writes_more"}, []edit{
		{"roce/rsocket/try.go", "	if c.wait.writer {", "	if false {"}}},
	{"rsocket: a call that does not wait does not look either", []string{"roce/rsocket TestTry$"}, []edit{
		{"roce/rsocket/try.go", "		c.lead(reading, true)\n", ""}}},
	{"rsocket: the descriptor does not say what came of Connect", []string{"roce/rsocket TestSocketFD"}, []edit{
		{"roce/rsocket/socket.go", "			s.signs.show(s.decision(), false)\n		}\n		close(",
			"		}\n		close("}}},
	{"rsocket: what is written directly takes no room of the send buffer", []string{
		"roce/rsocket/internal/stream TestWorlds"}, []edit{
		{"roce/rsocket/internal/stream/iomap.go", "From: e.buffer(n), Length", "From: e.next, Length"}}},
	{"who accepts does not hear that the device is gone", []string{"roce/rdmacm TestGoneOneByOne"}, []edit{
		{"roce/rdmacm/listener.go", "		l.lose(e.Err)\n		l.ready.Put(nil)\n", "		l.lose(e.Err)\n"}}},
	{"rsocket: a descriptor that has hung up shows more", []string{"roce/rsocket TestFDFails"}, []edit{
		{"roce/rsocket/signs_linux.go", "		now |= Readable | Writable\n", ""}}},
	{"rsocket: who waits for a datagram does not hear of another deadline", []string{
		"roce/rsocket TestPacketDeadlineMoves"}, []edit{
		{"roce/rsocket/packet.go", "		r.end(errMoved)\n		r.off()\n", ""}}},
	{"rsocket: strangers' datagrams take all the memory there is", []string{"roce/rsocket TestPacketStrangers"},
		[]edit{{"roce/rsocket/packet.go", "p.asked < maxAsked", "p.asked >= 0"}}},
	{"rsocket: a datagram is whose it says", []string{"roce/rsocket TestPacketStrangers"}, []edit{
		{"roce/rsocket/rail.go", " || source.DGID.Addr() != from.Addr() {",
			" || !source.DGID.Addr().IsValid() {"}}},
	{"rsocket: what is sent by UDP is not asked for the queue pair", []string{"roce/rsocket TestPackets$"}, []edit{
		{"roce/rsocket/rail.go", "		d.qpn = qpn\n", "		_ = qpn\n"}}},
	{"who leaves Wait keeps the token", []string{"roce/internal/soft TestSteps/two_wait"}, []edit{
		{"roce/internal/soft/wait.go", "	if c.waiters.Add(-1) > 0 {\n		c.rouse()\n	}\n",
			"	c.waiters.Add(-1)\n"}}},
	{"a queue is closed and tells nobody", []string{"roce/internal/soft TestSteps/closes_the_queue"}, []edit{
		{"roce/internal/soft/cq.go", "	c.wanted.Store(false)\n	c.tell()\n", "	c.wanted.Store(false)\n"}}},
	{"a post that meets somebody else's turn is forgotten",
		[]string{"roce/internal/soft TestDrive$", "roce/internal/soft TestSteps/polls_what_completes$"}, []edit{
			{"roce/internal/soft/lane.go", "!l.engine.DoorbellPending() || ", "true || "}}},
	{"the background parks although an application's post is due", []string{"roce/internal/soft TestDrive$"}, []edit{
		{"roce/internal/soft/drive/machine.go", "	if int64(at) >= until {\n		return CallNobody\n	}\n",
			"	if until != 0 {\n		return CallNobody\n	}\n"}}},
	{"SRQ: completions go with their queue pair",
		[]string{"roce/conformance TestPipe/a_queue_pair_with_a_shared_receive_queue_is_closed"}, []edit{
			{"roce/internal/soft/cq.go", "!(keep && wc.Opcode", "!(false && wc.Opcode"}}},
	{"trace: the ICRC of InfiniBand with a GRH covers the LRH", []string{"trace TestNative"}, []edit{
		{"trace/rocev1.go", "		b = append(b, bytes.Repeat([]byte{0xff}, lrhLen)...)\n",
			"		b = append(b, bytes.Repeat([]byte{0xff}, lrhLen)...)\n		if p.Kind == InfiniBand {\n" +
				"			b = append(b[:0], p.Data[p.lrh:p.lrh+lrhLen]...)\n			b[0] |= 0xf0\n" +
				"		}\n"}}},
	{"trace: the ICRC of InfiniBand without a GRH covers eight ones", []string{"trace TestNative"}, []edit{
		{"trace/rocev1.go", "		b = append(b, p.Data[p.lrh:p.lrh+lrhLen]...)\n",
			"		b = append(append(b, bytes.Repeat([]byte{0xff}, 8)...), p.Data[p.lrh:p.lrh+lrhLen]...)\n"}}},
	{"trace analyze: who goes on behind an ACK has gone back once more, after silence",
		[]string{"trace/analysis TestAsRecorded", "trace/analysis TestWorlds"}, []edit{
			{"trace/analysis/request.go", "	on := q.back && psn == q.follows\n",
				"	on := q.back && psn == q.follows && q.times > 0\n"}}},
	{"trace analyze: what follows a packet that was sent again alone is never another retry",
		[]string{"trace/analysis TestWorlds"}, []edit{
			{"trace/analysis/request.go", "	late := on && q.waited(p.Time)\n",
				"	late := on && q.waited(p.Time) && false\n"}}},
	{"trace analyze: a READ that was sent again alone was not alone, as it has several packets",
		[]string{"trace/analysis TestTimeoutBehind"}, []edit{
			{"trace/analysis/request.go", "q.follows == q.alone &&", "q.follows == q.again.Next() &&"}}},
	{"trace analyze: the rest of a READ from before the path MTU was known is another READ",
		[]string{"trace/analysis TestUnknownMTU"}, []edit{
			{"trace/analysis/request.go", "	if !q.loose || f.PathMTU == 0 {", "	if true {"}}},
	{"trace serve: the token is a cookie, which goes to every port of this machine",
		[]string{"trace/page TestGate|TestOtherPorts"}, []edit{
			{"trace/page/site.go", "	w.Header().Set(\"Content-Type\", \"text/html; charset=utf-8\")\n",
				"	http.SetCookie(w, &http.Cookie{Name: \"roce\", Value: s.token, Path: \"/\", HttpOnly: true, " +
					"SameSite: http.SameSiteStrictMode})\n" +
					"	w.Header().Set(\"Content-Type\", \"text/html; charset=utf-8\")\n"}}},
	{"trace serve: packets are for whoever asks", []string{"trace/page TestGate"}, []edit{
		{"trace/page/site.go", "	if r.URL.Path == \"/\" || public[r.URL.Path] != nil {\n", "	if true {\n"}}},
	{"perf, pingpong: 64 MiB are kept of a peer that sends without being asked",
		[]string{"cmd/roce/internal/oob TestFloodEndsTheConnection"}, []edit{
			{"cmd/roce/internal/oob/oob.go", "const maxPending = 64 << 10\n", "const maxPending = 64 << 20\n"}}},
	{"perf, pingpong: a peer that floods has left, says the error",
		[]string{"cmd/roce/internal/oob TestFloodEndsTheConnection"}, []edit{
			{"cmd/roce/internal/oob/oob.go", "		if errors.Is(c.err, ErrClosed) { // nobody",
				"		if true { // nobody"}}},
	{"rping: a client's text is for the terminal to obey", []string{"cmd/roce/internal/rping TestClientsTextIsText"},
		[]edit{
			{"cmd/roce/internal/rping/rping.go", "trace.Printable(fmt.Sprintf(format, args...))",
				"trace.Printable(\"\")+fmt.Sprintf(format, args...)"}}},
	{"perf sockets: a server's words are for the terminal to obey",
		[]string{"cmd/roce/internal/costs TestServersWordsAreText"}, []edit{
			{"cmd/roce/internal/costs/control.go", "trace.Printable(r.Error)", "trace.Printable(\"\")+r.Error"}}},
	{"cm: a REP that comes again gets no RTU", []string{"cm TestSwarm"}, []edit{
		{"cm/state.go", "	{in(StateEstablished), gotREP, resend, stay},\n", ""}}},
	{"cm: a DREQ of nobody gets no answer", []string{"cm TestSwarm", "cm TestDREQOfNobody"}, []edit{
		{"cm/handle.go", "		m.sendTo(m.in.from, mad(m.in.tid, &wire.CMDrep{LocalCommID: dreq.RemoteCommID, " +
			"RemoteCommID: dreq.LocalCommID}))\n", ""}}},
	{"cm: DREQs that cross are no answer to each other", []string{"cm TestSwarm", "cm TestCrossingDREQs"}, []edit{
		{"cm/state.go", "	{in(StateDReqSent), gotDREQ, crossDREQ, StateTimeWait},\n", ""}}},
	{"cm: IDs of peers are never forgotten", []string{"cm TestSwarm"}, []edit{
		{"cm/machine.go", "	if m.byPeer[c.peer] == c {\n		delete(m.byPeer, c.peer)\n	}\n", ""}}},
	{"cm: a connection that is forgotten takes another's place among the peers' queue pairs",
		[]string{"cm TestSwarm"}, []edit{
			{"cm/machine.go", "	if q := c.peerQPN(); m.byQPN[q] == c {\n		delete(m.byQPN, q)\n	}\n",
				"	delete(m.byQPN, c.peerQPN())\n"}}},
	{"cm: a MRA gives no time", []string{"cm TestMRA"}, []edit{
		{"cm/act.go", "	c.service = min(span(m.in.service), c.patience-m.now)\n", ""}}},
	{"cm: MRAs give time for ever", []string{"cm TestMRAs"}, []edit{
		{"cm/handle.go", ", c.patience != 0 && m.now >= c.patience:", ":"},
		{"cm/act.go", "	if c.patience == 0 {\n", "	if true {\n"}}},
	{"cm: a REQ with a peer's queue pair ends its connection", []string{"cm TestSwarm", "cm TestBlindREQ"}, []edit{
		{"cm/state.go", "	{in(StateEstablished), peerForgot, probe, stay},\n",
			"	{in(StateEstablished), peerForgot, askDREQ, StateDReqSent},\n"}}},
	{"cm: a REQ with a peer's queue pair ends an attempt", []string{"cm TestBlindWhileMade"}, []edit{
		{"cm/state.go", "	{in(StateRepSent, StateMRARepRcvd), peerForgot, nothing, stay},\n",
			"	{in(StateRepSent, StateMRARepRcvd), peerForgot, askDREQ, StateDReqSent},\n"}}},
	{"cm: a REJ with the peer's ID alone ends a connection", []string{"cm TestSwarm", "cm TestBlindREJ"}, []edit{
		{"cm/handle.go", "c != nil && traits[c.state].owes == owesNobody", "false"}}},
	{"cm: a peer that says it knows nothing of a connection is not heard", []string{"cm TestReused"}, []edit{
		{"cm/state.go", "	{in(StateEstablished), gotDREP, beMissed, StateTimeWait},\n", ""}}},
	{"cm: a request that was rejected is forgotten at once", []string{"cm TestTable"}, []edit{
		{"cm/state.go", "	{in(StateReqRcvd, StateMRAReqSent), callReject, sendOnce, StateRefused},\n",
			"	{in(StateReqRcvd, StateMRAReqSent), callReject, sendOnce, StateIdle},\n"}}},
	{"cm: who has closed a connection is told of it still", []string{"cm TestSwarm", "cm TestCloseListener"}, []edit{
		{"cm/machine.go", "!ok || !e.conn().closed", "true"}}},
	{"cm: strangers are believed", []string{"cm TestStrangers"}, []edit{
		{"cm/handle.go", "	case c.path.Remote != m.in.from.Remote || c.path.Local != m.in.from.Local:\n" +
			"		m.drop(DropAddress)\n		return nil, true\n", ""}}},
	{"cm: whatever ID a peer says it is, it is believed", []string{"cm TestStrangers"}, []edit{
		{"cm/handle.go", "	case c.remoteID != 0 && local != c.remoteID:\n		return nil, false\n", ""}}},
	{"cm: a peer that uses its queue pair anew keeps the old connection", []string{"cm TestReused"}, []edit{
		{"cm/listen.go", "	m.refuseREQ(req, wire.CMRejStale)\n	m.step(c, peerForgot, nil)\n",
			"	m.refuseREQ(req, wire.CMRejStale)\n"}}},
	{"cm: a peer that uses its ID anew is taken for a copy", []string{"cm TestReused"}, []edit{
		{"cm/listen.go", "c.tid == m.in.tid && c.theirs.QPN == req.LocalQPN", "true"}}},
	{"cm: a REP from a queue pair that is in another connection is taken", []string{"cm TestStaleREP"}, []edit{
		{"cm/handle.go", "if other != nil { // the peer", "if false { // the peer"}}},
	{"cm: a place in the backlog is never given back", []string{"cm TestSwarm", "cm TestBacklog"}, []edit{
		{"cm/machine.go", "		c.asked.GiveBack()\n		c.asked = nil\n", "		c.asked = nil\n"}}},
	{"cm: who asks first has all places of a listener",
		[]string{"cm TestSwarm", "cm TestShares", "roce/rdmacm TestFlood"}, []edit{
			{"internal/fair/places.go", "most.n > has+1", "most.n > has+1<<20"}}},
	{"a listener's connections go to who asks first", []string{"roce/rdmacm TestPlaces"}, []edit{
		{"roce/rdmacm/listener.go", "	if other, ok := l.places.Gives(a.from); ok {\n",
			"	if other, ok := l.places.Gives(a.from); ok && false {\n"}}},
	{"connections to different peers need different ports", []string{"roce/rdmacm TestPortsByPeer"}, []edit{
		{"roce/rdmacm/resolve.go",
			"	if h.peer.IsValid() && o.peer.IsValid() && h.peer != o.peer {\n		return false\n	}\n", ""}}},
	{"a second Close of a listener does not wait for the first", []string{"roce/rdmacm TestListenerCloseTwice"}, []edit{
		{"roce/rdmacm/listener.go", "	l.closed.Do(func() { err = l.close() })\n	return err\n",
			"	if l.ctx.Err() != nil {\n		return nil\n	}\n	return l.close()\n"}}},
	{"a second Close of a connection waits whatever its context says", []string{"roce/rdmacm TestCloseTwice"}, []edit{
		{"roce/rdmacm/conn.go", "		case <-ctx.Done():\n			select {\n			case <-over:\n" +
			"			default:\n				return fail(\"Close\", ctx.Err())\n			}\n", ""}}},
	{"a listener asks for no place back", []string{"roce/rdmacm TestPlaces"}, []edit{
		{"roce/rdmacm/listener.go", "	a.at = l.halfOpen.PushBack(a)\n	a.place.Offer()\n",
			"	a.at = l.halfOpen.PushBack(a)\n"}}},
	{"a listener does not count who waits for a neighbour", []string{"roce/rdmacm TestNeighbourNotFound"}, []edit{
		{"roce/rdmacm/listener.go", "	l.mu.Lock()\n	a.since, a.end = time.Now(), end\n",
			"	err := a.id.acceptIn(ctx, param)\n	l.mu.Lock()\n	a.since, a.end = time.Now(), end\n"},
		{"roce/rdmacm/listener.go", "	err := a.id.acceptIn(ctx, param)\n	if err == nil {\n",
			"	if err == nil {\n"}}},
	{"a listener has no more requests than connections", []string{"roce/rdmacm TestBurst"}, []edit{
		{"roce/rdmacm/listener.go", "	minRequests    = 4096\n", "	minRequests    = 128\n"}}},
	{"queue pair 1 has room for a few", []string{"roce/rdmacm TestManyWait"}, []edit{
		{"roce/rdmacm/gsi.go", "	gsiRecvs  = 4096", "	gsiRecvs  = 256"}}},
	{"requests that are withdrawn fill the queue of events", []string{"roce/rdmacm TestWithdrawn"}, []edit{
		{"roce/rdmacm/id.go", "	if m.from == requested && id.untold() {",
			"	if false && m.from == requested && id.untold() {"}}},
	{"cm: whoever asks takes the place of another", []string{"cm TestShares", "internal/fair TestGives"}, []edit{
		{"internal/fair/places.go", "most.n > has+1", "most.n+has > 0"}}},
	{"cm: a /64 has as many shares as addresses", []string{"cm TestSharesOfNetworks"}, []edit{
		{"internal/fair/places.go", "	if address.Is4() {\n", "	if true {\n"}}},
	{"cm: all of a /64 have one share, whoever of them asks first", []string{"cm TestSharesOfNetworks"}, []edit{
		{"internal/fair/places.go", "		if s == nil {\n			break\n		}\n", "		break\n"}}},
	{"cm: half-open places are shared by what waits for the application", []string{"cm TestShares$"}, []edit{
		{"cm/listen.go", "		full = &l.open\n", ""}}},
	{"cm: a listener takes every request", []string{"cm TestSwarm", "cm TestBacklog", "cm TestFlood"}, []edit{
		{"cm/listen.go", "	if !l.admits(m.in.from.Remote) {", "	if false {"}}},
	{"cm: all that ends is remembered", []string{"cm TestSwarm", "cm TestMaxTimeWait"}, []edit{
		{"cm/machine.go", "		for m.held.Len() > m.cfg.MaxTimeWait {", "		for false {"}}},
	{"cm: a message is sent fifteen times, not sixteen", []string{"cm TestRetries"}, []edit{
		{"cm/machine.go", "c.tries > 0 {", "c.tries > 1 {"}}},
	{"cm: a RTU of nobody is ignored", []string{"cm TestREPAfterTheEnd"}, []edit{
		{"cm/handle.go", "		m.refuse(rtu.RemoteCommID, rtu.LocalCommID, wire.CMWhichOther, " +
			"wire.CMRejInvalidCommID)\n", ""}}},
	{"cm: a REP of nobody is ignored", []string{"cm TestSwarm", "cm TestREPAfterTheEnd"}, []edit{
		{"cm/handle.go", "		m.refuse(rep.RemoteCommID, rep.LocalCommID, wire.CMWhichREP, " +
			"wire.CMRejInvalidCommID)\n		return\n", "		return\n"}}},
	{"cm: a REJ without our ID finds nothing", []string{"cm TestWithdrawal"}, []edit{
		{"cm/handle.go", "rej.RemoteCommID == 0 && rej.Reason == wire.CMRejTimeout", "false"}}},
	{"cm: READs outstanding are what was asked for, not what the peer serves",
		[]string{"cm TestSwarm", "cm TestNegotiation"}, []edit{
			{"cm/negotiate.go", "MaxRdAtomic: min(own.InitiatorDepth, c.theirs.ResponderResources)",
				"MaxRdAtomic: own.InitiatorDepth"}}},
	{"cm: a DREP has the transaction ID of the REQ", []string{"cm TestVectors"}, []edit{
		{"cm/conn.go", "mad(c.dreqTID, &drep)", "mad(c.tid, &drep)"}}},
	{"cm: a REQ may name a third's address", []string{"cm TestREQIsJudged"}, []edit{
		{"cm/listen.go", "p.LocalGID != from.Remote || p.RemoteGID != from.Local", "p == nil"}}},
	{"cm: a request that the application does not answer keeps its peer's next ones out for ever",
		[]string{"cm TestBegunAnew"}, []edit{
			{"cm/listen.go", "m.now-c.repeated > c.linger+c.promised &&", "false &&"}}},
	{"cm: a peer that was told to wait has forgotten its request meanwhile", []string{"cm TestBegunAnew"}, []edit{
		{"cm/act.go", "max(c.promised, span(service)), c.m.now\n", "0, c.m.now\n"}}},
	{"cm: a peer that was told to wait is silent since before", []string{"cm TestStillAsking"}, []edit{
		{"cm/act.go", "max(c.promised, span(service)), c.m.now\n", "max(c.promised, span(service)), c.repeated\n"}}},
	{"cm: a peer heeds the last MRA", []string{"cm TestStillAsking"}, []edit{
		{"cm/act.go", "max(c.promised, span(service)), c.m.now\n", "span(service), c.m.now\n"}}},
	{"cm: all packets are under way as short as ours", []string{"cm TestStillAsking"}, []edit{
		{"cm/listen.go", "max(c.hold, 2*span(DefaultPacketLifetime))", "2*span(DefaultPacketLifetime)"}}},
	{"cm: each forged REQ has us ask the peer", []string{"cm TestProbes"}, []edit{
		{"cm/act.go", "c.probed != 0 && m.now-c.probed < c.timeout", "false"}}},
	{"rdmacm: who has waited longest goes first, whatever its share", []string{"roce/rdmacm TestTooLong"}, []edit{
		{"roce/rdmacm/listener.go", "a.place.AboveShare()", "a != nil"}}},
	{"fair: who has most and keeps it all shields who has nearly as many",
		[]string{"internal/fair TestGives", "internal/fair TestPlaces"}, []edit{
			{"internal/fair/places.go", "		p.counts(-1)\n", ""}}},
	{"fair: a part keeps the rank that it came with", []string{"internal/fair TestGivesAsTheModel"}, []edit{
		{"internal/fair/places.go", "		heap.Fix(ranks, s.rank)\n", ""}}},
	{"fair: who offers most gives a place up, and not who has most", []string{"internal/fair TestGivesAsTheModel"},
		[]edit{
			{"internal/fair/places.go", "r[i].n > r[j].n", "r[i].gives > r[j].gives"}}},
}
