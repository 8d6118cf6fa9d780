package roce

// Multicast on a real Ethernet: the kernel tells the network of memberships while there are any.

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/netns"
)

// member tells whether the interface of a namespace is in a group, as its kernel reports it.
func member(ns *netns.Namespace, group string) bool {
	var out []byte
	ns.Do(func() { out, _ = exec.Command("ip", "maddr", "show", "dev", "wire").Output() })
	return strings.Contains(string(out), " "+group+"\n") || strings.Contains(string(out), " "+group+" ")
}

// groupTest is four queue pairs on two devices, of which the first sends to groups.
type groupTest struct {
	t      *testing.T
	groups map[string]GID
	all    []*end
	heard  int // datagrams that the sender has heard of itself before it knew that they had left
}

func newGroupTest(t *testing.T, devices []*Device, groups ...string) *groupTest {
	g := &groupTest{t: t, groups: map[string]GID{}}
	for _, d := range devices {
		e := newEnd(t, d, UD, 4096)
		must(t, e.qp.Activate(9))
		for i := range 4 {
			e.recv(uint64(i), e.mr.SGE(0, 100))
		}
		g.all = append(g.all, e)
	}
	for _, text := range groups {
		gid, err := ParseGID(text)
		must(t, err)
		g.groups[text] = gid
	}
	return g
}

func (g *groupTest) attach(e *end, group string) { must(g.t, e.qp.AttachMcast(g.groups[group])) }
func (g *groupTest) detach(e *end, group string) { must(g.t, e.qp.DetachMcast(g.groups[group])) }

// is holds whether an interface is in a group against what it should be.
func (g *groupTest) is(ns *netns.Namespace, group string, want bool) {
	g.t.Helper()
	if member(ns, group) != want {
		g.t.Errorf("the interface is in %s: %v, want %v", group, !want, want)
	}
}

// send sends to a group from the first row of the group's IP version; those who hear it can answer.
func (g *groupTest) send(group string, hear ...*end) {
	t, sender, row := g.t, g.all[0], 0
	t.Helper()
	gids := sender.dev.GIDs()
	for gids[row].Is4() != g.groups[group].Is4() {
		row++
	}
	ah, err := sender.pd.CreateAH(bg, AHAttr{DGID: g.groups[group], SGIDIndex: uint8(row), HopLimit: 1})
	must(t, err)
	sender.post(SendWR{Opcode: WRSend, Flags: SendInline, Inline: []byte("all"), AH: ah, RemoteQPN: 0xffffff, RemoteQKey: 9})
	for sender.wait().Opcode != WCSend {
		g.heard++
	}
	for _, e := range hear {
		if e == sender && g.heard > 0 {
			g.heard--
		} else if wc := e.wait(); wc.Opcode != WCRecv || wc.ByteLen != GRHSize+3 || wc.SrcQP != sender.qp.QPN() {
			t.Errorf("%s: %+v", group, wc)
		}
		back, err := e.pd.CreateAHFromWC(bg, &WC{Opcode: WCRecv, Flags: WCGRH}, e.buf)
		must(t, err)
		if back.Attr().DGID != gids[row] {
			t.Errorf("%s: the answer goes to %v", group, back.Attr().DGID)
		}
		must(t, e.pd.DestroyAH(back))
	}
	must(t, sender.pd.DestroyAH(ah))
}

// TestGroupsOnEthernet: several queue pairs in a group, several groups of a queue pair, IPv4 and
// IPv6. Who is attached hears what is sent, at the sender's own device too, and the sender itself;
// the interface is in a group from the first attachment to the end of the last.
func TestGroupsOnEthernet(t *testing.T) {
	const four, six = "239.7.7.9", "ff15::7:9"
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			da, db := openIn(t, w.Left, kind+":wire"), openIn(t, w.Right, kind+":wire")
			g := newGroupTest(t, []*Device{da, da, db, db}, four, six)
			sender, neighbour, b, c := g.all[0], g.all[1], g.all[2], g.all[3]
			for _, e := range []*end{sender, neighbour, b} {
				g.attach(e, four)
			}
			g.attach(b, six)
			g.attach(c, six)
			g.is(w.Left, four, true)
			g.is(w.Left, six, false)
			g.is(w.Right, four, true)
			g.is(w.Right, six, true)
			g.send(four, sender, neighbour, b)
			g.send(six, b, c)

			g.detach(b, four)
			g.detach(sender, four)
			g.is(w.Left, four, true)
			g.is(w.Right, four, false)
			g.send(six, b, c)
			g.send(four, neighbour)
			g.detach(neighbour, four)
			g.is(w.Left, four, false)
			must(t, c.qp.Close())
			g.is(w.Right, six, true)
			must(t, b.qp.Close())
			g.is(w.Right, six, false)
			for _, e := range g.all[:2] {
				if n, _ := e.cq.Poll(make([]WC, 1)); n != 0 {
					t.Error("a queue pair heard more than it should")
				}
			}
		})
	}
}
