package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// datagram sends one to a place, and takes it at the other end.
func datagram(t *testing.T, from, to *host, q, at *roce.QP, d *DatagramParam, text string) {
	t.Helper()
	mr, err := to.pd.RegMR(make([]byte, 128), roce.LocalWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	require.NoError(t, at.PostRecv(roce.RecvWR{SGL: []roce.SGE{mr.SGE(0, 128)}}))
	ah, err := from.pd.CreateAH(bg, d.AH)
	require.NoError(t, err)
	defer func() { require.NoError(t, from.pd.DestroyAH(ah)) }()
	require.NoError(t, q.PostSend(roce.SendWR{
		Opcode:     roce.WRSend,
		Flags:      roce.SendInline,
		Inline:     []byte(text),
		AH:         ah,
		RemoteQPN:  d.QPN,
		RemoteQKey: d.QKey,
	}))
	var wc [1]roce.WC
	for _, h := range []*host{from, to} {
		_, err = h.cq.Wait(bg, wc[:])
		require.NoError(t, err)
		require.Equal(t, roce.WCSuccess, wc[0].Status)
	}
	require.Equal(t, text, string(mr.Bytes()[roce.GRHSize:wc[0].ByteLen]))
}

// TestDatagram: who listens tells its queue pair, with data each way; the one who asks sends there.
func TestDatagram(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		b.listener(PSUDP, 7174)
		active := a.resolved(PSUDP, b.at(7174))
		qa := a.pair(active)
		require.Equal(t, roce.UD, qa.Type())
		require.NoError(t, active.Connect(&ConnParam{PrivateData: []byte("who?")}))
		req := b.next(EventConnectRequest)
		require.Len(t, req.Param.PrivateData, MaxResolveData)
		require.Equal(t, "who?", string(req.Param.PrivateData[:4]))
		require.Equal(t, active.LocalAddr(), req.ID.PeerAddr())
		passive := req.ID
		qb := b.pair(passive)
		require.NoError(t, passive.Accept(&ConnParam{PrivateData: []byte("me")}))
		est := a.next(EventEstablished)
		require.Equal(t, qb.QPN(), est.Datagram.QPN)
		require.Equal(t, UDPQKey, est.Datagram.QKey)
		require.Len(t, est.Datagram.PrivateData, MaxResolvedData)
		require.Equal(t, "me\x00", string(est.Datagram.PrivateData[:3]))
		datagram(t, a, b, qa, qb, &est.Datagram, "a datagram")
		require.ErrorIs(t, active.Disconnect(), ErrState)
		a.quiet()
		b.quiet()
		require.NoError(t, passive.Close())
	})
}

// TestEitherSpace: in PSIB a listener hears of connections and of datagrams, as the other end's
// queue pair has it.
func TestEitherSpace(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.listener(PSIB, 0)
	for _, kind := range []roce.QPType{roce.RC, roce.UD} {
		active := a.resolved(PSIB, l.LocalAddr())
		qa, err := active.CreateQP(a.pd, roce.QPInitAttr{Type: kind, SendCQ: a.cq, SQSigAll: true, Cap: small})
		require.NoError(t, err)
		require.NoError(t, active.Connect(nil))
		passive := b.next(EventConnectRequest).ID
		if kind == roce.UD {
			_, err = passive.CreateQP(b.pd, roce.QPInitAttr{Type: roce.RC, SendCQ: b.cq})
			require.ErrorIs(t, err, ErrInvalid)
		}
		qb := b.pair(passive)
		require.Equal(t, kind, qb.Type())
		require.NoError(t, passive.Accept(nil))
		to := a.next(EventEstablished).Datagram
		if kind == roce.UD {
			require.Equal(t, qb.QPN(), to.QPN)
			require.ErrorIs(t, active.Disconnect(), ErrState)
		} else {
			b.next(EventEstablished)
		}
		require.Equal(t, kind, qa.Type())
		require.NoError(t, passive.Close())
		if kind == roce.RC {
			a.next(EventDisconnected)
		}
	}
}

