// Package cm is the connection manager's protocol: who calls whom by service ID, and what two queue
// pairs agree on, as a pure state machine (section 9).
//
// # The contract
//
// A [Machine] is the connection manager of one device. One caller at a time drives it:
//
//	HandleMAD      network input: a management datagram that came to queue pair 1
//	HandleTimeout  clock input; a call too many is harmless
//	PollTransmit   the next message to send from queue pair 1
//	PollTimeout    the next deadline, or Never
//	PollEvent      what the application is to be told
//
// and so do the application's calls: Listen, Connect and Resolve of a Machine, and the methods of
// what they and the events give. Whoever called one of these polls until there is nothing more. The
// machine reads no clock (time is an argument), never blocks, starts nothing, and needs no network:
// messages and time go in, messages and events come out.
//
// # A connection
//
// States have the names of Linux's ib_cm. The table is in state.go; what its rows do is in act.go;
// whose a message is, is found in handle.go, and what becomes of a REQ in listen.go.
//
//	active side                                  passive side
//
//	Connect                                      REQ
//	   │ REQ ▶                                      ▼
//	   ▼                    MRA                  REQ_RCVD ── REQ again: MRA ▶ ──▶ MRA_REQ_SENT
//	REQ_SENT ◀────────────────▶ MRA_REQ_RCVD        │ Accept: REP ▶    ◀─────────────┘
//	   │ REP                                        ▼               MRA
//	   ▼                                         REP_SENT ◀────────────────▶ MRA_REP_RCVD
//	REP_RCVD ── REP again: MRA ▶ ─▶ MRA_REP_SENT    │ RTU, or Establish
//	   │ Establish: RTU ▶       ◀────────┘          ▼
//	   └───────────────────▶ ESTABLISHED ◀──────────┘
//	      Disconnect: DREQ ▶   │     │  DREQ
//	        DREQ_SENT ◀────────┘     └────────▶ DREQ_RCVD
//	            │ DREP, DREQ, no answer              │ Disconnect: DREP ▶
//	            └─────────▶ TIMEWAIT ◀───────────────┘
//	                           ▼
//	                          IDLE
//
// An attempt that fails goes from REQ_SENT to IDLE, from REP_RCVD to TIMEWAIT, and from REQ_RCVD
// and REP_SENT to REFUSED, with the states behind them alike. REFUSED is ours: it remembers what an
// attempt was refused with, so that a late copy of its REQ is no new request. Queries have states
// of their own: SIDR_REQ_SENT at the one end, SIDR_REQ_RCVD and SIDR_REP_SENT at the other.
//
// # What a flood can do
//
// A request takes less than a kilobyte until it is answered; a listener takes so many of them that
// wait for the application and so many that wait for the peer (ListenOptions), each address a fair
// share of them (package fair), and drops what comes on top without an answer. What has ended is
// remembered for Config.MaxTimeWait connections, the last ones. Messages and events are handled one
// by one, in a time that does not depend on how much else there is, but for the logarithm of the
// timers.
//
// # Where it says more than Linux does
//
// A REP or RTU of a connection that is not known is answered by a REJ (invalid communication ID):
// Linux ignores it, and the peer repeats its REP for a minute, or believes for ever that it is
// connected. A side that leaves between its REP and the RTU sends a DREQ, which is repeated; Linux
// sends a REJ, once. A copy of a REQ that was rejected gets the same REJ; with Linux it is a new
// request. A peer that uses its communication ID or queue pair for a new connection gets a REJ
// (stale connection), as with Linux, which also disconnects the old one; here the peer is asked
// first whether it has forgotten that (section 9.7).
//
// References of the form "section 9.7" are to docs/rocev2.md.
package cm
