package perf

// The out-of-band messages of perftest 4.5 (it calls itself 6.06) and the lock-step rounds that
// carry them: in every round the TCP client writes first and the server answers.
//
// Stages: the preamble (version, buffer cycle, cache line, MTU; among ourselves the options), the
// key of a queue pair, the bandwidth report, the close.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/oob"
	"github.com/goroce/goroce/wire"
)

const (
	version    = "6.06"
	minVersion = 5.70 // older ones exchange reports of another size
	versionLen = 16

	// an emulated guest needs seconds between two messages, a stuck one for ever
	answerTime = 60 * time.Second
)

// mark follows the version of our own ends, where perftest has zeros and does not look: two such
// ends have rounds of their own. Behind it stand letters, one for each thing that the end is ready
// for; what both are ready for is done.
const (
	mark = "goroce2"
	// selective repeat; 's' was its first form, whose NAKs named gaps in another way
	readySelective = 'g'
	// a long window with it; 'w' was its first form, with at most max_rd_atomic READs outstanding
	readyLong = 'l'
	// a round more in the preamble, in which the options are compared
	readyGame = 'o'
)

const gameLen = 64 // of the message with the options

// link is the out-of-band connection with its rule of who writes first.
type link struct {
	carrier
	client bool
	ours   bool // the peer is this program too
	long   bool // and takes a long window with selective repeat
	cm     bool // the carrier is a control: keys are no text
}

// swap is one round: it sends mine and fills theirs, waiting for no longer than limit. Rounds that
// wait for the end of a test have no limit (0).
func (l *link) swap(mine, theirs []byte, limit time.Duration) error {
	if l.client {
		if err := l.Send(mine); err != nil {
			return err
		}
	}
	if err := l.RecvWithin(limit, theirs); err != nil {
		if limit == 0 && errors.Is(err, oob.ErrClosed) {
			return oob.ErrPeerLeft
		}
		return err
	}
	if l.client {
		return nil
	}
	return l.Send(mine)
}

// terms are what both ends agree on before the first key.
type terms struct {
	// addresses of small messages wander through this many bytes: the larger page size
	cycle     int
	cacheLine int // small messages lie this far apart: the larger cache line
	mtu       wire.MTU
	// losses are repaired by selective repeat: both ends are this program and want it
	selective bool
	game      string // Options.game
}

// preamble agrees on the terms: versions must be compatible, then the larger cycle and cache line
// and the smaller MTU win.
func (l *link) preamble(mine terms) (terms, error) {
	theirs := make([]byte, versionLen)
	own := []byte(version + "\x00" + mark)
	if mine.selective {
		own = append(own, readySelective, readyLong)
	}
	own = append(own, readyGame)
	if err := l.swap(append(own, make([]byte, versionLen-len(own))...), theirs, answerTime); err != nil {
		return mine, err
	}
	v, rest, _ := strings.Cut(string(theirs), "\x00")
	ready := ""
	ready, l.ours = strings.CutPrefix(rest, mark)
	mine.selective = mine.selective && strings.ContainsRune(ready, readySelective)
	l.long = mine.selective && strings.ContainsRune(ready, readyLong)
	if f, err := strconv.ParseFloat(v, 64); err != nil || f < minVersion {
		return mine, fmt.Errorf("the peer says it is perftest %q: want %.2f or newer", v, minVersion)
	}
	for _, p := range []*int{&mine.cycle, &mine.cacheLine} {
		var b [4]byte
		if err := l.swap(binary.BigEndian.AppendUint32(nil, uint32(*p)), b[:], answerTime); err != nil {
			return mine, err
		}
		theirs := int(binary.BigEndian.Uint32(b[:]))
		if theirs < 1 || theirs > 1<<24 {
			return mine, fmt.Errorf("the peer wants its addresses in steps of %d bytes: want 1 to 16 MiB", theirs)
		}
		*p = max(*p, theirs)
	}
	var mtu [2]byte
	if err := l.swap([]byte{'0' + byte(mine.mtu), 0}, mtu[:], answerTime); err != nil {
		return mine, err
	}
	if m := wire.MTU(mtu[0] - '0'); m.Valid() {
		mine.mtu = min(mine.mtu, m)
	}
	if strings.ContainsRune(ready, readyGame) {
		return mine, l.sameGame(mine.game)
	}
	return mine, nil
}

// sameGame compares the options that must be the same: with others, an end would wait for what the
// other never sends. perftest does not tell its own.
func (l *link) sameGame(mine string) error {
	var theirs [gameLen]byte
	own := append([]byte(mine), make([]byte, gameLen)...)[:gameLen]
	if err := l.swap(own, theirs[:], answerTime); err != nil {
		return err
	}
	if !bytes.Equal(own, theirs[:]) {
		return fmt.Errorf("the peer plays %q, this end %q: want the same at both ends",
			bytes.TrimRight(theirs[:], "\x00"), mine)
	}
	return nil
}

