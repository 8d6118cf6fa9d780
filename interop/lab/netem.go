// Spoiling the network: loss, delay, reordering, duplication, corruption, by the kernel's netem. Both directions are
// shaped in the guest, because the host's kernel often has no sch_netem: packets to the host meet it on eth0's way out;
// packets to the guest are led from eth0's ingress through ifb0, whose way out they meet.
package lab

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

// Netem spoils a direction of the wire until it is called again. Words are those of tc-netem(8), such as "loss 1% delay 1ms reorder 2%";
// an empty string makes the wire whole again.
func (l *Lab) Netem(ctx context.Context, dir Direction, words string) error {
	if dir&^Both != 0 || dir == 0 {
		return fmt.Errorf("netem direction %d: ToGuest, FromGuest or Both is right", dir)
	}
	for _, r := range words {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.%- ", r) {
			return fmt.Errorf("netem %q: %q is not part of tc-netem's words", words, r)
		}
	}
	var script strings.Builder
	if dir&FromGuest != 0 {
		script.WriteString(rootNetem(GuestLink, words))
	}
	if dir&ToGuest != 0 {
		script.WriteString(ingressThroughIFB)
		script.WriteString(rootNetem("ifb0", words))
	}
	out, err := l.Command(ctx, "sh", "-ec", script.String()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("netem %q: %w: %s", words, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// rootNetem sets, or clears, netem on the way out of a link. The limit is well above a window of packets in flight.
func rootNetem(dev, words string) string {
	clearIt := fmt.Sprintf("if tc qdisc show dev %s root | grep -q netem; then tc qdisc del dev %s root; fi\n", dev, dev)
	if strings.TrimSpace(words) == "" {
		return clearIt
	}
	if !strings.Contains(" "+words+" ", " limit ") {
		words = "limit 20000 " + words
	}
	return clearIt + fmt.Sprintf("tc qdisc replace dev %s root netem %s\n", dev, words)
}

// ingressThroughIFB leads what eth0 receives through ifb0, once.
const ingressThroughIFB = `ip link set ifb0 mtu 65521 up
if ! tc qdisc show dev eth0 ingress | grep -q ingress; then
	tc qdisc add dev eth0 handle ffff: ingress
	tc filter add dev eth0 parent ffff: protocol all matchall action mirred egress redirect dev ifb0
fi
`
