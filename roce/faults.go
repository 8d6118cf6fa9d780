package roce

// Faults on purpose: what Config.Faults makes fail. docs/faults.md explains the rules to users.
// Stages: reading the list; verbs; work requests; what the port plays.
//
// Whoever asks has no rules mostly, so all methods work on nil.

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/fault"
)

// faultsEnv is the environment variable with the list of a Config without one.
const faultsEnv = "GOROCE_FAULTS"

// faults are the rules of a device.
type faults struct {
	mu    sync.Mutex // counting
	verbs []verbFault
	sends []sendFault
	recvs []recvFault
	port  []fault.Rule
	text  string // of a rule that not every kind of device can play; "" if there is none
}

type verbFault struct {
	verb  string
	count *fault.Counter
	err   error
}

type sendFault struct {
	any    bool
	op     WROpcode
	count  *fault.Counter
	status WCStatus
}

type recvFault struct {
	count  *fault.Counter
	status WCStatus
}

// What rules match, besides packets and the link.
const (
	matchSend = "wr"   // send work requests; wr.SEND: of one operation
	matchRecv = "recv" // messages that need a receive request
)

// CheckFaults says what is wrong with a list of Config.Faults, or if it is "" with that of the
// environment: ErrInvalid, with the rule and the reason. So a program can refuse a wrong list
// before it opens a device. Which rules a kind of device can play at all, Open says.
func CheckFaults(list string) error {
	_, err := newFaults(list)
	return err
}

// newFaults reads a list of rules; nil if it is empty.
func newFaults(text string) (*faults, error) {
	if text == "" {
		text = os.Getenv(faultsEnv)
	}
	rules, err := fault.Parse(text)
	if err == nil {
		err = fault.Check(rules)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	f := &faults{}
	for _, r := range rules {
		if err := f.add(r); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return f, nil
}

func (f *faults) add(r fault.Rule) error {
	match, kind, _ := strings.Cut(r.Match, ".")
	if r.AboutPort() {
		f.port, f.text = append(f.port, r), r.String()
		return nil
	}
	count, err := r.Count()
	switch {
	case err != nil:
		return err
	case r.Value != "":
		return r.Errorf("the action has no value")
	case match == matchSend:
		f.text = r.String()
		return f.addSend(r, kind, count)
	case r.Match == matchRecv:
		f.text = r.String()
		return f.addRecv(r, count)
	}
	return f.addVerb(r, count)
}

// faultyVerbs are the calls that can be made to fail: by the names that errors have.
// PostSend is WRComplete too, PostRecv an SRQ's too; Modify and Query are a queue pair's.
var faultyVerbs = []string{"AllocPD", "RegMR", "CreateCQ", "CreateCompChannel", "AllocMW", "CreateAH", "CreateSRQ",
	"OpenXRCD", "CreateQP", "Modify", "Query", "AttachMcast", "DetachMcast", "BindMW", "Resize", "ReqNotify",
	"PostSend", "PostRecv"}

// errnos are what they can fail with, and what that is among this package's errors.
var errnos = map[string]struct {
	errno syscall.Errno
	kind  error
}{
	"EINVAL":     {syscall.EINVAL, ErrInvalid},
	"ENOMEM":     {syscall.ENOMEM, ErrLimit},
	"EBUSY":      {syscall.EBUSY, ErrBusy},
	"EBADF":      {syscall.EBADF, ErrClosed},
	"EOPNOTSUPP": {syscall.EOPNOTSUPP, ErrNotSupported},
	"EAGAIN":     {syscall.EAGAIN, nil},
	"EFAULT":     {syscall.EFAULT, nil},
	"EINTR":      {syscall.EINTR, nil},
	"EIO":        {syscall.EIO, nil},
	"ENODEV":     {syscall.ENODEV, nil},
	"ENOSPC":     {syscall.ENOSPC, nil},
	"EPERM":      {syscall.EPERM, nil},
	"ETIMEDOUT":  {syscall.ETIMEDOUT, nil},
}

func (f *faults) addVerb(r fault.Rule, count *fault.Counter) error {
	if !slices.Contains(faultyVerbs, r.Match) {
		return r.Errorf("nothing is called %q; there are tx, rx, link, wr, recv, and the verbs %s",
			r.Match, strings.Join(faultyVerbs, ", "))
	}
	e, ok := errnos[r.Action]
	if !ok {
		return r.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(errnos)), ", "))
	}
	kind := e.kind
	if strings.HasPrefix(r.Match, "Post") && r.Action == "ENOMEM" {
		kind = ErrFull
	}
	err := fmt.Errorf("%w (on purpose: %v)", e.errno, r)
	if kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	f.verbs = append(f.verbs, verbFault{r.Match, count, err})
	return nil
}

