package roce

// Connecting without a connection manager: what each side must tell the other (Endpoint), and the
// steps from RESET to RTS with sensible attributes.

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/wire"
)

// Endpoint is what a peer must know of a queue pair to connect to it. Exchange it out of band, as
// text.
type Endpoint struct {
	GID GID
	QPN uint32 // 24 bits
	PSN PSN    // the first PSN that this side sends, 24 bits
	MTU MTU    // the largest path MTU that the port takes; 0: not said
}

// String prints ADDRESS/QPN/PSN/MTU, "127.0.0.1/0x00001a/0x9f3c21/4096", without the MTU if that is
// not said. ParseEndpoint reads it back.
func (e Endpoint) String() string {
	s := fmt.Sprintf("%s/0x%06x/0x%06x", e.GID.Addr(), e.QPN, uint32(e.PSN))
	if e.MTU != 0 {
		s += fmt.Sprintf("/%d", e.MTU.Bytes())
	}
	return s
}

// ParseEndpoint reads ADDRESS/QPN/PSN/MTU: the address as IP address or GID, the numbers decimal or
// with 0x, the MTU in bytes. The MTU may be missing.
func ParseEndpoint(s string) (Endpoint, error) {
	parts := strings.Split(strings.TrimSpace(s), "/")
	if len(parts) != 3 && len(parts) != 4 {
		return Endpoint{}, fmt.Errorf("roce: endpoint %q: %w: want ADDRESS/QPN/PSN/MTU, as in "+
			"127.0.0.1/0x00001a/0x9f3c21/4096", s, ErrInvalid)
	}
	gid, err := wire.ParseGID(parts[0])
	if err != nil {
		return Endpoint{}, fmt.Errorf("roce: endpoint %q: %w: %w", s, ErrInvalid, err)
	}
	var numbers [2]uint32
	for i, name := range []string{"QPN", "PSN"} {
		n, err := strconv.ParseUint(parts[i+1], 0, 24)
		if err != nil {
			return Endpoint{}, fmt.Errorf("roce: endpoint %q: %w: %s %q is not a number of 24 bits",
				s, ErrInvalid, name, parts[i+1])
		}
		numbers[i] = uint32(n)
	}
	e := Endpoint{GID: gid, QPN: numbers[0], PSN: PSN(numbers[1])}
	if len(parts) == 4 {
		n, _ := strconv.Atoi(parts[3])
		if e.MTU, err = wire.MTUFromBytes(n); err != nil {
			return Endpoint{}, fmt.Errorf("roce: endpoint %q: %w: path MTU %q: want 256, 512, 1024, 2048 or 4096",
				s, ErrInvalid, parts[3])
		}
	}
	return e, nil
}

// MarshalText is String, for encoding/json and its kin.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText is ParseEndpoint.
func (e *Endpoint) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEndpoint(string(text))
	return err
}

// Endpoint is what the peer of this queue pair must know, with the first address of the device: who
// connects with another ConnectOptions.SGIDIndex puts that row of the GID table there. RESET, of a
// queue pair that could send, changes its PSN, so that nothing that is still on its way from the
// connection before has an effect on the next: tell the peer anew, and have it reset its end too.
// Any goroutine.
//
// Packets of RC do not say which queue pair sent them: to connect to another peer, close this queue
// pair and create one, or a peer on the same host that was left behind would go on sending to this
// one. For UC a new PSN does not help at all, as a UC responder takes the first packet of a message
// whatever its PSN is: always close and create.
func (q *QP) Endpoint() Endpoint {
	return Endpoint{GID: q.pd.dev.firstGID(), QPN: q.QPN(), PSN: q.qp.StartPSN(), MTU: q.pd.dev.QueryPort().ActiveMTU}
}

// ConnectOptions are the attributes of a connection. Connect takes them literally, so start from
// DefaultConnectOptions and change what should differ.
type ConnectOptions struct {
	// path MTU, the same on both sides; more than the port's active MTU is refused. 0 is that, or
	// the peer's if that is less (Endpoint.MTU).
	MTU      MTU
	Timeout  uint8 // 0..31: the ack timeout is 4.096 us * 2^Timeout; 0 waits for ever
	RetryCnt uint8 // 0..7 retries after a timeout or a sequence error
	// 0..7 retries when the peer has no receive posted, or its storage is slow (PD.RegMR); 7 is for
	// ever
	RNRRetry uint8
	// 0..31: code for how long the peer waits when this side has no receive posted
	MinRNRTimer uint8
	// MaxRdAtomic is how many READs and atomics this side may have outstanding, MaxDestRdAtomic how
	// many of the peer's it remembers, 0..128 each; from 64 on long READs are a third faster.
	MaxRdAtomic, MaxDestRdAtomic uint8

	// what the peer may do: RemoteRead, RemoteWrite, RemoteAtomic, FlushGlobal, FlushPersistent; 0
	// is nothing
	Access    Access
	SGIDIndex uint8 // row of the device's GID table to send from
	// IPv4 TOS / IPv6 traffic class; without ECN bits it gets ECT(0), see Config.NoECN
	TrafficClass uint8
	HopLimit     uint8  // 0 is 64
	FlowLabel    uint32 // 20 bits
	SL           uint8  // carried for the API, as AHAttr.SL
	QKey         uint32 // UD: what peers must send with

	// SelectiveRepeat lets RC repair the loss of a packet by repeating that packet alone. It is
	// this stack's own, not of the InfiniBand standard: the peer must be of this stack and connect
	// with it too. See QPAttr.SelectiveRepeat.
	SelectiveRepeat bool
	// LongWindow lets as much be under way with it as paths hold beyond 4096 packets, 33 ms at 1
	// Gbit/s. The peer must connect with it too. See QPAttr.LongWindow.
	LongWindow bool
	// FlowControl lets RC wait for the credits that hardware puts into its ACKs, instead of being
	// refused where the peer has no receive. See QPAttr.FlowControl.
	FlowControl bool
}

