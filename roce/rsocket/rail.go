package rsocket

// Rails: the UD queue pair of each of our addresses that datagrams leave by, and the peers that are
// sent to. WriteTo makes a peer known, finds the way to it once, beside the caller, and sends: by
// the UDP socket until its queue pair is known (section 11), and from then on by the rail, but for
// a datagram now and then, which asks again.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// rail is a queue pair and its memory: slots of one datagram each.
type rail struct {
	p              *PacketConn
	at             netip.AddrPort // whose address has no zone
	zone           string
	ch             *rdmacm.EventChannel
	id             *rdmacm.ID // keeps the device
	pd             *roce.PD
	sendCQ, recvCQ *roce.CQ
	sends, recvs   *roce.MR
	qp             *roce.QP
	slot           int           // bytes
	header         []byte        // of what we send
	free           chan int      // send slots
	looks          chan struct{} // holds the token of who looks for some that have become free
	retired        []*roce.AH    // of forgotten peers, until nobody sends; under p.mu
}

// peer is an address that this end sends to. Datagrams wait while the way is sought; they go by UDP
// until both the way and the queue pair are known; then directly.
type peer struct {
	rail  *rail
	ah    *roce.AH
	qpn   uint32    // of its queue pair; 0: not known
	asked time.Time // when it was last asked for that
	parks [][]byte  // datagrams that wait
	err   error     // there is no way: told once
}

// retire is told that the peer is forgotten.
func (to *peer) retire() {
	if to.ah != nil {
		to.rail.retired = append(to.rail.retired, to.ah)
	}
}

// WriteTo sends a datagram to an address, an *Addr, *net.UDPAddr or *net.TCPAddr, and returns when
// b is the caller's again. syscall.EMSGSIZE: it is longer than a packet. That there is no way to
// the address is told by the next call.
func (p *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, ok := addr.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		err := fmt.Errorf("%w: an address of type %T", roce.ErrInvalid, addr)
		return 0, opError("write", p.LocalAddr(), addr, err)
	}
	err := p.send(b, to.AddrPort(), false)
	if err != nil {
		return 0, opError("write", p.LocalAddr(), addr, err)
	}
	return len(b), nil
}

// TryWriteTo is a WriteTo that does not wait: syscall.EAGAIN if there is no room.
func (p *PacketConn) TryWriteTo(b []byte, to netip.AddrPort) (int, error) {
	switch err := p.send(b, to, true); err {
	case nil:
		return len(b), nil
	case syscall.EAGAIN:
		return 0, err
	default:
		return 0, opError("write", p.LocalAddr(), addrOf(to), err)
	}
}

func (p *PacketConn) send(b []byte, to netip.AddrPort, try bool) error {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	d := p.peers[to]
	switch {
	case d == nil:
		if d = p.meet(to); d == nil { // it is lost, as with UDP
			p.mu.Unlock()
			return nil
		}
	case d.err != nil:
		delete(p.peers, to)
		p.mu.Unlock()
		return d.err
	}
	if d.rail == nil {
		if len(d.parks) < maxParks { // else it is lost, as with UDP
			d.parks = append(d.parks, append([]byte(nil), b...))
		}
		p.mu.Unlock()
		return nil
	}
	rail, now := d.rail, time.Now()
	direct := d.qpn != 0 && now.Sub(d.asked) < p.again
	if !direct {
		d.asked = now
	}
	p.mu.Unlock()
	if direct {
		return rail.send(b, to, try)
	}
	return rail.askWith(b, to)
}

// meet makes a peer, and finds the way to it; nil if there are too many to which ways are sought
// yet. The caller has mu.
func (p *PacketConn) meet(to netip.AddrPort) *peer {
	for other, d := range p.peers { // any, if there are too many
		if len(p.peers) < maxPeers {
			break
		}
		if d.rail != nil || d.err != nil {
			delete(p.peers, other)
			d.retire()
		}
	}
	if len(p.peers) >= maxPeers {
		return nil
	}
	d := new(peer)
	p.peers[to] = d
	p.seeks.Add(1)
	p.tasks.Go(func() {
		defer p.seeks.Done()
		rail, ah, err := p.find(to)
		p.mu.Lock()
		d.rail, d.ah, d.err = rail, ah, err
		parks := d.parks
		d.parks = nil
		if len(parks) > 0 { // which ask
			d.asked = time.Now()
		}
		p.mu.Unlock()
		if err == nil {
			for _, b := range parks { // the socket may have no room: then others go on
				rail.askWith(b, to)
			}
		}
	})
	return d
}

