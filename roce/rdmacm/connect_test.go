package rdmacm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
)

// TestConnect: a connection from the first call to the last, with private data, a message each way,
// and the active side disconnecting first.
func TestConnect(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 7471)
		active := a.resolved(PSTCP, b.at(7471))
		a.pair(active)
		require.NoError(t, active.Connect(&ConnParam{
			PrivateData:        []byte("hello"),
			ResponderResources: 3,
			InitiatorDepth:     4,
			RetryCount:         5,
			RNRRetryCount:      6,
		}))
		req := b.next(EventConnectRequest)
		require.Same(t, l, req.Listener)
		require.Len(t, req.Param.PrivateData, MaxConnectData)
		require.Equal(t, "hello\x00", string(req.Param.PrivateData[:6]))
		require.Equal(t, [4]uint8{4, 3, 5, 6}, [4]uint8{req.Param.ResponderResources, req.Param.InitiatorDepth, req.Param.RetryCount,
			req.Param.RNRRetryCount})
		passive := req.ID
		require.Equal(t, b.at(7471), passive.LocalAddr())
		require.Equal(t, active.LocalAddr(), passive.PeerAddr())
		b.pair(passive)
		require.NoError(t, passive.Accept(&ConnParam{
			PrivateData:        []byte("welcome"),
			ResponderResources: 2,
			InitiatorDepth:     9,
			RNRRetryCount:      1,
		}))
		est := a.next(EventEstablished)
		require.Len(t, est.Param.PrivateData, MaxAcceptData)
		require.Equal(t, "welcome\x00", string(est.Param.PrivateData[:8]))
		b.next(EventEstablished)

		qa, qb := active.QP(), passive.QP()
		attrA, err := qa.Query()
		require.NoError(t, err)
		attrB, err := qb.Query()
		require.NoError(t, err)
		three := uint8(3)
		if *onDevice != "" { // rxe rounds up to a power of two
			three = 4
		}
		require.Equal(t, [2]uint8{2, three}, [2]uint8{attrA.MaxRdAtomic, attrA.MaxDestRdAtomic})
		require.Equal(t, [2]uint8{three, 2}, [2]uint8{attrB.MaxRdAtomic, attrB.MaxDestRdAtomic})
		require.Equal(t, [4]uint8{5, 5, 1, 6}, [4]uint8{attrA.RetryCnt, attrB.RetryCnt, attrA.RNRRetry, attrB.RNRRetry})
		require.Equal(t, attrA.PathMTU, attrB.PathMTU)
		message(t, a, b, qa, qb, "to you")
		message(t, b, a, qb, qa, "and back")

		require.NoError(t, active.Disconnect())
		b.next(EventDisconnected)
		require.Equal(t, roce.StateErr, qa.State())
		require.NoError(t, passive.Disconnect())
		a.next(EventDisconnected)
		require.NoError(t, passive.Close())
	})
}

// TestXRC: who connects with a queue pair of XRC that sends is accepted by one that receives, and
// by no other.
func TestXRC(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	domain, err := b.dev.OpenXRCD()
	require.NoError(t, err)
	srq, err := b.pd.CreateSRQ(roce.SRQInitAttr{MaxWR: 8, MaxSGE: 1, XRCD: domain, CQ: b.cq})
	require.NoError(t, err)
	l := b.listener(PSTCP, 0)
	active := a.resolved(PSTCP, l.LocalAddr())
	from, err := active.CreateQP(a.pd, roce.QPInitAttr{Type: roce.XRCSend, SendCQ: a.cq, SQSigAll: true,
		Cap: roce.QPCap{MaxSendWR: 8, MaxSendSGE: 1, MaxInlineData: 64}})
	require.NoError(t, err)
	require.NoError(t, active.Connect(nil))
	passive := b.next(EventConnectRequest).ID
	b.pair(passive)
	require.ErrorIs(t, passive.Accept(nil), ErrInvalid)
	require.NoError(t, passive.DestroyQP())
	to, err := passive.CreateQP(b.pd, roce.QPInitAttr{Type: roce.XRCRecv, XRCD: domain})
	require.NoError(t, err)
	require.NoError(t, passive.Accept(nil))
	a.next(EventEstablished)
	b.next(EventEstablished)
	require.Equal(t, [2]roce.QPState{roce.StateRTS, roce.StateRTS}, [2]roce.QPState{from.State(), to.State()})

	mr, err := b.pd.RegMR(make([]byte, 64), roce.LocalWrite)
	require.NoError(t, err)
	require.NoError(t, srq.PostRecv(roce.RecvWR{SGL: []roce.SGE{mr.SGE(0, 64)}}))
	require.NoError(t, from.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte("to you"),
		RemoteSRQN: srq.Number()}))
	var wc [1]roce.WC
	_, err = b.cq.Wait(bg, wc[:])
	require.NoError(t, err)
	require.Equal(t, "to you", string(mr.Bytes()[:wc[0].ByteLen]))

	back := b.resolved(PSTCP, a.at(7))
	_, err = back.CreateQP(b.pd, roce.QPInitAttr{Type: roce.XRCRecv, XRCD: domain})
	require.NoError(t, err)
	require.ErrorIs(t, back.Connect(nil), ErrInvalid)
	require.NoError(t, back.Close())
	require.NoError(t, passive.Close())
	a.next(EventDisconnected)
	require.NoError(t, mr.Close())
	require.NoError(t, srq.Close())
	require.NoError(t, domain.Close())
}

