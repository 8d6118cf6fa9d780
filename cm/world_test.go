package cm

// A simulated world: machines of devices, a network that loses, doubles, delays and damages, and
// applications that do at any moment what applications do, all in virtual time and from one seed.
// Stages: the world and its clock → devices → the network.

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/goroce/goroce/wire"
)

const (
	millisecond Time = 1e6
	second           = 1000 * millisecond
)

// features is what a world has: a swarm draws a few of them for each.
type features struct {
	loss, double, slow, damage float64 // of a message
	crash                      bool    // a device loses its machine, and gets a new one
	close, reject, disconnect  bool    // by the applications, before they would have to
	mra, monkey                bool    // applications ask for time; call what they like
	data                       bool    // first data comes before the RTU
	listeners                  bool    // come and go
	small                      bool    // limits
	fewQPNs                    bool
	queries                    bool
	strangers                  bool // who send copies of messages from addresses of their own
	lazy                       bool // applications take minutes to answer
	self, v6                   bool // devices call themselves; IPv6
	flood, forge               bool // neighbours (neighbours_test.go)
}

// draw takes each feature with a probability of its own.
func draw(rnd *rand.Rand) (f features) {
	some := func(p *float64, most float64) {
		if rnd.IntN(3) == 0 {
			*p = most * rnd.Float64()
		}
	}
	some(&f.loss, 0.15)
	some(&f.double, 0.3)
	some(&f.slow, 0.5)
	if rnd.IntN(4) == 0 {
		some(&f.damage, 0.1)
	}
	for _, p := range []*bool{&f.crash, &f.close, &f.reject, &f.disconnect, &f.mra, &f.monkey, &f.data, &f.listeners,
		&f.small, &f.fewQPNs, &f.queries, &f.strangers, &f.lazy, &f.self, &f.v6, &f.flood, &f.forge} {
		*p = rnd.IntN(4) == 0
	}
	return f
}

// world is everything there is.
type world struct {
	features
	rnd     *rand.Rand
	now     Time
	serial  int
	steps   int
	agenda  agenda
	devices []*device
	ends    []*end
	lostREJ map[uint32]bool // by the ID of who should have heard it
	floods  []wire.GID      // addresses of neighbours
	strikes int             // messages of neighbours
	story   io.Writer       // if not nil: who did what when
	err     error
}

// newWorld makes two or three devices, which all listen.
func newWorld(seed uint64, story io.Writer) *world {
	rnd := rand.New(rand.NewPCG(seed, 17))
	w := &world{rnd: rnd, features: draw(rnd), now: 1 << 50, story: story, lostREJ: map[uint32]bool{}}
	w.note("%+v", w.features)
	for i := range 2 + rnd.IntN(2) {
		d := &device{w: w, name: fmt.Sprint("device ", i), gid: w.gid(i), guid: rnd.Uint64()}
		w.devices = append(w.devices, d)
		d.begin()
	}
	return w
}

func (w *world) gid(i int) wire.GID {
	if w.v6 {
		return wire.GID{0: 0xfd, 15: byte(i + 1)}
	}
	return wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: byte(i + 1)}
}

func (w *world) note(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, "%10.3f ", float64(w.now-1<<50)/float64(second))
		fmt.Fprintf(w.story, format+"\n", args...)
	}
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.note("FAILS: %v", w.err)
	}
}

// chance says yes with a probability.
func (w *world) chance(p float64) bool { return p > 0 && w.rnd.Float64() < p }

// in does something later.
func (w *world) in(delay Time, do func()) {
	w.serial++
	heap.Push(&w.agenda, appointment{w.now + delay, w.serial, do})
}

// run lets the world go on until nothing is left to happen, or something is wrong.
func (w *world) run() {
	for w.err == nil {
		next, of := Never, (*device)(nil)
		for _, d := range w.devices {
			if t := d.m.PollTimeout(); t < next {
				next, of = t, d
			}
		}
		if len(w.agenda) > 0 && w.agenda[0].at <= next {
			a := heap.Pop(&w.agenda).(appointment)
			w.now = max(w.now, a.at)
			a.do()
		} else if of == nil {
			return
		} else {
			if next < w.now {
				w.fail("%s has missed a deadline", of.name)
			}
			w.now = next
			of.m.HandleTimeout(w.now)
			of.turn()
		}
		if w.steps++; w.steps > 200_000 {
			w.fail("it does not come to rest")
		}
	}
}

// appointment is something that will happen.
type appointment struct {
	at     Time
	serial int
	do     func()
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].serial < a[j].serial
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	old[len(old)-1] = appointment{}
	*a = old[:len(old)-1]
	return x
}

// device is an address with a machine; after a crash it has another machine.
type device struct {
	w          *world
	name       string
	gid        wire.GID
	guid       uint64
	crashed    Time
	m          *Machine
	listeners  map[uint64]*Listener
	qpns       map[uint32]bool // in use
	sent, made int             // messages, and ends
}

