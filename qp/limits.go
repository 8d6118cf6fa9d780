package qp

// Every limit and default on one page, each with its source.

import "github.com/goroce/goroce/wire"

const (
	// MaxQP is how many queue pairs an engine holds. rxe: 2^20 - 16.
	MaxQP = 1<<20 - 16
	// MaxQPWR is the most work requests a queue takes. rxe: 2^20; ours is lower because rings are
	// allocated whole.
	MaxQPWR = 1 << 16
	// MaxSGE is the most scatter/gather elements of a work request. rxe: 32.
	MaxSGE = 32
	// MaxInline is the most inline bytes of a send work request. rxe: 512.
	MaxInline = 512
	// MaxCQE is the most entries of a completion queue. rxe: 32767; ours covers 64 full send
	// queues.
	MaxCQE = 1 << 22
	// MaxCQ is how many completion queues an engine holds. rxe: 2^20.
	MaxCQ = 1 << 20
	// MaxCQModCount and MaxCQModPeriod bound the moderation of a completion queue: what the 16 bits
	// of ibv_modify_cq hold, in completions and in nanoseconds.
	MaxCQModCount  = 1<<16 - 1
	MaxCQModPeriod = Time(1<<16-1) * 1000
	// MaxAH is how many address handles an engine holds. rxe: 32767.
	MaxAH     = 1 << ahRowBits
	ahRowBits = 20
	// MaxMcastGrp is how many multicast groups have members among the queue pairs of an engine,
	// MaxMcastQPAttach how many of these one group has, and MaxTotalMcastQPAttach what that comes
	// to. They are rxe's.
	MaxMcastGrp           = 8192
	MaxMcastQPAttach      = 56
	MaxTotalMcastQPAttach = MaxMcastGrp * MaxMcastQPAttach
	// MaxSRQ is how many shared receive queues a device holds. rxe: 2^20 less some.
	MaxSRQ = 1 << 20
	// MaxSRQWR is the most work requests a shared receive queue takes, and rxe's.
	MaxSRQWR = 1 << 20
	// MaxRdAtomic is the most READs and atomics outstanding on a queue pair, as initiator and as
	// responder. rxe: 128.
	MaxRdAtomic = 128
	// MaxMessage is the longest message in bytes: that of RETH.DMALen and of the port's max_msg_sz
	// (section 11).
	MaxMessage = 1 << 31
	// MaxPKeys is the size of the P_Key table: the default partition only, as rxe.
	MaxPKeys = 1

	// GRHSize is what a UD receive buffer holds before the payload (section 1.8).
	GRHSize = 40

	// DefaultWindow is how many packets of an RC queue pair may be unacknowledged at first, and as
	// long as nothing says that fewer or more are better. rxe: always 128.
	DefaultWindow = 128
	// smallWindow takes its place for messages of up to smallMessage bytes. It is four of the
	// longest runs that a kernel takes in one piece, so that both ends are at work, and no more
	// bytes than DefaultWindow packets of path MTU 1024.
	smallWindow  = 512
	smallMessage = 256
	// MaxWindow is as far as the adaptive window of selective repeat grows, and as many as its NAKs
	// can name: 16 MiB in flight at path MTU 4096, which fills 40 Gbit/s at 3.3 ms; 4 MiB at 1024,
	// which fills 1 Gbit/s at 33 ms.
	MaxWindow = 4096
	// MaxLongWindow is as far where nothing has to be named, or QPAttr.LongWindow is agreed: 64 MiB
	// at path MTU 1024, which fills 1 Gbit/s at half a second.
	MaxLongWindow = 1 << 16
	// minWindow is as far as it shrinks: with less than a batch of segments, sending costs more
	// than repeating.
	minWindow = 16
	// maxGaps is how many gaps a requester with selective repeat keeps in mind: as many as fit into
	// MaxWindow.
	maxGaps = MaxWindow / 2
	// maxKept is how many places the responders of an engine have for packets behind gaps, all
	// together: 72 MB. A place is what a packet of path MTU 1024 takes; longer ones take more. The
	// store of a queue pair takes storePlaces, 128 KiB, and one with a long window that needs it
	// longPlaces more, 2 MiB.
	maxKept     = 1 << 16
	keptPlace   = 1100
	storePlaces = 120
	longPlaces  = 1920
	// spareStores is how many stores an engine keeps ready, and one long one. Of buffers for
	// packets it keeps MaxWindow.
	spareStores = 8
	// maxUnasked is the most packets inside a message of which none asks for an ACK. rxe: 64.
	maxUnasked = 64
	// spreadFrom is the least window, and spreadBase the least round trip, that packets are spread
	// over, in bursts of up to spreadBurst of them.
	spreadFrom  = 1 << 10
	spreadBase  = Time(1_000_000)
	spreadBurst = 64
	// lossShare bounds what a window that is too large costs on a path with losses: one part in
	// lossShare.
	lossShare = 16
	// evenDepth is the least max_rd_atomic with which a READ is asked for in pieces of two packets:
	// fewer of them outstanding would not fill the first window. Other pieces are of leastPiece, if
	// pieceDepth of them may be outstanding, and of mostPiece at most.
	evenDepth  = DefaultWindow / 2
	leastPiece = 16
	pieceDepth = DefaultWindow / leastPiece
	mostPiece  = 1 << 12
	// longDepth is how many times max_rd_atomic READs and atomics are remembered where
	// QPAttr.LongWindow is agreed, and may be outstanding while the window holds more than longFrom
	// bytes: 128 READs of 64 KiB are 8 MiB, less than 1 Gbit/s holds in 100 ms.
	longDepth = 2
	longFrom  = MaxWindow << 10
	// leastReplays is how many parts of READs may wait to be sent again, where few may be
	// outstanding.
	leastReplays = 16
	// leastShare is as far as the window is cut for a queue that overflows: with two packets, one
	// that is lost is reported by the other.
	leastShare = 2
	// forgotten is how many windows must arrive without a loss before a queue counts as nobody
	// else's.
	forgotten = 1024
	// smooth is how many windows must arrive without a loss before READs are asked for in longer
	// pieces than the path needs.
	smooth = 16
	// calmRounds is for how many round trips a queue must be short until it is free to take.
	calmRounds = 8
	// trialRounds is for how many round trips a larger window is tried, and trialPause for how many
	// none is.
	trialRounds = 8
	trialPause  = 16
	// cubicC is how fast CUBIC's window grows, in tenths of a packet per cubic second. RFC 9438 has
	// 0.4 segments; a packet is smaller.
	cubicC = 6
	// noise is a queue that is none: that long either end may be late.
	noise = Time(30_000)
	// crowded is a mean distance of losses in packets. With selective repeat, if losses are closer
	// than that, the window is taken to be too large for a queue on the path: no path loses such a
	// share at random.
	crowded = 12
	// quantum is how many packets a queue pair sends before it is the next one's turn: 64 KiB at
	// path MTU 4096, an ACK, and some.
	quantum = 20
	// firstQPN is the lowest number given to a queue pair; rxe starts there too (section 1.12).
	firstQPN = 16
	// minRTT is the least round trip that is believed: callers may give a time that is up to half
	// of it old.
	minRTT = Time(1_000)
	// minProbe is the least time without an answer before a packet is sent again to find out. It is
	// a few round trips of a fast path, far below the usual ack timeout of 67 ms. If a busy machine
	// takes longer to schedule the peer, that costs a packet.
	minProbe = Time(100_000)
	// maxProbes is how many probes are sent without an answer, each after twice the time of the one
	// before.
	maxProbes = 5
	// keptBackoff is how many of them still count after an answer, until a round trip has been
	// measured: the path may be slower than what is known of it (Karn's rule).
	keptBackoff = 3
	// rateQueue is how long, beyond the round trip, a congested queue pair may send without hearing
	// anything: as long as a busy machine may let either end sleep.
	rateQueue = Time(2_000_000)
	// MinRateLimit and MaxRateLimit bound QPAttr.RateLimit, in kbit/s. At the least of them a
	// packet of 4 KiB takes 33 ms, half of the usual ack timeout.
	MinRateLimit = 1_000
	MaxRateLimit = 400_000_000
	// maxLate is how much of the delay of a paced packet those behind it make up for: a few times
	// what it takes a sleeping thread to wake up. At 10 Gbit/s it is 60 packets of 4 KiB, which
	// leave at once, and so many (maxBurst) may at any limit that a user sets, for which the delay
	// may be some ticks of a millisecond: no sleep of Go's runtime is shorter on an idle machine.
	maxLate      = Time(200_000)
	maxLateTimer = Time(4_000_000)
	maxBurst     = 60
	// cnpTrafficClass is DSCP 48, ECT(0): what hardware gives CNPs (section 1.7).
	cnpTrafficClass = 0xc2
	// psnSpan bounds the PSNs outstanding: half the circle less one, so that old and new stay
	// distinct (section 4.1).
	psnSpan = 1<<23 - 1
	// maxAhead is how far after the end of the last life a new one may begin: half of the half
	// circle in which the old PSNs are behind the new ones.
	maxAhead = 1 << 22
	// staleSpan is how many PSNs a new life has before it comes to one of the lives before the
	// last: at 10 million packets a second that takes 0.1 s, longer than packets live on their way.
	// staleLag is how far behind its end such a life may have packets on their way: the largest
	// window, many times.
	staleSpan = 1 << 20
	staleLag  = 1 << 18
	// maxEnded is how many earlier lives are remembered: those before the last forbid at most half
	// of where the new one may begin.
	maxEnded = 3
	// defaultHopLimit is what kernel CM and verbs fill for IP GIDs (section 1.1).
	defaultHopLimit = 64
	// rnrForever is the rnr_retry value that never gives up (section 4.7).
	rnrForever = 7

	maxMTU = wire.MTU(5)
)