// find finds the way to an address.
func (p *PacketConn) find(to netip.AddrPort) (*rail, *roce.AH, error) {
	w, err := p.way(to)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	r, err := p.rail(w.LocalAddr().Addr())
	if err != nil {
		return nil, nil, err
	}
	attr, _, err := w.AddressVector()
	if err != nil {
		return nil, nil, err
	}
	ah, err := r.pd.CreateAH(p.ctx, attr)
	return r, ah, err
}

// heard is told of the queue pair of one who has written to the UDP socket.
func (p *PacketConn) heard(from netip.AddrPort, qpn uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.peers[from]; d != nil {
		d.qpn = qpn
	}
}

// rail is that of one of our addresses. Datagrams to others go on while it opens.
func (p *PacketConn) rail(at netip.Addr) (*rail, error) {
	addr := at.WithZone("").Unmap()
	p.opens.Lock()
	defer p.opens.Unlock()
	p.mu.Lock()
	r := p.rails[addr]
	p.mu.Unlock()
	if r != nil || p.ctx.Err() != nil {
		return r, p.ctx.Err()
	}
	r = &rail{p: p, at: netip.AddrPortFrom(addr, p.local().Port()), zone: at.Zone()}
	if err := r.open(at); err != nil {
		return nil, errors.Join(err, r.close())
	}
	p.mu.Lock()
	p.rails[addr] = r
	p.mu.Unlock()
	p.tasks.Go(r.serve)
	return r, nil
}

