package pingpong

// The two out-of-band messages of ibv_{rc,uc,ud}_pingpong: the address, 52 bytes that both ends
// send, and "done".

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/goroce/goroce/wire"
)

// address says where an end's queue pair is. In RoCE the LID is 0.
type address struct {
	LID uint16
	QPN uint32
	PSN wire.PSN
	GID wire.GID
}

const addressLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1 // "lid:qpn:psn:gid" in hexadecimal and a NUL

// done is the client's last word: it has the server's address, and the server may stop listening to
// TCP.
var done = []byte("done\x00")

// append appends the message.
func (a address) append(dst []byte) []byte {
	return fmt.Appendf(dst, "%04x:%06x:%06x:%x\x00", a.LID, a.QPN, uint32(a.PSN), a.GID[:])
}

// parseAddress reads the peer's message.
func parseAddress(msg []byte) (a address, err error) {
	bad := func(what string) (address, error) {
		return address{}, fmt.Errorf("the peer's address message %q: %s; is its end a pingpong program of the verbs?",
			msg, what)
	}
	if len(msg) != addressLen || msg[4] != ':' || msg[11] != ':' || msg[18] != ':' {
		return bad("not lid:qpn:psn:gid")
	}
	field := func(from, to int) uint32 {
		v, e := strconv.ParseUint(string(msg[from:to]), 16, 32)
		if e != nil {
			err = e
		}
		return uint32(v)
	}
	a = address{LID: uint16(field(0, 4)), QPN: field(5, 11), PSN: wire.PSN(field(12, 18))}
	if err != nil {
		return bad(err.Error())
	}
	if _, err := hex.Decode(a.GID[:], msg[19:51]); err != nil {
		return bad(err.Error())
	}
	if a.GID == (wire.GID{}) {
		return a, fmt.Errorf("the peer sent no GID, without which RoCE has no destination: start it with -g and the " +
			"index of its RoCE v2 GID (see ibv_devinfo -v there)")
	}
	return a, nil
}
