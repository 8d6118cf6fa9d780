package fault

// Rules about packets and the link, as a port plays them.
// Stages: kinds of packets, actions, a list made ready for a direction, the link.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/wire"
)

// What rules of this package match.
const (
	Tx   = "tx"   // packets that the port sends
	Rx   = "rx"   // packets that it receives
	Link = "link" // the port's connection to the network
)

// kinds are the packets that can be asked for by a name. Others go by the name of their opcode,
// "RC_SEND_ONLY".
var kinds = []struct {
	name string
	is   func(p *wire.Packet) bool
}{
	{"SEND", flags(wire.OpSend)},
	{"WRITE", flags(wire.OpWrite)},
	{"READ", func(p *wire.Packet) bool { return has(p, wire.OpRead) && !has(p, wire.OpResponse) }},
	{"ATOMIC", func(p *wire.Packet) bool { return has(p, wire.OpAtomic) && !has(p, wire.OpResponse) }},
	{"RESPONSE", func(p *wire.Packet) bool {
		return has(p, wire.OpResponse) && (has(p, wire.OpRead) || has(p, wire.OpAtomic))
	}},
	{"ACK", acknowledges(wire.KindACK)},
	{"NAK", acknowledges(wire.KindNAK)},
	{"RNR", acknowledges(wire.KindRNR)},
	{"CNP", flags(wire.OpCNP)},
	{"MAD", func(p *wire.Packet) bool { return p.BTH.DestQP() == 1 }},
}

func has(p *wire.Packet, f wire.OpFlags) bool { return p.Op.Flags&f == f }

func flags(f wire.OpFlags) func(p *wire.Packet) bool {
	return func(p *wire.Packet) bool { return has(p, f) }
}

// acknowledges is an ACKNOWLEDGE packet of a kind.
func acknowledges(kind wire.SyndromeKind) func(p *wire.Packet) bool {
	return func(p *wire.Packet) bool {
		return has(p, wire.OpAck) && !has(p, wire.OpAtomic) && !has(p, wire.OpRead) &&
			p.AETH().Syndrome().Kind() == kind
	}
}

// packetRule is a rule about packets of one direction.
type packetRule struct {
	kind   string // "" is any
	is     func(p *wire.Packet) bool
	count  *Counter
	action func(f *fate)
}

// fate is what becomes of a frame.
type fate struct {
	lose, twice, damage, mark bool
	behind                    int           // frames still to come before it
	delay                     time.Duration // it comes so much later
}

// actions are what can be done to a packet. The function reads the value and returns what it does.
var actions = map[string]func(value string) (do func(f *fate), want string){
	"drop":      plain(func(f *fate) { f.lose = true }),
	"duplicate": plain(func(f *fate) { f.twice = true }),
	"corrupt":   plain(func(f *fate) { f.damage = true }),
	"ecn":       plain(func(f *fate) { f.mark = true }),
	"late": func(value string) (func(f *fate), string) {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return nil, "late=3, the number of packets that overtake it"
		}
		return func(f *fate) { f.behind = n }, ""
	},
	"delay": func(value string) (func(f *fate), string) {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || d > longest {
			return nil, "delay=2ms, up to 24h"
		}
		return func(f *fate) { f.delay = d }, ""
	},
}

func plain(do func(f *fate)) func(string) (func(f *fate), string) {
	return func(value string) (func(f *fate), string) {
		if value != "" {
			return nil, "the action without a value"
		}
		return do, ""
	}
}

// aboutPackets says whether a rule is for a port to play.
func (r Rule) aboutPackets() bool {
	side, _, _ := strings.Cut(r.Match, ".")
	return side == Tx || side == Rx
}

// AboutPort says whether a rule is for a port to play: about packets or the link.
func (r Rule) AboutPort() bool { return r.Match == Link || r.aboutPackets() }

// packetRules makes the rules of a direction ready.
func packetRules(rules []Rule, of string) (ready []*packetRule, err error) {
	for _, r := range rules {
		side, kind, _ := strings.Cut(r.Match, ".")
		if !r.aboutPackets() || side != of {
			continue
		}
		p := &packetRule{kind: kind}
		if p.is, err = r.kind(kind); err != nil {
			return nil, err
		}
		make, known := actions[r.Action]
		if !known {
			return nil, r.Errorf("no such action; there are drop, duplicate, corrupt, ecn, late=N and delay=TIME")
		}
		do, want := make(r.Value)
		if do == nil {
			return nil, r.Errorf("want %s", want)
		}
		if r.Action == "ecn" && of == Tx {
			return nil, r.Errorf("switches on the way mark packets: want rx")
		}
		p.action = do
		if p.count, err = r.Count(); err != nil {
			return nil, err
		}
		ready = append(ready, p)
	}
	return ready, nil
}

// kind returns what tells the packets of a kind.
func (r Rule) kind(name string) (func(p *wire.Packet) bool, error) {
	if name == "" {
		return func(*wire.Packet) bool { return true }, nil
	}
	var names []string
	for _, k := range kinds {
		if k.name == name {
			return k.is, nil
		}
		names = append(names, k.name)
	}
	for op := range 256 {
		if o := wire.Opcode(op); o.Info().Flags != 0 && opcodeName(o) == name {
			return func(p *wire.Packet) bool { return p.Opcode == o }, nil
		}
	}
	return nil, r.Errorf("no packets are of kind %q; there are %s, and opcodes such as %v",
		name, strings.Join(names, ", "), opcodeName(wire.RCSendOnly))
}

func opcodeName(o wire.Opcode) string { return strings.ReplaceAll(o.String(), " ", "_") }

// decide lets all rules count the frame, and returns what they want done.
func decide(rules []*packetRule, f *wire.Frame) (what fate) {
	if len(rules) == 0 {
		return what
	}
	var p wire.Packet
	parsed := wire.Parse(f, &p) == wire.DropNone
	for _, r := range rules {
		if (parsed && r.is(&p) || !parsed && r.kind == "") && r.count.Next() {
			r.action(&what)
		}
	}
	return what
}

// outage is a time without a link, from the opening of the port on.
type outage struct{ from, to time.Duration }

// longest is the longest time that a rule can have.
const longest = 24 * time.Hour

// outages are those of the rules, in their order in time; what overlaps or adjoins is one.
func outages(rules []Rule) (list []outage, err error) {
	for _, r := range rules {
		if r.Match != Link {
			continue
		}
		at, e1 := time.ParseDuration(r.Nth)
		for_, e2 := time.ParseDuration(r.Value)
		if e1 != nil || e2 != nil || r.Action != "down" || at < 0 || for_ <= 0 || at > longest || for_ > longest {
			return nil, r.Errorf("want link:TIME:down=TIME, as in link:1s:down=300ms, up to 24h each")
		}
		list = append(list, outage{at, at + for_})
	}
	slices.SortFunc(list, func(a, b outage) int { return cmp.Compare(a.from, b.from) })
	merged := list[:0]
	for _, o := range list {
		if n := len(merged); n > 0 && o.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, o.to)
		} else {
			merged = append(merged, o)
		}
	}
	return merged, nil
}
