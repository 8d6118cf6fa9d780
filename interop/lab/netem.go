package lab

// Spoiling the network: loss, delay, reordering, duplication, corruption, by the kernel's netem.
// Both directions are shaped in the guest, because the host's kernel often has no sch_netem:
// packets to the host meet it on eth0's way out; packets to the guest are led from eth0's ingress
// through ifb0, whose way out they meet.

import (
	"context"
	"fmt"
	"strings"
)

// A Direction of the lab's wire.
type Direction int

// The directions; Both is their union.
const (
	ToGuest   Direction = 1 << iota // packets that rxe0 receives
	FromGuest                       // packets that rxe0 sends
	Both      = ToGuest | FromGuest
)

// Netem spoils a direction of the wire until it is called again. Words are those of tc-netem(8),
// such as "loss 1% delay 1ms reorder 2%"; an empty string makes the wire whole again.
func (l *Lab) Netem(ctx context.Context, dir Direction, words string) error {
	if dir&^Both != 0 || dir == 0 {
		return fmt.Errorf("netem direction %d: ToGuest, FromGuest or Both is right", dir)
	}
	for _, r := range words {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.%- ", r) {
			return fmt.Errorf("netem %q: %q is not part of tc-netem's words", words, r)
		}
	}
	out, err := l.Command(ctx, "sh", "-ec", netemScript(dir, words)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("netem %q: %w: %s", words, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// netemScript first clears the direction, so that nothing of an earlier call stays, and then sets
// the words.
func netemScript(dir Direction, words string) string {
	words = strings.TrimSpace(words)
	if words != "" && !strings.Contains(" "+words+" ", " limit ") {
		words = "limit 20000 " + words // well above the packets that can be in flight
	}
	var script strings.Builder
	if dir&FromGuest != 0 {
		script.WriteString(clearOutgoing)
		if words != "" {
			fmt.Fprintf(&script, "tc qdisc add dev %s root netem %s\n", GuestLink, words)
		}
	}
	if dir&ToGuest != 0 {
		script.WriteString(clearIncoming)
		if words != "" {
			fmt.Fprintf(&script, addIncoming, words)
		}
	}
	return script.String()
}

const clearOutgoing = `if tc qdisc show dev eth0 | grep -q "^qdisc netem"; then tc qdisc del dev eth0 root; fi
`

const clearIncoming = `if tc qdisc show dev eth0 | grep -q "^qdisc ingress"; then tc qdisc del dev eth0 ingress; fi
if tc qdisc show dev ifb0 | grep -q "^qdisc netem"; then tc qdisc del dev ifb0 root; fi
`

const addIncoming = `ip link set ifb0 mtu 65521 up
tc qdisc add dev ifb0 root netem %s
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: protocol all matchall action mirred egress redirect dev ifb0
`
