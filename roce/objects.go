package roce

// What exists on a device, so that closing something that is still needed can say by what. Under
// Device.mu.

import (
	"fmt"
	"slices"
	"strings"
)

// object is anything made on a device. Its values are comparable.
type object interface {
	kind() string  // "QP"
	label() string // what tells it from others of its kind, "0x00001a", or ""
	// needs lists what it cannot live without; one may be there twice. It is the same from when the
	// object is added to when it is removed.
	needs() []object
}

// objects are those that exist; and for each how often it is needed, so that closing one of very
// many looks at no other.
type objects struct {
	all   map[object]struct{}
	users map[object]int
}

func newObjects() objects {
	return objects{all: make(map[object]struct{}), users: make(map[object]int)}
}

func (o objects) add(x object) {
	o.all[x] = struct{}{}
	for _, n := range x.needs() {
		o.users[n]++
	}
}

func (o objects) remove(x object) {
	if !o.has(x) {
		return
	}
	for _, n := range x.needs() {
		if o.users[n]--; o.users[n] == 0 {
			delete(o.users, n)
		}
	}
	delete(o.all, x)
}

// has tells whether x exists.
func (o objects) has(x object) bool {
	_, ok := o.all[x]
	return ok
}

// busy returns nil if nothing needs x (anything at all, if x is nil), and otherwise an ErrBusy like
// "PD still has 2 QPs (0x00001a, 0x0003bc), 1 MR".
func (o objects) busy(what string, x object) error {
	if x != nil && o.users[x] == 0 {
		return nil
	}
	labels := make(map[string][]string)
	for user := range o.all {
		if x == nil || slices.Contains(user.needs(), x) {
			labels[user.kind()] = append(labels[user.kind()], user.label())
		}
	}
	if len(labels) == 0 {
		return nil
	}
	var parts []string
	for _, kind := range []string{"QP", "SRQ", "XRCD", "CQ", "CompChannel", "MR", "MW", "AH", "PD"} {
		if l := labels[kind]; len(l) > 0 {
			parts = append(parts, countOf(kind, l))
		}
	}
	return busyError(what + " still has " + strings.Join(parts, ", "))
}

// countOf prints "2 QPs (0x00001a, 0x0003bc)", with a few of the labels at most.
func countOf(kind string, labels []string) string {
	const shown = 4
	text := fmt.Sprintf("%d %s", len(labels), kind)
	if len(labels) > 1 {
		text += "s"
	}
	if labels[0] == "" {
		return text
	}
	slices.Sort(labels)
	if len(labels) > shown {
		labels = append(labels[:shown:shown], "...")
	}
	return text + " (" + strings.Join(labels, ", ") + ")"
}

// busyError is an ErrBusy that says what is in the way and nothing else.
type busyError string

func (b busyError) Error() string        { return string(b) }
func (b busyError) Is(target error) bool { return target == ErrBusy }