// verb is the error that a call is to fail with, or nil.
func (f *faults) verb(name string) (err error) {
	if f == nil || f.verbs == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.verbs {
		if v.verb == name && v.count.Next() {
			err = v.err
		}
	}
	return err
}

// wcStatuses are the statuses of completions by the verbs' names without IBV_WC_.
var wcStatuses = map[string]WCStatus{
	"LOC_LEN_ERR": WCLocLenErr, "LOC_QP_OP_ERR": WCLocQPOpErr, "LOC_PROT_ERR": WCLocProtErr,
	"WR_FLUSH_ERR": WCWRFlushErr, "MW_BIND_ERR": WCMWBindErr, "BAD_RESP_ERR": WCBadRespErr,
	"LOC_ACCESS_ERR": WCLocAccessErr, "REM_INV_REQ_ERR": WCRemInvReqErr, "REM_ACCESS_ERR": WCRemAccessErr,
	"REM_OP_ERR": WCRemOpErr, "RETRY_EXC_ERR": WCRetryExcErr, "RNR_RETRY_EXC_ERR": WCRNRRetryExcErr,
	"FATAL_ERR": WCFatalErr, "GENERAL_ERR": WCGeneralErr,
}

func (f *faults) addSend(r fault.Rule, kind string, count *fault.Counter) error {
	s := sendFault{any: kind == "", count: count}
	if !s.any {
		op, ok := sendOpcode(kind)
		if !ok {
			return r.Errorf("no operation is called %q; there are SEND, RDMA_WRITE, RDMA_READ and so on", kind)
		}
		s.op = op
	}
	status, ok := wcStatuses[r.Action]
	if !ok {
		return r.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(wcStatuses)), ", "))
	}
	s.status = status
	f.sends = append(f.sends, s)
	return nil
}

// sendOpcode finds an operation by its verbs name.
func sendOpcode(name string) (WROpcode, bool) {
	for op := range WROpcode(^uint8(0)) {
		if op.String() == name && !strings.Contains(name, "(") { // WROpcode(99) is none
			return op, true
		}
	}
	return 0, false
}

func (f *faults) addRecv(r fault.Rule, count *fault.Counter) error {
	if r.Action == "RNR" {
		f.recvs = append(f.recvs, recvFault{count, qp.NoRecv})
		return nil
	}
	want := []string{"RNR"}
	for _, name := range slices.Sorted(maps.Keys(wcStatuses)) {
		if status := wcStatuses[name]; status != qp.NoRecv && qp.RecvCanFail(status) {
			if name == r.Action {
				f.recvs = append(f.recvs, recvFault{count, status})
				return nil
			}
			want = append(want, name)
		}
	}
	return r.Errorf("want one of %s", strings.Join(want, ", "))
}

// purpose is what the engine asks.
func (f *faults) purpose() (p qp.Purpose) {
	if f != nil && f.sends != nil {
		p.Send = f.send
	}
	if f != nil && f.recvs != nil {
		p.Recv = f.recv
	}
	return p
}

func (f *faults) send(op WROpcode) (status WCStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sends {
		if (s.any || s.op == op) && s.count.Next() {
			status = s.status
		}
	}
	return status
}

func (f *faults) recv() (status WCStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.recvs {
		if r.count.Next() {
			status = r.status
		}
	}
	return status
}

// wrap puts what the port is to play between it and next, which may be nil: next sees the packets
// as the engine does.
func (f *faults) wrap(next func(transport.Port) transport.Port) func(transport.Port) transport.Port {
	if f == nil || f.port == nil {
		return next
	}
	return func(p transport.Port) transport.Port {
		p = fault.Wrap(p, fault.Config{Rules: f.port})
		if next != nil {
			p = next(p)
		}
		return p
	}
}

// onlyVerbs is an error if there are other rules.
func (f *faults) onlyVerbs() error {
	if f == nil || f.text == "" {
		return nil
	}
	return fmt.Errorf("%w: fault rule %q: a device of the kernel can only have verbs that fail",
		ErrNotSupported, f.text)
}
