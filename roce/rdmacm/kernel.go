//go:build verbs && !double

package rdmacm

// A device of the kernel: the kernel speaks, by way of librdmacm. A device has one event channel of
// the library, whose goroutine tells the IDs. An ID has an identifier of the library (rdma_cm_id);
// the queue pair is ours, and the library knows its number only.
//
// Stages: which devices are the kernel's; a device; an ID on it: addresses, listening, requests,
// connecting and ending, datagrams, what the queue pair must know; what the library tells.

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/librdmacm"
	"github.com/goroce/goroce/roce/internal/verbs"
	"github.com/goroce/goroce/wire"
)

func isKernel(dev *roce.Device) bool { return dev.PortInfo().Kind == "verbs" }

// kernelDevice finds the device of the kernel that has an address.
func kernelDevice(addr netip.Addr) (name string, err error) {
	names, err := verbs.Names()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		dev, err := roce.Open(verbs.Prefix+name, nil)
		if err != nil {
			continue // a device without addresses, or of InfiniBand
		}
		_, has := rowOf(dev, gidOf(addr))
		if err := dev.Close(); err != nil {
			return "", err
		}
		if has {
			return dev.Name(), nil
		}
	}
	return "", fmt.Errorf("%w: address %v: no device of the kernel has it: %v", errAway, addr, names)
}

// kernel speaks for a device.
type kernel struct {
	a     *agent
	ch    *librdmacm.Channel
	timer *time.Timer // runs while nobody uses the device; under agents
}

func newKernel(a *agent) (*kernel, error) {
	k := &kernel{a: a}
	var err error
	if k.ch, err = librdmacm.Open(tell); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *kernel) hush()        { k.ch.Close() }
func (k *kernel) close() error { return nil }

// abandoned needs no time for what is on its way: the kernel sends it without the device being
// open.
func (k *kernel) abandoned(is, refused bool) {
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	if is {
		wait := time.Duration(0)
		if refused {
			wait = lingerTime
		}
		k.timer = time.AfterFunc(wait, k.a.finish)
	}
}

// newID makes an identifier. It is on no device until it gets an address.
func (k *kernel) newID(id *ID) (cmID, error) {
	c := &kernelID{kernel: k, id: id}
	cm, err := k.ch.CreateID(uint16(id.space), c)
	if err != nil {
		return nil, err
	}
	c.cms = append(c.cms, cm)
	return c, nil
}

// tell hands an event to its ID.
func tell(e *librdmacm.Event) {
	if e.Listener != nil {
		e.Listener.Owner.(*kernelID).request(e)
		return
	}
	if c, ok := e.ID.Owner.(*kernelID); ok {
		c.told(e)
	}
}

// mustBeOn holds the device that the kernel has chosen against the ID's. The kernel takes the first
// that has the address, which is another one if there are two.
func (k *kernel) mustBeOn(cm *librdmacm.ID) error {
	device, port := cm.Device()
	name := verbs.Prefix + device
	if want := k.a.dev.Name(); name == want || fmt.Sprintf("%s/%d", name, port) == want {
		return nil
	}
	return fmt.Errorf("%w: the kernel's rdma_cm takes the address %v for %s/%d, the ID is on %s",
		ErrInvalid, cm.LocalAddr().Addr(), name, port, k.a.dev.Name())
}

// errNoUC says what librdmacm does not do.
var errNoUC = fmt.Errorf("%w: librdmacm connects queue pairs of type RC", ErrNotSupported)

// onlyRC is an error of a queue pair of another type.
func (c *kernelID) onlyRC() error {
	if q := c.id.qp; q != nil && q.Type() != roce.RC {
		return errNoUC
	}
	return nil
}

