package roce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faulty opens two devices on a wire, the first with rules, and connects an end of each.
func faulty(t *testing.T, rules string) (a, b *end) {
	t.Helper()
	da, db := openPipes(t, nil)
	must(t, da.Close())
	bad, err := Open(da.Name(), &Config{Faults: rules})
	must(t, err)
	t.Cleanup(func() { must(t, bad.Close()) })
	a, b = newEnd(t, bad, RC, 4096), newEnd(t, db, RC, 4096)
	connect(t, a, b)
	return a, b
}

// verbCalls are calls of the verbs that can be made to fail; keep is given what undoes them.
var verbCalls = map[string]func(e *end, keep func(func() error)) error{
	"AllocPD": func(e *end, keep func(func() error)) error {
		x, err := e.dev.AllocPD()
		keep(func() error { return x.Close() })
		return err
	},
	"RegMR": func(e *end, keep func(func() error)) error {
		x, err := e.pd.RegMR(make([]byte, 8), 0)
		keep(func() error { return x.Close() })
		return err
	},
	"CreateCQ": func(e *end, keep func(func() error)) error {
		x, err := e.dev.CreateCQ(CQInitAttr{CQE: 1})
		keep(func() error { return x.Close() })
		return err
	},
	"CreateCompChannel": func(e *end, keep func(func() error)) error {
		x, err := e.dev.CreateCompChannel()
		keep(func() error { return x.Close() })
		return err
	},
	"CreateSRQ": func(e *end, keep func(func() error)) error {
		x, err := e.pd.CreateSRQ(SRQInitAttr{})
		keep(func() error { return x.Close() })
		return err
	},
	"OpenXRCD": func(e *end, keep func(func() error)) error {
		x, err := e.dev.OpenXRCD()
		keep(func() error { return x.Close() })
		return err
	},
	"Resize": func(e *end, _ func(func() error)) error { return e.cq.Resize(16) },
	"BindMW": func(e *end, _ func(func() error)) error {
		err := e.qp.BindMW(nil, MWBindAttr{})
		if errors.Is(err, ErrInvalid) {
			return nil // there is no window
		}
		return err
	},
	"AllocMW": func(e *end, keep func(func() error)) error {
		x, err := e.pd.AllocMW(MWType2)
		keep(func() error { return x.Close() })
		return err
	},
	"CreateAH": func(e *end, keep func(func() error)) error {
		x, err := e.pd.CreateAH(bg, AHAttr{DGID: e.dev.GIDs()[0]})
		keep(func() error { return e.pd.DestroyAH(x) })
		return err
	},
	"CreateQP": func(e *end, keep func(func() error)) error {
		x, err := e.pd.CreateQP(QPInitAttr{SendCQ: e.cq})
		keep(func() error { return x.Close() })
		return err
	},
	"Modify":   func(e *end, _ func(func() error)) error { return e.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState) },
	"Query":    func(e *end, _ func(func() error)) error { _, err := e.qp.Query(); return err },
	"PostSend": func(e *end, _ func(func() error)) error { return e.qp.PostSend() },
	"PostRecv": func(e *end, _ func(func() error)) error { return e.qp.PostRecv() },
	"ReqNotify": func(e *end, _ func(func() error)) error {
		return e.cq.ReqNotify(false)
	},
	"AttachMcast": func(e *end, _ func(func() error)) error { return groupError(e.qp.AttachMcast(group(e.t))) },
	"DetachMcast": func(e *end, _ func(func() error)) error { return groupError(e.qp.DetachMcast(group(e.t))) },
}

// TestFaultyVerbs: each verb that can be made to fail fails the second time, with the error that
// the rule names, and not the third time.
func TestFaultyVerbs(t *testing.T) {
	for _, verb := range faultyVerbs {
		t.Run(verb, func(t *testing.T) {
			call := verbCalls[verb]
			if call == nil {
				t.Fatal("the test has no call of it")
			}
			rules := fmt.Sprintf("%s:%d:EPERM", verb, madeBefore[verb]+2)
			d, err := Open("pipe:"+verb, &Config{Faults: rules})
			must(t, err)
			e := &end{t: t, dev: d}
			e.pd, err = d.AllocPD()
			must(t, err)
			e.ch, err = d.CreateCompChannel()
			must(t, err)
			e.cq, err = d.CreateCQ(CQInitAttr{CQE: 8, Channel: e.ch})
			must(t, err)
			e.qp, err = e.pd.CreateQP(QPInitAttr{SendCQ: e.cq})
			must(t, err)
			must(t, e.qp.Init(nil))
			var closers []func() error
			for i := range 3 {
				err := call(e, func(f func() error) { closers = append(closers, f) })
				if !errors.Is(err, syscall.EPERM) {
					if i == 1 || err != nil && verb != "PostSend" {
						t.Errorf("call %d: %v", i+1, err)
					}
					continue
				}
				if i != 1 {
					t.Errorf("call %d fails too: %v", i+1, err)
				}
				closers = closers[:max(0, len(closers)-1)] // nothing was made
				if text := err.Error(); !strings.Contains(text, rules) || !strings.Contains(text, verb+" on") {
					t.Errorf("%q does not name the rule and the call", text)
				}
			}
			closers = append(closers, e.qp.Close, e.cq.Close, e.ch.Close, e.pd.Close, d.Close)
			for _, f := range closers {
				must(t, f())
			}
		})
	}
}

