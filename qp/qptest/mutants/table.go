package main

// The defects, each as the change that brings it back.

// mutant is a defect.
type mutant struct {
	name  string
	tests []string // arguments of go test
	edits []edit
}

// edit replaces a piece of a file that occurs there once.
type edit struct{ file, old, new string }

// worldsOf is the folder of the package of random worlds; the flag that says how many has the package's name.
const worldsOf = "./qp/qptest/lives"

var lives = []string{worldsOf, "-run=TestLives"}

var mutants = []mutant{
	{"RESET keeps the starting PSN", lives, []edit{
		{"qp/qp.go", "	q.setState(StateReset)\n	e.drawStart(q)\n", "	q.setState(StateReset)\n"}}},
	{"memory gone: a late ACK completes the request, the queue pair stays stopped", lives, []edit{
		{"qp/requester.go", "	if r.doomed == 0 {\n		return false\n	}\n	for i", "	if r.doomed > 0 {\n		return true\n	}\n	for i"},
		{"qp/completer.go", "		q.req.doomed--\n", ""}}},
	{"memory gone: the request fails in the middle of what a response does", lives, []edit{
		{"qp/completer.go", "	e.recovered(now, q)\n", "	e.recovered(now, q)\n	e.failDoomed(q)\n"}}},
	{"memory gone: one slot for what cannot be sent, the second request takes it from the first", lives, []edit{
		{"qp/requester.go", "	w := q.req.at(q.req.next)\n	if w.status", "	w := q.req.at(q.req.next)\n	for i := range q.req.wqes {\n		q.req.wqes[i].status, q.req.doomed = WCSuccess, 0\n	}\n	if w.status"}}},
	{"selective repeat: a NAK's PSN is that of its gap", lives, []edit{
		{"qp/reply.go", "wire.SynNAKSeq, r.epsn, gapCode", "wire.SynNAKSeq, from, gapCode"}}},
	{"max_dest_rd_atomic changed in SQD forgets what is owed", lives, []edit{
		{"qp/reply.go", "	r.depth = depth\n	old", "	r.depth, r.res, r.jobs, r.resNext = depth, nil, nil, 0\n	r.dropReplies()\n	old"}}},
	{"selective repeat keeps packets longer than the path MTU", lives, []edit{
		{"qp/reorder.go", "	if len(p.Payload) > int(q.mtu) {", "	if false {"}}},
	{"a READ's key is not checked again for each reply", lives, []edit{
		{"mr/access.go", "	e := t.lookup(rkey)\n	if e == nil {\n", "	e := t.lookup(rkey)\n	if e == nil && need == RemoteRead && n > 0 {\n		return Span{make([]byte, n)}, OK\n	}\n	if e == nil {\n"}}},
	{"a window obeys every queue pair", lives, []edit{
		{"mr/window.go", "	case e.qpn != qpn:\n		return BadAccess\n	}\n	return OK\n", "	}\n	return OK\n"}}},
	{"a duplicate atomic is executed again", lives, []edit{
		{"qp/responder.go", "		return e.duplicate(q, p), true\n", "		if p.Op.Flags&wire.OpAtomic != 0 {\n			_ = e.execute(q, p)\n		}\n		return e.duplicate(q, p), true\n"}}},
	{"an overrun completion queue fails nobody", lives, []edit{
		{"qp/engine.go", "			e.overrunCQs = append(e.overrunCQs, c)\n", ""}}},
	{"DestroyQP flushes", lives, []edit{
		{"qp/qp.go", "	e.detachAll(q)\n	e.dropKept(q)\n	e.unschedule(q)\n", "	e.flushSends(q)\n	e.detachAll(q)\n	e.dropKept(q)\n	e.unschedule(q)\n"}}},
}