// TestSmallerPort: a peer whose port takes less than ours is connected to with as much as it takes,
// and the request says what it said at first.
func TestSmallerPort(t *testing.T) {
	for size, want := range map[int]roce.MTU{1500: roce.MTU1024, 400: roce.MTU256} {
		na, nb := wires["pipe"]()
		a, b := newHost(t, na, nil), newHost(t, nb, func(p transport.Port) transport.Port {
			p.(interface{ SetMTU(int) }).SetMTU(size)
			return p
		})
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		a.pair(active)
		says := []byte("hello")
		require.NoError(t, active.Connect(&ConnParam{PrivateData: says, RetryCount: 7}))
		copy(says, "gone!") // it is the application's again
		req := b.next(EventConnectRequest)
		require.Equal(t, "hello", string(req.Param.PrivateData[:5]))
		b.pair(req.ID)
		require.NoError(t, req.ID.Accept(nil))
		a.next(EventEstablished)
		b.next(EventEstablished)
		for _, q := range []*roce.QP{active.QP(), req.ID.QP()} {
			attr, err := q.Query()
			require.NoError(t, err)
			require.Equal(t, want, attr.PathMTU)
		}
		message(t, a, b, active.QP(), req.ID.QP(), "to you")
		require.NoError(t, req.ID.Close())
		a.next(EventDisconnected)
	}
}

// TestAgreed: two ends of this stack repeat selectively, within long windows, unless one does not
// want to.
func TestAgreed(t *testing.T) {
	for _, c := range []struct {
		name            string
		active, passive *ConnParam
		want            bool
	}{
		{"both", nil, nil, true},
		{"the active side goes back", &ConnParam{RetryCount: 7, RNRRetryCount: 7, GoBackN: true}, nil, false},
		{"the passive side goes back", nil, &ConnParam{RNRRetryCount: 7, GoBackN: true}, false},
	} {
		na, nb := wires["pipe"]()
		a, b := newHost(t, na, nil), newHost(t, nb, nil)
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		a.pair(active)
		require.NoError(t, active.Connect(c.active))
		passive := b.next(EventConnectRequest).ID
		b.pair(passive)
		require.NoError(t, passive.Accept(c.passive))
		a.next(EventEstablished)
		b.next(EventEstablished)
		for _, id := range []*ID{active, passive} {
			attr, err := id.QP().Query()
			require.NoError(t, err)
			require.Equal(t, [2]bool{c.want, c.want}, [2]bool{attr.SelectiveRepeat, attr.LongWindow}, c.name)
			_, mask, err := id.InitQPAttr(roce.StateRTR)
			require.NoError(t, err)
			require.Zero(t, mask&(roce.AttrSelectiveRepeat|roce.AttrLongWindow), "a program of librdmacm knows of neither")
		}
		message(t, a, b, active.QP(), passive.QP(), "to you")
		require.NoError(t, passive.Close())
		a.next(EventDisconnected)
	}
}