// key says where a queue pair is and what of its memory the peer may use.
type key struct {
	LID uint16 // 0 in RoCE
	// READs and atomics that this end answers at once; the peer has no more of them outstanding
	Outs  uint16
	QPN   uint32
	PSN   wire.PSN
	RKey  uint32
	VAddr uint64
	GID   wire.GID
	SRQN  uint32
}

const keyLen = 108 // the form with a GID, NUL included

// append appends the message.
func (k key) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%04x:%04x:%06x:%06x:%08x:%016x:", k.LID, k.Outs, k.QPN, uint32(k.PSN), k.RKey, k.VAddr)
	for _, b := range k.GID {
		dst = fmt.Appendf(dst, "%02x:", b)
	}
	return fmt.Appendf(dst, "%08x:\x00", k.SRQN)
}

// parseKey reads the peer's message: the widths of the fields are fixed.
func parseKey(msg []byte) (k key, err error) {
	text := string(bytes.TrimSuffix(msg, []byte{0}))
	f := strings.Split(text, ":")
	if len(msg) != keyLen || len(f) != 6+16+1+1 {
		return k, fmt.Errorf("the peer's key message %q has %d fields, want 23: is its end a program of perftest?",
			text, len(f)-1)
	}
	field := func(i, bits int) uint64 {
		v, e := strconv.ParseUint(f[i], 16, bits)
		if e != nil && err == nil {
			err = fmt.Errorf("the peer's key message %q: field %d: %w", text, i+1, e)
		}
		return v
	}
	k = key{LID: uint16(field(0, 16)), Outs: uint16(field(1, 16)), QPN: uint32(field(2, 24)),
		PSN: wire.PSN(field(3, 24)), RKey: uint32(field(4, 32)), VAddr: field(5, 64), SRQN: uint32(field(22, 32))}
	for i := range k.GID {
		k.GID[i] = byte(field(6+i, 8))
	}
	return k, err
}

// keys swaps the keys of all queue pairs, one round each.
func (l *link) keys(mine []key) ([]key, error) {
	theirs := make([]key, len(mine))
	for i := range mine {
		k, err := l.key(mine[i], answerTime)
		if err != nil {
			return nil, err
		}
		theirs[i] = k
	}
	return theirs, nil
}

// key swaps one key. Later rounds with the first key are how perftest waits for the other end.
func (l *link) key(mine key, limit time.Duration) (key, error) {
	if l.cm {
		msg := make([]byte, cmKeyLen)
		if err := l.swap(mine.appendCM(nil), msg, limit); err != nil {
			return key{}, err
		}
		return parseCM(msg)
	}
	msg := make([]byte, keyLen)
	if err := l.swap(mine.append(nil), msg, limit); err != nil {
		return key{}, err
	}
	return parseKey(msg)
}

// figures are one line of a bandwidth test, as an end measured it.
type figures struct {
	Size  uint64
	Iters uint64  // over all queue pairs
	Peak  float64 // in the unit of the end that measured
	Avg   float64
	Rate  float64 // million messages a second

	spent cost // at this end, if it took part; not swapped
}

// report swaps the figures: five rounds of eight bytes.
func (l *link) report(mine figures) (theirs figures, err error) {
	f64 := math.Float64bits
	for _, r := range []struct {
		mine uint64
		set  func(uint64)
	}{
		{mine.Size, func(v uint64) { theirs.Size = v }},
		{mine.Iters, func(v uint64) { theirs.Iters = v }},
		{f64(mine.Peak), func(v uint64) { theirs.Peak = math.Float64frombits(v) }},
		{f64(mine.Avg), func(v uint64) { theirs.Avg = math.Float64frombits(v) }},
		{f64(mine.Rate), func(v uint64) { theirs.Rate = math.Float64frombits(v) }},
	} {
		var b [8]byte
		if err := l.swap(binary.BigEndian.AppendUint64(nil, r.mine), b[:], 0); err != nil {
			return theirs, fmt.Errorf("swap the reports: %w", err)
		}
		r.set(binary.BigEndian.Uint64(b[:]))
	}
	return theirs, nil
}

// finished waits for the peer to finish: a last key.
func (l *link) finished(mine key) error {
	if _, err := l.key(mine, 0); err != nil {
		return fmt.Errorf("wait for the peer to finish: %w", err)
	}
	return nil
}

// goodbye ends the conversation: "done" from both without an answer, which -R does without.
func (l *link) goodbye() error {
	if l.cm {
		return l.Finish(linger)
	}
	l.Send([]byte("done\x00")) // the peer may be gone by now, and need not hear it
	return l.Finish(time.Second)
}

// meet connects to the peer: as a client with a host, otherwise as the server.
func meet(ctx context.Context, host string, port int) (*link, error) {
	var c *oob.Conn
	var err error
	if host == "" {
		c, err = oob.Accept(ctx, port)
	} else {
		c, err = oob.Dial(ctx, host, port)
	}
	if err != nil {
		return nil, err
	}
	return &link{carrier: c, client: host != ""}, nil
}