// inState gives the error of a call that the kernel says EINVAL to a kind: here it is the state
// that is wrong, as values were looked at before.
func inState(err error) error {
	if errors.Is(err, ErrInvalid) {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return err
}

// kernelID is what an ID has of the kernel.
type kernelID struct {
	*kernel
	id    *ID
	cms   []*librdmacm.ID  // one; of a listener on all addresses one for each
	bound bool             // it has an address
	way   path             // that is being resolved
	asked *librdmacm.Param // what the peer's request says; nil: there is none
}

func (c *kernelID) at() *agent { return c.a }

// cm is the one identifier.
func (c *kernelID) cm() *librdmacm.ID { return c.cms[0] }

func (c *kernelID) bind(addr netip.AddrPort) (uint16, error) {
	if err := c.bindOne(c.cm(), addr); err != nil {
		return 0, err
	}
	c.bound = true
	return c.cm().LocalAddr().Port(), nil
}

func (c *kernelID) bindOne(cm *librdmacm.ID, addr netip.AddrPort) error {
	if c.id.options.reuseAddr {
		if err := cm.SetReuseAddr(); err != nil {
			return err
		}
	}
	if err := cm.Bind(addr); err != nil {
		return fmt.Errorf("address %v: %w", addr, err)
	}
	return c.mustBeOn(cm)
}

func (c *kernelID) resolveAddr(p path, timeout time.Duration) {
	c.way = p
	src := netip.AddrPortFrom(p.local, c.id.local.Port())
	if c.bound {
		src = netip.AddrPort{}
	} else if c.id.options.reuseAddr {
		c.cm().SetReuseAddr()
	}
	if err := c.cm().ResolveAddr(src, c.id.peer, timeout); err != nil {
		c.id.addrResolved(p, err)
	}
}

func (c *kernelID) resolveRoute(timeout time.Duration) {
	o := &c.id.options
	var err error
	if o.tos != 0 {
		err = c.cm().SetTOS(o.tos)
	}
	if o.ackTimeout != 0 && !c.id.datagrams() { // where nothing is acknowledged it is refused
		err = cmp.Or(err, c.cm().SetAckTimeout(o.ackTimeout))
	}
	if err = cmp.Or(err, c.cm().ResolveRoute(timeout)); err != nil {
		c.id.happened(routeFailed, new(Event).errno(codeOf(err), err))
	}
}

// listen listens on the one address, or on all of the device that the claim is about, with an
// identifier each: one for all addresses would take the requests of other devices too.
func (c *kernelID) listen(backlog int) error {
	local := c.id.local
	if !local.Addr().IsUnspecified() {
		return c.cm().Listen(backlog)
	}
	claim := c.id.claim
	zone := c.a.dev.PortInfo().Interface
	n := 0
	for _, gid := range c.a.dev.GIDs() {
		addr := zoned(gid, zone)
		if addr.Is4() != local.Addr().Is4() && !(addr.Is4() && claim.v4too) {
			continue
		}
		if n == len(c.cms) {
			more, err := c.ch.CreateID(uint16(c.id.space), c)
			if err != nil {
				return err
			}
			c.cms = append(c.cms, more)
		}
		if err := c.bindOne(c.cms[n], netip.AddrPortFrom(addr, local.Port())); err != nil {
			return err
		}
		if err := c.cms[n].Listen(backlog); err != nil {
			return err
		}
		n++
	}
	return nil
}

// request makes an ID of a peer's request, and tells its listener. The channel's goroutine calls
// it.
func (c *kernelID) request(e *librdmacm.Event) {
	c.id.mu.Lock()
	defer c.id.mu.Unlock()
	child := c.id.child(c.id.space == PSUDP)
	if child == nil {
		e.ID.Destroy() // which refuses the peer
		return
	}
	asked := &kernelID{kernel: c.kernel, id: child, cms: []*librdmacm.ID{e.ID}, bound: true, asked: &e.Param}
	e.ID.Owner = asked
	asked.meet()
	c.id.asked(child, asked, paramFrom(&e.Param))
}

// meet gives a new ID its addresses and the way to its peer.
func (c *kernelID) meet() {
	id, zone := c.id, c.a.dev.PortInfo().Interface
	local, peer := c.cm().LocalAddr(), c.cm().PeerAddr()
	id.path = cm.Path{Local: gidOf(local.Addr()), Remote: gidOf(peer.Addr()), HopLimit: 64}
	id.local = netip.AddrPortFrom(zoned(id.path.Local, zone), local.Port())
	id.peer = netip.AddrPortFrom(zoned(id.path.Remote, zone), peer.Port())
	id.mtu = c.a.dev.QueryPort().ActiveMTU
}

// own is what this side says, in the library's words.
func (c *kernelID) own(private []byte) *librdmacm.Param {
	p := &c.id.own
	return &librdmacm.Param{PrivateData: private, QPN: p.QPN, ResponderResources: p.ResponderResources,
		InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ}
}

func (c *kernelID) connect(private []byte) error {
	if err := c.onlyRC(); err != nil {
		return err
	}
	return c.cm().Connect(c.own(private))
}

// agree takes as many READs and atomics as the peer wants at most, as librdmacm does.
func (c *kernelID) agree() error {
	own := &c.id.own
	own.ResponderResources = min(own.ResponderResources, c.asked.ResponderResources)
	own.InitiatorDepth = min(own.InitiatorDepth, c.asked.InitiatorDepth)
	return c.onlyRC()
}

func (c *kernelID) accept(private []byte) error { return inState(c.cm().Accept(c.own(private))) }

func (c *kernelID) establish() error {
	if c.id.state == accepted {
		return inState(c.cm().NotifyEstablished())
	}
	return inState(c.cm().Establish())
}

// reject gives no reason but the application's: the library knows no other.
func (c *kernelID) reject(_ wire.CMRejReason, private []byte) { c.cm().Reject(private) }
func (c *kernelID) disconnect()                               { c.cm().Disconnect() }

func (c *kernelID) ask(private []byte) error {
	if c.id.space != PSUDP {
		return fmt.Errorf("%w: librdmacm connects datagrams in %v", ErrNotSupported, PSUDP)
	}
	return c.cm().Connect(&librdmacm.Param{PrivateData: private})
}

// answer cannot name a Q_Key: the kernel has its own for all.
func (c *kernelID) answer(a *cm.Answer) error {
	switch {
	case a.Status != wire.CMSidrOK:
		return inState(c.cm().Reject(a.Private))
	case a.QKey != UDPQKey:
		return fmt.Errorf("%w: ConnParam.QKey 0x%x: the kernel's rdma_cm tells the Q_Key 0x%x",
			ErrNotSupported, a.QKey, UDPQKey)
	}
	return inState(c.cm().Accept(&librdmacm.Param{PrivateData: a.Private, QPN: a.QPN}))
}

func (c *kernelID) close() {
	for _, cm := range c.cms {
		cm.Destroy()
	}
}

// raises: over iWARP the kernel brings the queue pair to RTS, as that needs its TCP connection.
func (c *kernelID) raises() bool { return !c.cm().IWARP() }

func (c *kernelID) attr(to roce.QPState, _ roce.QPType) (roce.QPAttr, roce.AttrMask, error) {
	if c.id.state <= connecting {
		return roce.QPAttr{}, 0, c.id.notYet()
	}
	a, err := c.cm().InitQPAttr(to)
	if err != nil {
		return roce.QPAttr{}, 0, inState(err)
	}
	if to == roce.StateRTS {
		if c.asked != nil { // the kernel hears of it with the acceptance only
			a.MaxRdAtomic = c.id.own.InitiatorDepth
		}
		return a.QPAttr, a.Mask, nil
	}
	init, err := c.cm().InitQPAttr(roce.StateInit)
	if err != nil {
		return roce.QPAttr{}, 0, inState(err)
	}
	row, ok := rowOf(c.a.dev, a.SGID)
	if !ok {
		return roce.QPAttr{}, 0, fmt.Errorf("%w: device %s does not have the address %v",
			ErrUnreachable, c.a.dev.Name(), a.SGID)
	}
	a.AV.SGIDIndex, a.AccessFlags = row, init.AccessFlags
	if c.asked != nil {
		a.MaxDestRdAtomic = c.id.own.ResponderResources
	}
	return a.QPAttr, a.Mask | roce.AttrAccessFlags, nil
}

// told takes in what the library tells. The channel's goroutine calls it.
func (c *kernelID) told(e *librdmacm.Event) {
	id := c.id
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == closed {
		return
	}
	ev := &Event{Param: paramFrom(&e.Param)}
	if e.Status < 0 {
		code := syscall.Errno(-e.Status)
		ev.errno(code, fmt.Errorf("%w: %w", ErrUnreachable, code))
	}
	switch EventType(e.Type) {
	case EventAddrResolved:
		c.addrResolved()
	case EventAddrError:
		id.addrResolved(c.way, cmp.Or(ev.Err, ErrUnreachable))
	case EventRouteResolved:
		id.happened(routeDone, nil)
	case EventRouteError:
		id.happened(routeFailed, ev)
	case EventConnectResponse:
		id.response(ev.Param)
	case EventConnectError:
		id.happened(failed, ev)
	case EventUnreachable:
		if e.Status > 0 && id.space == PSUDP {
			id.resolved(wire.CMSidrStatus(e.Status), 0, 0, e.Param.PrivateData)
			return
		}
		id.happened(unreachable, ev)
	case EventRejected:
		if e.Status > 0 {
			ev = refusal(e.Status, e.Param.PrivateData)
		}
		id.happened(rejected, ev)
	case EventEstablished:
		c.established(e, ev)
	case EventDisconnected:
		on := dreq
		if id.state == disconnecting {
			on = drep
		}
		id.parted(on, ev)
	case EventTimewaitExit:
		id.happened(timewaitExit, nil)
	case EventDeviceRemoval:
		id.deviceGone(c)
	case EventAddrChange:
		id.addressGone()
	}
}

// addrResolved takes in that the neighbour is there, and which port the kernel has chosen.
func (c *kernelID) addrResolved() {
	c.way.port = c.cm().LocalAddr().Port()
	c.id.addrResolved(c.way, c.mustBeOn(c.cm()))
}

// established takes in that the peer is ready, or who serves a port. Over iWARP that is also the
// peer's acceptance.
func (c *kernelID) established(e *librdmacm.Event, ev *Event) {
	id := c.id
	if id.space == PSUDP {
		id.resolved(wire.CMSidrOK, e.Param.QPN, e.QKey, e.Param.PrivateData)
		return
	}
	if id.state == disconnecting { // it said nothing to the peer, as there was no connection yet
		c.disconnect()
		return
	}
	if !c.raises() && id.qp != nil {
		id.qp.State() // the queue pair hears that it is in RTS
	}
	on := rtu
	if id.state == connecting {
		on = served
	}
	id.happened(on, ev)
}

// paramFrom is what a peer says.
func paramFrom(p *librdmacm.Param) ConnParam {
	return ConnParam{PrivateData: p.PrivateData, ResponderResources: p.ResponderResources,
		InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.QPN}
}
