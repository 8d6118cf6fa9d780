package qptest

// Making a failing world smaller: leave things out as long as it still fails in the same way.

import (
	"regexp"
	"slices"
)

// maxTries bounds how many worlds one search runs.
const maxTries = 600

// varying is what differs between two occurrences of one failure: numbers, names, bytes.
var varying = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+(\.[0-9]+)?|QP[0-9a-f]{6}|\b[A-C]\b`)

// Kind is a failure without what varies, shortened to its beginning.
func Kind(err error) string {
	s := varying.ReplaceAllString(err.Error(), "#")
	return s[:min(len(s), 160)]
}

// Shrink returns the smallest plan it finds that fails as p does, and its failure.
func Shrink(p *Plan, err error) (*Plan, error) {
	s := &shrinker{best: p, err: err, kind: Kind(err)}
	for before := -1; before != s.found && s.tries < maxTries; {
		before = s.found
		s.simplerLinks()
		s.fewerThings()
		s.simplerEnds()
	}
	return s.best, s.err
}

type shrinker struct {
	best  *Plan
	err   error
	kind  string
	tries int
	found int
}

// try runs the best plan with a change and keeps the change if the failure stays.
func (s *shrinker) try(change func(p *Plan)) bool {
	if s.tries++; s.tries > maxTries {
		return false
	}
	p := s.best.clone()
	change(p)
	err := p.Play(nil, nil, nil)
	if err == nil || Kind(err) != s.kind {
		return false
	}
	s.best, s.err = p, err
	s.found++
	return true
}

// clone copies a plan as deeply as changes reach.
func (p *Plan) clone() *Plan {
	c := *p
	c.Nodes, c.Conns, c.Acts = slices.Clone(p.Nodes), slices.Clone(p.Conns), slices.Clone(p.Acts)
	c.SRQs, c.Neighbours = slices.Clone(p.SRQs), slices.Clone(p.Neighbours)
	for i := range c.Conns {
		for j := range c.Conns[i].Ends {
			e := &c.Conns[i].Ends[j]
			e.Ops, e.Recvs = slices.Clone(e.Ops), slices.Clone(e.Recvs)
		}
	}
	return &c
}

func (s *shrinker) simplerLinks() {
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Faults = Faults{Delay: p.Faults.Delay} },
		func(p *Plan) { p.Faults.Loss = 0 },
		func(p *Plan) { p.Faults.Burst = Burst{} },
		func(p *Plan) { p.Faults.Duplicate = 0 },
		func(p *Plan) { p.Faults.Reorder = 0 },
		func(p *Plan) { p.Faults.Corrupt = 0 },
		func(p *Plan) { p.Faults.Jitter = 0 },
		func(p *Plan) { p.Faults.Rate = 0 },
		func(p *Plan) { p.Faults.Partition = nil },
		func(p *Plan) { p.Hopeless = false },
	} {
		before := s.best.clone()
		change(before)
		if before.String() != s.best.String() {
			s.try(change)
		}
	}
}

func (s *shrinker) fewerThings() {
	for i := len(s.best.Acts) - 1; i >= 0; i-- {
		s.try(func(p *Plan) { p.Acts = slices.Delete(p.Acts, i, i+1) })
	}
	for i := len(s.best.Neighbours) - 1; i >= 0; i-- {
		s.try(func(p *Plan) { p.Neighbours = slices.Delete(p.Neighbours, i, i+1) })
	}
	for i := range s.best.SRQs {
		s.try(func(p *Plan) { p.SRQs[i].Acts = nil })
		s.try(func(p *Plan) { p.unshare(i + 1) })
	}
	for c := range s.best.Conns {
		for e := range 2 {
			s.fewer(func(p *Plan) *[]OpPlan { return &p.Conns[c].Ends[e].Ops })
		}
	}
	for c := len(s.best.Conns) - 1; c >= 0 && len(s.best.Conns) > 1; c-- {
		s.try(func(p *Plan) {
			p.Conns = slices.Delete(p.Conns, c, c+1)
			p.Acts = slices.DeleteFunc(p.Acts, func(a Act) bool { return a.Conn == c })
			for i := range p.Acts {
				if p.Acts[i].Conn > c {
					p.Acts[i].Conn--
				}
			}
		})
	}
}

// fewer leaves out operations: halves first, then smaller runs. Receives that were drawn for them
// stay, as spare ones.
func (s *shrinker) fewer(list func(*Plan) *[]OpPlan) {
	for n := len(*list(s.best)); n >= 1; n /= 2 {
		for i := 0; i < len(*list(s.best)); {
			k := min(i+n, len(*list(s.best)))
			if !s.try(func(p *Plan) { *list(p) = slices.Delete(*list(p), i, k) }) {
				i += n
			}
		}
	}
}

func (s *shrinker) simplerEnds() {
	for c := range s.best.Conns {
		for e := range 2 {
			end := func(p *Plan) *EndPlan { return &p.Conns[c].Ends[e] }
			if end(s.best).RecvFirst < 100 {
				s.try(func(p *Plan) { end(p).RecvFirst, end(p).Cfg.Cap.MaxRecvWR = 100, 128 })
			}
			for i := range end(s.best).Ops {
				if len(end(s.best).Ops[i].Pieces) > 1 {
					s.try(func(p *Plan) { o := &end(p).Ops[i]; o.Pieces = []int{o.Len} })
				}
			}
		}
	}
	for i := range s.best.Nodes {
		s.simplerHardware(i)
		if n := s.best.Nodes[i]; n.Budget+n.Batch+n.MaxRun > 0 {
			s.try(func(p *Plan) { n := &p.Nodes[i]; n.Budget, n.Batch, n.MaxRun = 0, 0, 0 })
		}
	}
}

// simplerHardware takes habits from node i: all, or each that it can do without.
func (s *shrinker) simplerHardware(i int) {
	for _, change := range []func(n *NodeConfig){
		func(n *NodeConfig) { n.Hardware = Hardware{} },
		func(n *NodeConfig) { n.Hardware.MigReq = false },
		func(n *NodeConfig) { n.Hardware.Port = 0 },
		func(n *NodeConfig) { n.Hardware.CNP = false },
		func(n *NodeConfig) { n.Hardware.Identification = IDOwn },
		func(n *NodeConfig) { n.Hardware.Marks = false },
		func(n *NodeConfig) { n.Hardware.DSCP = 0 },
		func(n *NodeConfig) { n.Hardware.Credits = CreditsNone },
		func(n *NodeConfig) { n.Hardware.AskAlways = false },
		func(n *NodeConfig) { n.Hardware.AckEvery = 0 },
		func(n *NodeConfig) { n.Hardware.AckFirst = false },
		func(n *NodeConfig) { n.Hardware.RepeatNAK = 0 },
		func(n *NodeConfig) { n.Hardware.Continues = false },
		func(n *NodeConfig) { n.Hardware.Rereads = 0 },
		func(n *NodeConfig) { n.SynthHead = false },
	} {
		after := s.best.Nodes[i]
		if change(&after); after.Hardware != s.best.Nodes[i].Hardware || after.SynthHead != s.best.Nodes[i].SynthHead {
			s.try(func(p *Plan) { change(&p.Nodes[i]) })
		}
	}
}