// TestOtherKind: a listener for connections is not asked for datagrams, nor one for datagrams for a
// connection.
func TestOtherKind(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	b.listener(PSTCP, 99)
	b.listener(PSUDP, 99)
	s := newStranger(t, a)
	query := wire.CMSidrReq{RequestID: 1, PartitionKey: 0xffff, ServiceID: wire.CMServiceID(wire.CMPortSpaceTCP, 99)}
	header := wire.CMIPHeader{SrcPort: 9, Src: gidOf(a.addr), Dst: gidOf(b.addr)}
	header.Put(query.PrivateData[:])
	s.send(b, 1, &query)
	s.requestOf(b, wire.CMServiceID(wire.CMPortSpaceUDP, 99), 2)
	for _, answer := range []wire.CMAttribute{wire.CMAttrSIDRREP, wire.CMAttrREJ} {
		until(func() bool { return statsOf(b.dev).Sent[answer-wire.CMAttrREQ] == 1 })
	}
	b.quiet()
	require.Equal(t, 2, b.ch.count())
}

// TestDatagramRefused: nobody there, and an application that says no.
func TestDatagramRefused(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		lost := a.resolved(PSUDP, b.at(99))
		b.listener(PSUDP, 7174) // the device is there
		require.NoError(t, lost.Connect(nil))
		e := a.next(EventUnreachable)
		require.ErrorContains(t, e.Err, "nobody listens on that port there")
		require.Equal(t, 1, e.Status)
		require.Error(t, e.Err)

		refused := a.resolved(PSUDP, b.at(7174))
		require.NoError(t, refused.Connect(nil))
		req := b.next(EventConnectRequest)
		require.ErrorIs(t, req.ID.Reject(make([]byte, MaxResolvedData+1)), ErrInvalid)
		require.ErrorIs(t, req.ID.Accept(nil), ErrInvalid) // it has no queue pair, and names none
		require.NoError(t, req.ID.Reject([]byte("no")))
		require.Equal(t, 2, a.next(EventUnreachable).Status)
		require.NoError(t, req.ID.Close())
		require.ErrorIs(t, refused.Connect(nil), ErrState)
	})
}

// TestMulticast: two members of a group get what is sent to it, until one leaves.
func TestMulticast(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		group := netip.MustParseAddr("239.1.2.3")
		join := func(h *host, sendOnly bool) (*ID, *roce.QP, *DatagramParam) {
			id := h.id(PSUDP)
			require.ErrorIs(t, id.JoinMulticast(group, false, nil), ErrState)
			require.NoError(t, id.BindAddr(h.at(0)))
			q := h.pair(id)
			require.NoError(t, id.JoinMulticast(group, sendOnly, "mine"))
			e := h.next(EventMulticastJoin)
			require.Equal(t, "mine", e.Context)
			require.Equal(t, uint32(0xffffff), e.Datagram.QPN)
			require.Equal(t, UDPQKey, e.Datagram.QKey)
			require.ErrorIs(t, id.JoinMulticast(group, false, nil), ErrInvalid)
			return id, q, &e.Datagram
		}
		sender, qa, to := join(a, true)
		receiver, qb, _ := join(b, false)
		datagram(t, a, b, qa, qb, to, "to all")
		require.ErrorIs(t, sender.JoinMulticast(a.addr, false, nil), ErrInvalid)
		require.NoError(t, sender.LeaveMulticast(group))
		require.ErrorIs(t, sender.LeaveMulticast(group), ErrInvalid)
		require.NoError(t, receiver.LeaveMulticast(group))
		require.Error(t, qb.DetachMcast(roce.GID(group.As16())))

		// A queue pair that is destroyed leaves its groups, and the next one is in none of them.
		require.NoError(t, receiver.JoinMulticast(group, false, nil))
		b.next(EventMulticastJoin)
		require.NoError(t, receiver.DestroyQP())
		b.pair(receiver)
		require.NoError(t, receiver.LeaveMulticast(group))
		require.NoError(t, receiver.JoinMulticast(group, false, nil))
		require.NoError(t, receiver.Close())
		require.ErrorIs(t, receiver.LeaveMulticast(group), ErrClosed)
		b.quiet()
	})
}