// madeBefore is how often the test has called a verb before it begins.
var madeBefore = map[string]int{"AllocPD": 1, "CreateCompChannel": 1, "CreateCQ": 1, "CreateQP": 1, "Modify": 1}

func group(t testing.TB) GID {
	g, err := ParseGID("233.252.0.1")
	must(t, err)
	return g
}

// groupError passes over what a queue pair that is not UD says.
func groupError(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return err
	}
	return nil
}

// TestFaultErrnos: each is the errno, and what this package calls it.
func TestFaultErrnos(t *testing.T) {
	for name, e := range errnos {
		f, err := newFaults("AllocPD:1:" + name + ",PostSend:1:" + name)
		must(t, err)
		got, post := f.verb("AllocPD"), f.verb("PostSend")
		if !errors.Is(got, e.errno) || e.kind != nil && !errors.Is(got, e.kind) || !errors.Is(post, e.errno) {
			t.Errorf("%s: %v", name, got)
		}
		if name == "ENOMEM" && !errors.Is(post, ErrFull) {
			t.Errorf("PostSend: %v", post)
		}
	}
}

// TestWrongFaults: Open refuses rules that it does not understand.
func TestWrongFaults(t *testing.T) {
	for rules, want := range map[string]string{
		"Frobnicate:1:ENOMEM":            "AllocPD, RegMR",
		"AllocPD:1:drop":                 "EAGAIN",
		"AllocPD:1:ENOMEM=3":             "no value",
		"wr.FOO:1:LOC_PROT_ERR":          "SEND, RDMA_WRITE",
		"wr.WROpcode(99):1:LOC_PROT_ERR": "SEND, RDMA_WRITE",
		"wr:1:drop":                      "LOC_PROT_ERR",
		"recv:1:WR_FLUSH_ERR":            "RNR, LOC_LEN_ERR",
		"tx.SEND:1:delay":                "delay=2ms",
		"tx:1":                           "MATCH:NTH:ACTION",
	} {
		d, err := Open("pipe:"+t.Name(), &Config{Faults: rules})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", rules, err, want)
		}
		if err == nil {
			must(t, d.Close())
		}
	}
}

// TestFaultyEnvironment: the variable stands for a Config without rules.
func TestFaultyEnvironment(t *testing.T) {
	t.Setenv(faultsEnv, "AllocPD:1:EBUSY")
	d, err := Open("pipe:"+t.Name(), nil)
	must(t, err)
	if _, err := d.AllocPD(); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	must(t, d.Close())
	d, err = Open("pipe:"+t.Name(), &Config{Faults: "AllocPD:2:EBUSY"})
	must(t, err)
	p, err := d.AllocPD()
	must(t, err)
	must(t, p.Close())
	must(t, d.Close())
}

