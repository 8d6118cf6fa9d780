package cm

// Every limit and default on one page, each with its source, and how codes of the wire become
// times.

// Time is a moment on a monotone clock that the caller owns, or a span of it, in nanoseconds.
type Time int64

// Never is later than every moment.
const Never Time = 1<<63 - 1

const (
	// DefaultResponseTimeout is the code of the time within which a side answers: 4.3 s. Linux: 20.
	DefaultResponseTimeout = 20
	// DefaultMaxRetries is how many times a REQ, REP, DREQ or SIDR_REQ is sent again. Linux: 15.
	DefaultMaxRetries = 15
	// DefaultPacketLifetime is the code of the time that a packet is under way at most: 268 ms.
	// Linux over RoCE: 16.
	DefaultPacketLifetime = 16
	// DefaultAckDelay is the code of the time that a device takes to acknowledge. rxe: 15.
	DefaultAckDelay = 15
	// ServiceTimeout is the code of the time that the machine asks for when a peer repeats what
	// the application has not answered yet: 69 s. Linux: 24.
	ServiceTimeout = 24
	// MaxRdAtomic stands for as many READs and ATOMICs as both sides can do (librdmacm's
	// RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH).
	MaxRdAtomic = 0xff

	// DefaultBacklog is how many requests of a listener may wait for the application's answer.
	// Linux: rdma_ucm's max_backlog.
	DefaultBacklog = 1024
	// DefaultHalfOpen is how many requests of a listener may wait for that or, once they are
	// accepted, for the peer's RTU.
	DefaultHalfOpen = 4096
	// DefaultMaxConns is how many connections a machine has at a time, those in time-wait not
	// counted.
	DefaultMaxConns = 1 << 18
	// DefaultMaxTimeWait is how many connections are remembered after their end, at a few hundred
	// bytes each. If there are more the oldest is forgotten early.
	DefaultMaxTimeWait = 1 << 14
	// maxQueued is how many messages wait to be sent. What comes on top is dropped, as if the
	// network had lost it: all that matters is repeated.
	maxQueued = 4096
)

// Codes that a peer sends are taken within these bounds: a peer that wants its answer in no time is
// not flooded, and one that is never in a hurry does not hold memory for days.
const (
	minCode    = 14         // 67 ms
	maxCode    = 22         // 17 s
	maxService = 4096 << 26 // 275 s, of all MRAs about a message from the first one on
)

// span is the time that a code stands for: 4.096 us * 2^n (section 9.6).
func span(code uint8) Time { return 4096 << min(code, 31) }

// bounded is the span of a peer's code within bounds.
func bounded(code uint8) Time { return span(min(max(code, minCode), maxCode)) }