// DefaultConnectOptions are the largest MTU that both ports take, 67 ms of ack timeout, 7 retries,
// for ever after RNR, 16 READs and atomics, and all remote rights (which the regions must grant as
// well).
func DefaultConnectOptions() ConnectOptions {
	return ConnectOptions{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, MaxRdAtomic: 16, MaxDestRdAtomic: 16,
		Access: RemoteRead | RemoteWrite | RemoteAtomic | FlushGlobal | FlushPersistent}
}

// Init moves a queue pair from RESET to INIT, where receives can be posted. Connect and Activate do
// it if it was not done. opts may be nil. The errors are those of Modify.
func (q *QP) Init(opts *ConnectOptions) error {
	o := optionsOr(opts)
	attr := QPAttr{State: StateInit, Port: 1, AccessFlags: o.Access, QKey: o.QKey}
	mask := AttrState | AttrPKeyIndex | AttrPort
	if t := q.Type(); t == UD || t == GSI {
		return q.Modify(context.Background(), &attr, mask|AttrQKey)
	}
	return q.Modify(context.Background(), &attr, mask|AttrAccessFlags)
}

// Connect brings an RC, UC or XRC queue pair from RESET or INIT to RTS, connected to remote. opts
// may be nil; a queue pair in INIT then keeps the rights that it has. The peer must do the same
// with this side's Endpoint. What is sent before it has is lost: UC loses it for good, RC sends it
// again for some half a second (DefaultConnectOptions; Timeout, RetryCnt) and then fails with
// WCRetryExcErr, so who posts first waits for the peer's word that it has connected.
// As Modify it may wait for a neighbour's answer, until ctx ends. Its errors are those of Modify;
// the state is then that which was reached.
func (q *QP) Connect(ctx context.Context, remote Endpoint, opts *ConnectOptions) error {
	if t := q.Type(); t == UD || t == GSI {
		return q.pd.dev.fail("Connect", fmt.Errorf("%w: a queue pair of type %v has no peer: Activate it",
			ErrInvalid, t))
	}
	o := optionsOr(opts)
	if o.MTU == 0 {
		if o.MTU = q.pd.dev.QueryPort().ActiveMTU; remote.MTU != 0 {
			o.MTU = min(o.MTU, remote.MTU)
		}
	}
	if q.State() == StateReset {
		if err := q.Init(&o); err != nil {
			return err
		}
	}
	rtr := QPAttr{State: StateRTR, PathMTU: o.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN,
		AV: AHAttr{DGID: remote.GID, SGIDIndex: o.SGIDIndex, TrafficClass: o.TrafficClass,
			HopLimit: o.HopLimit, FlowLabel: o.FlowLabel, SL: o.SL}}
	rts := QPAttr{State: StateRTS, SQPSN: q.qp.StartPSN()}
	toRTR, toRTS := AttrState|AttrAV|AttrPathMTU|AttrDestQPN|AttrRQPSN, AttrState|AttrSQPSN
	if opts != nil { // Init may have granted other rights
		rtr.AccessFlags = o.Access
		toRTR |= AttrAccessFlags
	}
	switch q.Type() {
	case XRCSend:
		rts.Timeout, rts.RetryCnt, rts.RNRRetry, rts.MaxRdAtomic = o.Timeout, o.RetryCnt, o.RNRRetry, o.MaxRdAtomic
		toRTS |= AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
	case XRCRecv:
		rtr.MaxDestRdAtomic, rtr.MinRNRTimer, rts.Timeout = o.MaxDestRdAtomic, o.MinRNRTimer, o.Timeout
		toRTR |= AttrMaxDestRdAtomic | AttrMinRNRTimer
		toRTS |= AttrTimeout
	case RC:
		rtr.MaxDestRdAtomic, rtr.MinRNRTimer = o.MaxDestRdAtomic, o.MinRNRTimer
		toRTR |= AttrMaxDestRdAtomic | AttrMinRNRTimer
		if rtr.SelectiveRepeat = o.SelectiveRepeat; o.SelectiveRepeat {
			toRTR |= AttrSelectiveRepeat
		}
		if rtr.LongWindow = o.LongWindow; o.LongWindow {
			toRTR |= AttrLongWindow
		}
		if rtr.FlowControl = o.FlowControl; o.FlowControl {
			toRTR |= AttrFlowControl
		}
		rts.Timeout, rts.RetryCnt, rts.RNRRetry, rts.MaxRdAtomic = o.Timeout, o.RetryCnt, o.RNRRetry, o.MaxRdAtomic
		toRTS |= AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
	}
	if err := q.Modify(ctx, &rtr, toRTR); err != nil {
		return err
	}
	return q.Modify(ctx, &rts, toRTS)
}

// Activate brings a UD or GSI queue pair from RESET or INIT to RTS. Peers must send with the Q_Key
// qkey. Its errors are those of Modify.
func (q *QP) Activate(qkey uint32) error {
	if q.State() == StateReset {
		if err := q.Init(&ConnectOptions{QKey: qkey}); err != nil {
			return err
		}
	}
	ctx := context.Background() // there is nobody to wait for
	if err := q.Modify(ctx, &QPAttr{State: StateRTR, QKey: qkey}, AttrState|AttrQKey); err != nil {
		return err
	}
	return q.Modify(ctx, &QPAttr{State: StateRTS, SQPSN: q.qp.StartPSN()}, AttrState|AttrSQPSN)
}

func optionsOr(opts *ConnectOptions) ConnectOptions {
	if opts == nil {
		return DefaultConnectOptions()
	}
	return *opts
}