// TestFaultySends: a send request ends with the status that the rule names, those before it well,
// those behind it flushed, and the queue pair is in ERR.
func TestFaultySends(t *testing.T) {
	for name, status := range wcStatuses {
		t.Run(name, func(t *testing.T) {
			a, b := faulty(t, "wr.RDMA_WRITE:2:"+name)
			for id := range uint64(4) {
				op := WRWrite
				if id == 1 {
					op = WRRead
				}
				a.post(SendWR{WRID: id, Opcode: op, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			}
			for id, want := range []WCStatus{WCSuccess, WCSuccess, status, WCWRFlushErr} {
				if wc := a.waitAny(); wc.Status != want || wc.WRID != uint64(id) {
					t.Errorf("request %d ends with %v, want %d with %v", wc.WRID, wc.Status, id, want)
				}
			}
			if s := a.qp.State(); s != StateErr {
				t.Errorf("the queue pair is in %v", s)
			}
		})
	}
}

// TestFaultyReceives: RNR costs time and loses nothing; any other status ends the receive request
// with it, and the peer's request with what the responder's NAK says.
func TestFaultyReceives(t *testing.T) {
	peers := map[string]WCStatus{
		"LOC_LEN_ERR":     WCRemInvReqErr,
		"LOC_PROT_ERR":    WCRemOpErr,
		"REM_ACCESS_ERR":  WCRemAccessErr,
		"REM_INV_REQ_ERR": WCRemInvReqErr,
	}
	for name, theirs := range peers {
		t.Run(name, func(t *testing.T) {
			a, b := faulty(t, "recv:2:"+name)
			for id := range uint64(2) {
				a.recv(id, a.mr.SGE(0, 64))
				b.post(SendWR{WRID: id, Opcode: WRSend, SGL: []SGE{b.mr.SGE(0, 8)}})
			}
			for id, want := range [][2]WCStatus{{WCSuccess, WCSuccess}, {wcStatuses[name], theirs}} {
				mine, his := a.waitAny(), b.waitAny()
				if mine.Status != want[0] || mine.WRID != uint64(id) || his.Status != want[1] {
					t.Errorf("message %d: %v here and %v there, want %v", id, mine.Status, his.Status, want)
				}
			}
		})
	}
	t.Run("RNR", func(t *testing.T) {
		a, b := faulty(t, "recv:1-3:RNR")
		a.recv(1, a.mr.SGE(0, 64))
		b.post(SendWR{Opcode: WRSend, SGL: []SGE{b.mr.SGE(0, 8)}})
		a.wait()
		b.wait()
		if n := a.dev.Stats().Engine.SentRNR; n != 3 {
			t.Errorf("%d RNR NAKs, want 3", n)
		}
	})
}

// TestFaultyDatagrams: a UD queue pair drops for want of a request, and ends one with a status.
func TestFaultyDatagrams(t *testing.T) {
	da, db := openPipes(t, nil)
	must(t, da.Close())
	bad, err := Open(da.Name(), &Config{Faults: "recv:1:RNR,recv:2:LOC_PROT_ERR"})
	must(t, err)
	t.Cleanup(func() { must(t, bad.Close()) })
	a, b := newEnd(t, bad, UD, 4096), newEnd(t, db, UD, 4096)
	const key = 0x1234
	must(t, a.qp.Activate(key))
	must(t, b.qp.Activate(key))
	ah, err := b.pd.CreateAH(bg, AHAttr{DGID: bad.GIDs()[0]})
	must(t, err)
	t.Cleanup(func() { must(t, b.pd.DestroyAH(ah)) })
	for id := range uint64(2) {
		a.recv(id, a.mr.SGE(0, 256))
	}
	for id := range uint32(3) {
		b.post(SendWR{Opcode: WRSendWithImm, Imm: id, AH: ah, RemoteQPN: a.qp.QPN(), RemoteQKey: key})
		b.wait()
	}
	first, second := a.waitAny(), a.waitAny()
	if first.Status != WCLocProtErr || first.Imm != 1 || second.Status != WCSuccess || second.Imm != 2 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestFaultyPackets: rules reach the port, and what they do is repaired.
func TestFaultyPackets(t *testing.T) {
	a, b := faulty(t, "tx.WRITE:1:drop,rx.ACK:1:drop,rx.ACK:3:duplicate,tx.WRITE:4:delay=1ms")
	for id := range uint64(20) {
		a.post(SendWR{WRID: id, Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.wait()
	}
	if n := a.dev.Stats().Engine.SentPkts; n < 22 {
		t.Errorf("%d packets were sent, 20 and two again are needed", n)
	}
}

// TestFaultyLink: the device tells of a link that goes down and up again, and what is sent
// meanwhile arrives late.
func TestFaultyLink(t *testing.T) {
	a, b := faulty(t, "link:1ms:down=30ms")
	a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.wait()
	ctx, stop := context.WithTimeout(bg, time.Minute)
	defer stop()
	var got []EventType
	for len(got) < 2 {
		e, err := a.dev.Events().Get(ctx)
		must(t, err)
		if e.Type == EventPortErr || e.Type == EventPortActive {
			got = append(got, e.Type)
		}
	}
	if !slices.Equal(got, []EventType{EventPortErr, EventPortActive}) {
		t.Errorf("%v", got)
	}
}
