package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// FailedError is a completion that was no success.
type FailedError struct {
	WC   roce.WC
	What string // the work request, "send 12"

	// MTU is the path MTU in bytes, and Option how to ask for another, where they are known.
	MTU    int
	Option string
}

// remedy is what to do about a path MTU that is too large.
func (e *FailedError) remedy() (s string) {
	if e.MTU != 0 {
		s = fmt.Sprintf("; it is %d", e.MTU)
	}
	if e.Option != "" {
		s += ", and " + e.Option + " sets it"
	}
	return s
}

// Unwrap is roce.ErrTooLong if that is why.
func (e *FailedError) Unwrap() error {
	if e.WC.Status == roce.WCRetryExcErr && e.WC.VendorErr == roce.VendorErrTooLong {
		return roce.ErrTooLong
	}
	return nil
}

// advice says for a status what a person can look at.
var advice = map[roce.WCStatus]string{
	roce.WCRetryExcErr: "the peer does not answer: is it still running, with the same transport service (RC, UC, " +
		"UD), is UDP port 4791 open between the two, is the MTU the same on both ends?",
	roce.WCRNRRetryExcErr: "the peer has no receive posted: do both ends use the same number of iterations?",
	roce.WCRemAccessErr: "the peer refuses the address or key: does it run the same test with at least " +
		"this message size?",
	roce.WCRemInvReqErr: "the peer finds the request invalid: are test, size and path MTU the same on both ends?",
	roce.WCRemOpErr:     "the peer could not do the operation: see what its end printed",
	roce.WCLocLenErr:    "a message was longer than the receive buffer: is the size the same on both ends?",
	roce.WCLocProtErr:   "a buffer of this end is not registered for this use: this is a mistake in the program",
	roce.WCLocQPOpErr:   "this end's queue pair could not do the operation: is the message size allowed here?",
	roce.WCWRFlushErr:   "the queue pair broke earlier: the first failure is the one that counts",
}

// Error says what failed, why in the words of the verbs, and what to try.
func (e *FailedError) Error() string {
	s := fmt.Sprintf("Failed status %v (%d) for %s on QP 0x%06x", e.WC.Status, e.WC.Status, e.What, e.WC.QPN)
	if why := e.Unwrap(); why != nil {
		return s + ": " + why.Error() + e.remedy()
	}
	if a := advice[e.WC.Status]; a != "" {
		s += ": " + a
	}
	return s
}

// Counters are what the device counted, by the names that IB devices and rxe use; those that are
// zero are left out.
func (s *Session) Counters() map[string]uint64 {
	counts := map[string]uint64{}
	stats := s.Stats()
	stats.Engine.Each(func(name string, n uint64) {
		if n > 0 {
			counts[name] = n
		}
	})
	return counts
}

// Explain adds to the error of a test what the device counted of packets that were lost, refused or
// sent again: where a mute peer's packets went. A peer that refuses a connection is not mute.
func (s *Session) Explain(err error) error {
	var refused *rdmacm.RejectedError
	if s == nil || s.Device == nil || err == nil || errors.As(err, &refused) {
		return err
	}
	var counts []string
	counters := s.Counters()
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		counts = append(counts, fmt.Sprintf("%s %d", name, counters[name]))
	}
	if e := s.Stats().Port.LastSendError; e != "" {
		counts = append(counts, "last send error: "+e)
	}
	if counts == nil {
		return fmt.Errorf("%w\n  %s has neither sent nor received a packet", err, s.Name())
	}
	return fmt.Errorf("%w\n  %s counted: %s", err, s.Name(), strings.Join(counts, ", "))
}