// open makes the queue pair, on an ID of its own that has the device.
func (r *rail) open(at netip.Addr) (err error) {
	cfg := (&maker{}).connConfig(&r.p.options).Config
	if r.ch, err = rdmacm.NewEventChannel(&cfg); err != nil {
		return err
	}
	if r.id, err = r.ch.CreateID(rdmacm.PSUDP); err != nil {
		return err
	}
	if err = r.id.BindAddr(netip.AddrPortFrom(at, 0)); err != nil {
		return err
	}
	dev := r.id.Device()
	r.slot = dev.QueryPort().ActiveMTU.Bytes()
	r.header = stream.AppendHeader(nil, r.at)
	nSend := min(max(r.p.options.SendBuffer/r.slot, 4), r.p.options.Depth)
	nRecv := min(max(r.p.options.ReceiveBuffer/r.slot, 4), r.p.options.Depth)
	if r.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if r.sendCQ, err = dev.CreateCQ(roce.CQInitAttr{CQE: nSend}); err != nil {
		return err
	}
	if r.recvCQ, err = dev.CreateCQ(roce.CQInitAttr{CQE: nRecv}); err != nil {
		return err
	}
	if r.sends, err = r.pd.RegMR(make([]byte, nSend*r.slot), 0); err != nil {
		return err
	}
	if r.recvs, err = r.pd.RegMR(make([]byte, nRecv*(r.slot+roce.GRHSize)), roce.LocalWrite); err != nil {
		return err
	}
	r.qp, err = r.id.CreateQP(r.pd, roce.QPInitAttr{Type: roce.UD, SendCQ: r.sendCQ, RecvCQ: r.recvCQ, SQSigAll: true,
		Cap: roce.QPCap{MaxSendWR: uint32(nSend), MaxRecvWR: uint32(nRecv), MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	r.free, r.looks = make(chan int, nSend), make(chan struct{}, 1)
	for i := range nSend {
		r.free <- i
	}
	for i := range nRecv {
		if err = r.receive(i); err != nil {
			return err
		}
	}
	return nil
}

// receive posts a slot.
func (r *rail) receive(slot int) error {
	size := r.slot + roce.GRHSize
	return r.qp.PostRecv(roce.RecvWR{WRID: uint64(slot), SGL: []roce.SGE{r.recvs.SGE(slot*size, size)}})
}

// serve takes what comes. Whose a datagram is the network says, and of what it says itself only the
// port counts.
func (r *rail) serve() {
	size := r.slot + roce.GRHSize
	var wcs [16]roce.WC
	for {
		n, err := r.recvCQ.Wait(r.p.ctx, wcs[:])
		if err != nil {
			return
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			slot := int(wc.WRID)
			if wc.Status != roce.WCSuccess {
				continue
			}
			all := r.recvs.Bytes()[slot*size:][:wc.ByteLen]
			from, data, ok := stream.ParseHeader(all[roce.GRHSize:])
			source, err := roce.AHAttrFromWC(wc, all)
			if !ok || err != nil || source.DGID.Addr() != from.Addr() {
				r.receive(slot)
				continue
			}
			from = netip.AddrPortFrom(from.Addr().WithZone(r.zone), from.Port()) // IPv4 has none
			r.p.came.Put(packet{from, data, r, slot})
		}
	}
}

// ask is what the UDP socket sends before a datagram, or as the answer to one.
func (r *rail) ask(data bool) []byte {
	return stream.Ask{Data: data, QPN: r.qp.QPN(), Addr: r.at.Addr()}.Append(make([]byte, 0, stream.MaxAsk))
}

// fits says whether a packet has room for a datagram.
func (r *rail) fits(b []byte) error {
	if most := r.slot - len(r.header); len(b) > most {
		return fmt.Errorf("%w: %d bytes, a packet has %d", syscall.EMSGSIZE, len(b), most)
	}
	return nil
}

// askWith sends a datagram by UDP, which asks for the other end's queue pair.
func (r *rail) askWith(b []byte, to netip.AddrPort) error {
	err := r.fits(b)
	if err == nil {
		_, err = r.p.udp.WriteToUDPAddrPort(append(r.ask(true), b...), to)
	}
	return err
}

// send sends a datagram to a peer's queue pair. The peer is looked for when there is a slot: who
// has one keeps address handles.
func (r *rail) send(b []byte, to netip.AddrPort, try bool) error {
	if err := r.fits(b); err != nil {
		return err
	}
	slot, err := r.take(try)
	if err != nil {
		return err
	}
	r.p.mu.Lock()
	d := r.p.peers[to]
	if d == nil || d.rail != r || d.qpn == 0 { // forgotten meanwhile: it is lost, as with UDP
		r.p.mu.Unlock()
		r.free <- slot
		return nil
	}
	ah, qpn := d.ah, d.qpn
	r.p.mu.Unlock()
	at := slot * r.slot
	n := copy(r.sends.Bytes()[at:], r.header)
	n += copy(r.sends.Bytes()[at+n:], b)
	err = r.qp.PostSend(roce.SendWR{WRID: uint64(slot), Opcode: roce.WRSend, AH: ah, RemoteQPN: qpn,
		RemoteQKey: rdmacm.UDPQKey, SGL: []roce.SGE{r.sends.SGE(at, n)}})
	if err != nil {
		r.free <- slot
	}
	return err
}

// take takes a free slot, and waits until there is one: a datagram's is free when it has left. One
// of those who wait looks for what has left, for all.
func (r *rail) take(try bool) (int, error) {
	for {
		ctx := r.p.limits[writing].now()
		select {
		case r.looks <- struct{}{}:
			r.reap(ctx, !try)
			<-r.looks
		default:
		}
		select {
		case slot := <-r.free:
			return slot, nil
		default:
		}
		if try {
			return 0, syscall.EAGAIN
		}
		if err := ctx.Err(); err != nil && context.Cause(ctx) != errMoved {
			if r.p.ctx.Err() != nil {
				return 0, net.ErrClosed
			}
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case slot := <-r.free:
			return slot, nil
		case r.looks <- struct{}{}: // who looked has gone
			<-r.looks
		case <-ctx.Done():
		}
	}
}

// reap gives back the slots of what has been sent. A datagram that could not be sent, as one that
// is longer than the device's MTU has become, is lost, and those behind it in the queue; the queue
// pair, which stops then, sends the next ones. If no slot is free it may wait for one. One at a
// time calls it.
func (r *rail) reap(ctx context.Context, wait bool) {
	var wcs [16]roce.WC
	failed := false
	n, _ := r.sendCQ.Poll(wcs[:])
	if n == 0 && wait && len(r.free) == 0 {
		n, _ = r.sendCQ.Wait(ctx, wcs[:])
	}
	for ; n > 0; n, _ = r.sendCQ.Poll(wcs[:]) {
		for i := range wcs[:n] {
			failed = failed || wcs[i].Status != roce.WCSuccess
			r.free <- int(wcs[i].WRID)
		}
	}
	if failed { // it stays so if another has seen to that
		r.qp.Modify(r.p.ctx, &roce.QPAttr{State: roce.StateRTS, CurState: roce.StateSQE},
			roce.AttrState|roce.AttrCurState)
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if len(r.retired) > 0 && len(r.free) == cap(r.free) {
		r.destroy()
	}
}

// destroy destroys what is retired. The caller has p.mu.
func (r *rail) destroy() {
	for _, ah := range r.retired {
		r.pd.DestroyAH(ah)
	}
	r.retired = nil
}

// close gives everything back, also of what open could not finish. Nobody sends or receives.
func (r *rail) close() error {
	var errs []error
	r.destroy()
	if r.id != nil {
		errs = append(errs, r.id.Close()) // and the queue pair
	}
	for _, mr := range []*roce.MR{r.sends, r.recvs} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	for _, cq := range []*roce.CQ{r.sendCQ, r.recvCQ} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if r.pd != nil {
		errs = append(errs, r.pd.Close())
	}
	if r.ch != nil {
		errs = append(errs, r.ch.Close())
	}
	return errors.Join(errs...)
}
