package demo

// A host: a device, one region of memory with the model of what it should hold, a queue pair of
// each type, a completion queue.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
)

// host is one end.
type host struct {
	name  string
	s     *session.Session
	pd    *roce.PD
	cq    *roce.CQ
	mr    *roce.MR
	mem   []byte
	model []byte
	qps   map[roce.QPType]*roce.QP
	toUD  *roce.AH // the other host's address
}

// The memory of each host: a place that messages leave from, one where they arrive, one for
// atomics.
const (
	source   = 0
	arrival  = 16 << 10
	counter  = 32 << 10
	oldValue = counter + 8 // where atomics put what they found
	memory   = 64 << 10
)

// background is what memory holds before a message arrives.
const background = 0x11

func newHost(name string, o session.Options, addr netip.Addr) (h *host, err error) {
	h = &host{name: name, mem: make([]byte, memory), model: make([]byte, memory), qps: map[roce.QPType]*roce.QP{}}
	defer func() {
		if err != nil {
			h.close()
			h = nil
		}
	}()
	// packets one by one: WRITEs are FIRST, MIDDLE and LAST then, as everybody else sends them
	o.Transport.MaxRun = 1
	if h.s, err = session.Open(o, addr); err != nil {
		return h, err
	}
	if h.pd, err = h.s.AllocPD(); err != nil {
		return h, err
	}
	if h.cq, err = h.s.CreateCQ(roce.CQInitAttr{CQE: 64}); err != nil {
		return h, err
	}
	for i := range h.mem {
		h.mem[i] = background
	}
	copy(h.model, h.mem)
	h.mr, err = h.pd.RegMR(h.mem, roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead|roce.RemoteAtomic)
	if err != nil {
		return h, err
	}
	for _, t := range []roce.QPType{roce.RC, roce.UC, roce.UD} {
		q, err := h.pd.CreateQP(roce.QPInitAttr{Type: t, SendCQ: h.cq, RecvCQ: h.cq, Cap: roce.QPCap{
			MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			return h, err
		}
		h.qps[t] = q
	}
	return h, nil
}

// connect tells each host the other's queue pair numbers. In a real program a TCP connection or a
// connection manager does it.
func connect(ctx context.Context, a, b *host) (err error) {
	o := roce.DefaultConnectOptions()
	for _, pair := range [][2]*host{{a, b}, {b, a}} {
		mine, theirs := pair[0], pair[1]
		for _, t := range []roce.QPType{roce.RC, roce.UC} {
			if err := mine.qps[t].Connect(ctx, theirs.qps[t].Endpoint(), &o); err != nil {
				return err
			}
		}
		if err := mine.qps[roce.UD].Activate(session.QKey); err != nil {
			return err
		}
		if mine.toUD, err = mine.pd.CreateAH(ctx, roce.AHAttr{DGID: theirs.s.GID, HopLimit: 64}); err != nil {
			return err
		}
	}
	return nil
}

// fill puts a pattern into memory and model: every byte says where it is and which lesson it
// belongs to.
func (h *host) fill(off, n int, salt byte) {
	for i := range n {
		h.mem[off+i] = byte(i) ^ byte(i>>8)*7 ^ salt
	}
	copy(h.model[off:off+n], h.mem[off:off+n])
}

// expect says in the model that n bytes of the other host's memory will be here.
func (h *host) expect(off int, other *host, from, n int) {
	copy(h.model[off:off+n], other.model[from:from+n])
}

// wait takes one successful completion.
func (h *host) wait(ctx context.Context) (roce.WC, error) {
	var wc [1]roce.WC
	if _, err := h.cq.Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], fmt.Errorf("%s waits for a completion: %w", h.name, err)
	}
	if wc[0].Status != roce.WCSuccess {
		return wc[0], &session.FailedError{WC: wc[0], What: h.name + "'s request"}
	}
	return wc[0], nil
}

func (h *host) close() error {
	var errs []error
	for _, q := range h.qps {
		errs = append(errs, q.Close())
	}
	if h.toUD != nil {
		errs = append(errs, h.pd.DestroyAH(h.toUD))
	}
	if h.cq != nil {
		errs = append(errs, h.cq.Close())
	}
	if h.mr != nil {
		errs = append(errs, h.mr.Close())
	}
	if h.pd != nil {
		errs = append(errs, h.pd.Close())
	}
	if h.s != nil {
		errs = append(errs, h.s.Close())
	}
	return errors.Join(errs...)
}
