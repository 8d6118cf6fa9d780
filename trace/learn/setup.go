package learn

// The chapter of what goes wrong with the objects: registration, states, path MTU, addresses.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var setup = Chapter{Name: "setup", Title: "What goes wrong before and between",
	Text: `
Mistakes with the objects themselves: memory that cannot be registered, or is gone; queue pairs in the wrong state; two ends that do not
mean the same path.`,
	Lessons: []*Lesson{
		{
			Name: "table-full", Title: "A region too large, a table full", SetUp: true,
			Text: `
A device translates addresses by a table, an entry for each page of each region. B's device here is a small one: 3 regions, 16 pages of 4
KiB all together. The first region has 8192 bytes, 2 pages.

{: B ibv_reg_mr 2} A second one of 10,000 takes 3, as a page is not shared out. A third of 64 KiB would need 16 of the 11 that are left:
{B refuses 1 ENOMEM}.

{: B ibv_reg_mr 4} One of 4096 bytes still fits. Then all 3 regions are in use, and not even one of a single byte is possible:
{B refuses 2 ENOMEM}.

{: B ibv_dereg_mr} After one region is closed (ibv_dereg_mr) there is room again.`,
			NIC: `
The limits are in ibv_query_device: max_mr, max_mr_size. Real tables are large: 16 million entries of 8 bytes open 64 GiB by pages of 4
KiB. Huge pages need one entry for 2 MiB. What is met first is another limit: registering pins the pages, and how much a user may pin is
bounded by "ulimit -l", often at 64 KiB or 8 MiB; then ibv_reg_mr says ENOMEM, too. Our own device pins nothing and has room for half a
million regions.`,
			Scenario: func(w *world.World) {
				b := w.AddHost("B")
				b.MaxRegions, b.MaxPages = 3, 16
				b.RegMR("first", 8192, all)
				w.RunFor(world.Microsecond)
				second := b.RegMR("second", 10_000, all)
				for _, r := range []struct {
					name string
					size int
				}{{"huge", 1 << 16}, {"third", 4096}, {"tiny", 1}} {
					w.RunFor(world.Microsecond)
					b.RegMR(r.name, r.size, all)
				}
				w.RunFor(world.Microsecond)
				_ = second.DeregMR()
				w.RunFor(world.Microsecond)
				b.RegMR("tiny", 1, all)
			},
			Claims:   []Claim{refused("B", "ENOMEM", "ENOMEM"), packets()},
			Question: "How many pages of 4 KiB can 8192 bytes touch that do not begin at a page?",
			Answers:  []string{"2", "3", "4"}, Right: 1,
			Why: "A part of one, a whole one, a part of a third. Allocate what you register at a page's beginning.",
		},
		{
			Name: "registration-rules", Title: "Rights that cannot be given", SetUp: true,
			Text: `
Some combinations make no sense and are refused when the region is registered. REMOTE_WRITE without LOCAL_WRITE: {B refuses 1 EINVAL}. A peer
could write what the own device may not. REMOTE_ATOMIC without LOCAL_WRITE: {B refuses 2 EINVAL}, for the same reason. And a right that does not
exist: {B refuses 3 EINVAL}.

{: B ibv_reg_mr 4} REMOTE_READ needs nothing beside it: reading is always allowed locally.`,
			Scenario: func(w *world.World) {
				b := w.AddHost("B")
				for _, r := range []struct {
					name   string
					access mr.Access
				}{{"write", mr.RemoteWrite}, {"atomic", mr.RemoteAtomic | mr.RemoteRead},
					{"odd", mr.LocalWrite | 1<<15}, {"read", mr.RemoteRead}} {
					w.RunFor(world.Microsecond)
					b.RegMR(r.name, 4096, r.access)
				}
			},
			Claims: []Claim{refused("B", "EINVAL", "EINVAL", "EINVAL"), packets()},
			Question: "Peers are to READ from a region that B's program fills by its processor. Which " +
				"rights does it need?", Answers: []string{"LOCAL_WRITE and REMOTE_READ", "REMOTE_READ", "none"},
			Right: 1, Why: "LOCAL_WRITE is about the device. The program's own stores need no right.",
		},
		{
			Name: "deregistered", Title: "Memory that is gone",
			Text: `
B closes its region while A still writes to it. {1 RDMA_WRITE_ONLY} is executed: B's memory has the bytes. Then B's program calls
ibv_dereg_mr. From its return on, no device touches the memory any more, so it can be freed. {3 RDMA_WRITE_ONLY} finds no such key:
{4 NAK remote access error}, and A has {A 2 REM_ACCESS_ERR}.

So the order is: tell the peer, wait for its answer, deregister, free.`,
			NIC: `
Memory that is unmapped without ibv_dereg_mr is another matter: see the next lesson.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				w.Run()
				_ = b.Buf.DeregMR()
				_ = a.QP.PostSend(a.write(2, 32, b, 64))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "NAK remote access error"),
				completes("A", qp.WCSuccess, qp.WCRemAccessErr), holds("B", "buf", 0, "A", "buf", 0, 32),
				has("B", "buf", 64, make([]byte, 32)...)},
			Question: "free() gives the pages of a large registered buffer back to the system, and malloc() finds " +
				"new ones for the same address. With a NIC, where do the peer's WRITEs go?",
			Answers: []string{"into the new buffer", "into the old pages, which the program sees no more",
				"nowhere: status 10"}, Right: 1,
			Why: "The key is still valid, and the NIC's table has the physical pages, which stay pinned. Small " +
				"buffers are worse: free() keeps their pages for the next malloc(), so the WRITEs go into " +
				"the new buffer.",
		},
		&unmapped,
		{
			Name: "wrong-state", Title: "A queue pair in the wrong state", SetUp: true,
			Text: `
A queue pair begins in RESET, and ibv_modify_qp takes it to INIT (it may post receives), RTR (ready to receive) and RTS (ready to send). Each
step has attributes that it must be given, and no step can be left out.

A's program posts a SEND in RESET: {A refuses 1 EINVAL}. It wants to go from RESET to RTR at once: {A refuses 2 EINVAL}. Then it does all
steps. B's program has forgotten one: its queue pair is in INIT, where it drops whatever comes. A's queue pair does not know. It is in
RTS, so it sends: {1 SEND_ONLY}. Nothing comes back. It sends the same again, three times, as often as its retry_cnt says. Then
{A 1 RETRY_EXC_ERR}.

Status 12 nearly always means: there is nobody there who answers. B's queue pair was not ready, or is closed, or in error, or A has the
wrong address or number of it, or a firewall does not let UDP port 4791 through.`,
			NIC: `
Providers check little when requests are posted: some take a SEND in RESET without an error and forget it. Do not count on EINVAL.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				_ = a.QP.PostSend(a.send(9, 32))
				a.QP.Attr.DestQPN, a.QP.Attr.RQPSN, a.QP.Attr.AV.DGID = b.QP.QPN(), b.QP.Attr.SQPSN, b.GID
				_ = a.QP.Modify(qp.StateRTR, qp.AttrAV|qp.AttrPathMTU|qp.AttrDestQPN|qp.AttrRQPSN|
					qp.AttrMaxDestRdAtomic|qp.AttrMinRNRTimer)
				a.QP.To(qp.StateRTS)
				b.QP.To(qp.StateInit)
				_ = b.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{refused("A", "EINVAL", "EINVAL"), packets("SEND_ONLY", "SEND_ONLY", "SEND_ONLY",
				"SEND_ONLY"), completes("A", qp.WCRetryExcErr),
				completes("B"), state("B", 0, qp.StateInit), drops("B", wire.DropQPState, 4)},
			Question: "Both programs are to start at once. Which one must not be too early?",
			Answers:  []string{"who goes to RTR before the other is in RTS", "who sends before the other is in RTR"},
			Right:    1, Why: "RTR is enough to receive. What comes before that is dropped, and costs a timeout.",
		},
		{
			Name: "path-mtu", Title: "Path MTUs that differ",
			Text: `
A's queue pair has path MTU 4096, B's has 1024. Small messages fit into both: {1 SEND_ONLY}, {2 ACK}. So a test with a few bytes goes well.
Then A sends 3000 bytes, which are one packet of A's: {3 SEND_ONLY}. It is longer than a packet can be for B: {4 NAK invalid request}, and A
has {A 2 REM_INV_REQ_ERR}.

The other way round it fails as well: who has the larger MTU expects FIRST and MIDDLE to be full by its own measure.

Both ends must be told the same path_mtu: the smaller of what the two ports have (active_mtu). A connection manager sees to that.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				a.QP.Attr.PathMTU, b.QP.Attr.PathMTU = wire.MTU4096, wire.MTU1024
				w.Connect(a.QP, b.QP)
				_, _ = b.recv(7, 0, 100), b.recv(8, 0, 4096)
				_ = a.QP.PostSend(a.send(1, 32))
				w.Run()
				_ = a.QP.PostSend(a.send(2, 3000))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK", "SEND_ONLY", "NAK invalid request"),
				completes("A", qp.WCSuccess, qp.WCRemInvReqErr), state("B", 0, qp.StateErr)},
			Question: "Messages up to 1000 bytes work, longer ones end with status 9. What is likely?",
			Answers: []string{"the receives are too short, or the path MTUs differ", "the network drops long packets",
				"the rkey is wrong"}, Right: 0, Why: "Both are NAK invalid request. A network that drops long " +
				"packets (an Ethernet MTU that is too small on the way) gives no NAK: that ends with status 12.",
		},
		{
			Name: "gid-index", Title: "A wrong GID index", SetUp: true,
			Text: `
A device has an address for each row of its GID table, and a queue pair sends from the one that sgid_index names. A's device here has two
rows, 10.0.0.1 and 192.168.7.1. Row 5 does not exist: {A refuses 1 EINVAL}. Row 1 does exist, so A's queue pair takes it, and A sends from
192.168.7.1. But B was told that its peer is 10.0.0.1. {1 SEND_ONLY} arrives, and B's device drops it, as it comes from a stranger. Nobody
says so. After all retries: {A 1 RETRY_EXC_ERR}.

The two sides must name each other's addresses: what A has as its source is what B has as its destination.`,
			NIC: `
A NIC's table has many rows: each address of the port twice, once for RoCEv1 and once for RoCEv2 (the link-local IPv6 address, which is made of
the MAC address, among them). Which row is which is in /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types, or in "show_gids". A RoCEv1 row sends packets
that no router passes on, and that a RoCEv2 peer drops. Most programs have an option for the index: -g of ibv_rc_pingpong, -x of perftest.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				a.AddGID(wire.GID{10: 0xff, 11: 0xff, 12: 192, 13: 168, 14: 7, 15: 1})
				a.QP.Attr.DestQPN, a.QP.Attr.RQPSN, a.QP.Attr.AV.DGID = b.QP.QPN(), b.QP.Attr.SQPSN, b.GID
				a.QP.Attr.AV.SGIDIndex = 5
				a.QP.To(qp.StateRTS)
				a.QP.Attr.AV.SGIDIndex = 1
				w.Connect(a.QP, b.QP)
				_ = b.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{refused("A", "EINVAL"), packets("SEND_ONLY", "SEND_ONLY", "SEND_ONLY", "SEND_ONLY"),
				completes("A", qp.WCRetryExcErr), drops("B", wire.DropAddress, 4)},
			Question: "ibv_rc_pingpong over RoCE fails unless it gets -g. Why?",
			Answers: []string{"without -g it uses no GID at all, as InfiniBand subnets need none",
				"it takes the last row", "it sends to port 18515"}, Right: 0,
			Why: "Inside an InfiniBand subnet a LID is address enough. RoCE needs the IP header, which is " +
				"made from GIDs.",
		},
	}}