// begin gives the device a new machine.
func (d *device) begin() {
	cfg := Config{Rand: d.w.rnd.Uint64, CAGUID: d.guid}
	if d.w.small {
		cfg.MaxConns, cfg.MaxTimeWait = 1+d.w.rnd.IntN(5), 1+d.w.rnd.IntN(3)
	}
	d.m, d.listeners, d.qpns = New(cfg), map[uint64]*Listener{}, map[uint32]bool{}
	for _, s := range services {
		d.listen(s)
	}
}

// services are who can be called; nobody ever listens on the last.
var services = []uint64{wire.CMServiceID(wire.CMPortSpaceTCP, 1), wire.CMServiceID(wire.CMPortSpaceIB, 2), 0x77}

const nobody = uint64(0x78)

func (d *device) listen(service uint64) {
	o := ListenOptions{}
	switch {
	case d.w.small:
		o.Backlog = 1 + d.w.rnd.IntN(3)
	case d.w.flood:
		o.Backlog = 4 + d.w.rnd.IntN(20)
		o.HalfOpen = o.Backlog + d.w.rnd.IntN(20)
	}
	if d.w.chance(0.3) {
		o.Address = d.gid
	}
	l, err := d.m.Listen(service, o)
	if err != nil {
		d.w.fail("%s: %v", d.name, err)
	}
	d.listeners[service] = l
}

// qpn is an unused queue pair number, 0 if all are used.
func (d *device) qpn() uint32 {
	n := 1 << 20
	if d.w.fewQPNs {
		n = 6
	}
	for range 20 {
		if q := uint32(2 + d.w.rnd.IntN(n)); !d.qpns[q] {
			d.qpns[q] = true
			return q
		}
	}
	return 0
}

// turn takes from the machine what it gives, after each call.
func (d *device) turn() {
	var msg Message
	for d.m.PollTransmit(&msg) {
		d.sent++
		d.w.carry(d, &msg)
	}
	for {
		e, ok := d.m.PollEvent()
		if !ok {
			break
		}
		d.w.hear(d, &e)
	}
	if err := d.m.check(); err != nil {
		d.w.fail("%s: %v", d.name, err)
	}
	// A REQ, a REP and a DREQ are sent sixteen times at most, and as often there are answers to
	// copies, twice as many if the network doubles.
	if d.sent > 500*(d.made+20)+100*d.w.strikes {
		d.w.fail("%s has sent %d messages for %d ends", d.name, d.sent, d.made)
	}
}

// crash takes a device's machine and all its applications, and starts it anew.
func (d *device) crash() {
	d.w.note("%s crashes", d.name)
	for _, e := range d.w.ends {
		if e.d == d {
			e.dead = true
		}
	}
	d.crashed = d.w.now
	d.begin()
}

// carry takes a message to where it goes, or does what networks do.
func (w *world) carry(from *device, msg *Message) {
	if w.story != nil {
		to := msg.Path.Remote
		w.note("%s to %v: %s", from.name, to, wire.AppendMAD(nil, &msg.MAD))
	}
	copies := 1
	switch {
	case w.chance(w.loss):
		w.note("  it is lost")
		var rej wire.CMRej
		if wire.GetCM(&msg.MAD, &rej) == nil {
			w.lostREJ[rej.RemoteCommID] = true
		}
		return
	case w.chance(w.double):
		copies = 2
	}
	for range copies {
		mad, path := msg.MAD, msg.Path
		if w.chance(w.damage) {
			mad[24+w.rnd.IntN(wire.MADLen-24)] ^= 1 << w.rnd.IntN(8)
		}
		delay := Time(10_000 + w.rnd.IntN(1_000_000))
		if w.chance(w.slow) { // up to a packet's lifetime
			delay += Time(w.rnd.IntN(int(span(DefaultPacketLifetime))))
		}
		w.in(delay, func() { w.arrive(path, &mad) })
		if w.strangers && w.chance(0.3) {
			stranger := path
			stranger.Local = w.gid(99)
			w.in(delay/2, func() { w.arrive(stranger, &mad) })
		}
	}
}

// arrive gives a message to the device that it is for.
func (w *world) arrive(path Path, mad *wire.MAD) {
	for _, d := range w.devices {
		if d.gid == path.Remote {
			w.takes(d, Path{Local: path.Remote, Remote: path.Local, FlowLabel: path.FlowLabel}, mad)
			d.turn()
		}
	}
	if w.isFlood(path.Remote) {
		w.floodHears(path, mad)
	}
}

// relisten closes a listener, or listens again.
func (d *device) relisten() {
	service := services[d.w.rnd.IntN(len(services))]
	d.w.note("%s: service 0x%x: another listener", d.name, service)
	if l := d.listeners[service]; l != nil {
		l.Close(d.w.now)
		d.listeners[service] = nil
	} else {
		d.listen(service)
	}
	d.turn()
}
