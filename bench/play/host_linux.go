package play

// The stage on this machine as a theatre: the one where the network's MTU can be chosen and where
// processor time is told.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/stage"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

// hostStage is the stage as a theatre.
type hostStage struct {
	*stage.Stage
	congestion string     // what TCP does where a play does not choose
	link       stage.Link // as it is now
}

// newHostStage makes the stage, with the usual congestion control if the kernel has it.
func newHostStage() (*hostStage, error) {
	s, err := stage.New(figures.JumboMTU)
	if err != nil {
		return nil, err
	}
	h := &hostStage{Stage: s, congestion: figures.UsualCongestion}
	if h.be(figures.Link{MTU: figures.JumboMTU}) == nil {
		return h, nil
	}
	h.congestion = ""
	if err := h.be(figures.Link{MTU: figures.JumboMTU}); err != nil {
		s.Close()
		return nil, err
	}
	return h, nil
}

// be changes the link, unless it is so already.
func (h *hostStage) be(wanted figures.Link) error {
	l := stage.Link{MTU: cmp.Or(wanted.MTU, h.link.MTU), InOrder: wanted.InOrder, Big: wanted.Big,
		Congestion: cmp.Or(wanted.Congestion, h.congestion)}
	if l == h.link {
		return nil
	}
	if err := h.SetLink(l); err != nil {
		h.link = stage.Link{} // it may be so in part
		return err
	}
	h.link = l
	return nil
}

func (h *hostStage) perform(ctx context.Context, p figures.Play, limit time.Duration) (said heard, err error) {
	if err := h.be(p.Link); err != nil {
		return said, err
	}
	for _, c := range p.Before {
		if _, err := h.A.Run(ctx, stage.Program(c), limit); err != nil {
			return said, err
		}
	}
	said.others = othersLoad(shortLook)
	m := startMeter()
	o, err := h.run(ctx, p, limit)
	readings := m.end()
	said.server, said.client = o.Server, o.Client
	l, tooShort := loadOf(readings, o.Began, o.Ended, cmp.Or(p.Margin, aQuarter))
	if tooShort != nil {
		said.noCost = tooShort.Error()
		return said, err
	}
	said.load, said.noCost = &l, l.whyNoCost(said.others)
	return said, err
}

// run performs a play of two, or of a client alone.
func (h *hostStage) run(ctx context.Context, p figures.Play, limit time.Duration) (o stage.Outcome, err error) {
	if len(p.Server.Args) > 0 {
		run := h.Run
		if p.Together {
			run = h.RunTogether
		}
		return run(ctx, stage.Play{Server: stage.Program(p.Server), Client: stage.Program(p.Client),
			Ready: stage.Port{Proto: p.Proto, Number: p.Port}, Limit: limit, Stays: p.Stays})
	}
	o.Began = time.Now()
	o.Client, err = h.A.Run(ctx, stage.Program(p.Client), limit)
	o.Ended = time.Now()
	return o, err
}

// ends are the two sides as command lines name them.
func (h *hostStage) ends() (a, b figures.Side) {
	side := func(e *stage.End) figures.Side { return figures.Side{Interface: e.Interface, Addr: e.Addr, MAC: e.MAC} }
	return side(h.A), side(h.B)
}

// congestionControl is what TCP does on the stage where neither a play nor a program chooses.
func (h *hostStage) congestionControl() (name string) {
	if h.congestion != "" {
		return h.congestion
	}
	h.A.Do(func() error {
		text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
		name = strings.TrimSpace(string(text))
		return err
	})
	return name
}

// workingPorts are the ports of the stage that roce has a device on, and why there is none on the
// others.
func workingPorts(ctx context.Context, h *hostStage, set figures.Setting) (ports, missing []string) {
	for _, port := range repertoire.AllPorts {
		if err := tryPort(ctx, h, set, port); err != nil {
			missing = append(missing, err.Error())
			continue
		}
		ports = append(ports, port)
	}
	return ports, missing
}

// tryPort asks roce for its device on a port.
func tryPort(ctx context.Context, h *hostStage, set figures.Setting, port string) error {
	if _, err := h.A.Run(ctx, stage.Program(repertoire.Words(set.Roce+" devinfo -d "+port+":"+set.A.Interface)),
		30*time.Second); err != nil {
		return fmt.Errorf("goroce on port %s: %w", port, err)
	}
	return nil
}
