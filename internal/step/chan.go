package step

// Channels. They stay what they are, but nobody waits in them: who cannot send or receive says so,
// and looks again when somebody has used the channel.
//
// Stages: one operation → select → what a select has received.

import "unsafe"

// Case is one of a select.
type Case struct {
	on  Object
	try func() bool
}

// got is what the last select of the task that runs has received.
var got struct {
	value any
	open  bool
}

// R is a case that receives.
func R[T any](c <-chan T) Case {
	return Case{object(c), func() bool {
		select {
		case v, open := <-c:
			got.value, got.open = v, open
			return true
		default:
			return false
		}
	}}
}

// S is a case that sends.
func S[T any](c chan<- T, v T) Case {
	if c != nil && cap(c) == 0 {
		panic("step: sends on a channel without buffer, which is not modelled")
	}
	return Case{*(*Object)(unsafe.Pointer(&c)), func() bool {
		select {
		case c <- v:
			return true
		default:
			return false
		}
	}}
}

// Chan is a channel as an object.
func Chan[T any](c chan T) Object { return object(c) }

func object[T any](c <-chan T) Object { return *(*Object)(unsafe.Pointer(&c)) }

// Select waits for a case that can go on, and returns which; of several the first. With otherwise
// it does not wait, and returns -1.
func Select(otherwise bool, cases ...Case) int {
	var on []Object
	for i := range cases {
		if cases[i].on != nil {
			on = append(on, cases[i].on)
		}
	}
	for {
		for _, obj := range on {
			At(obj, true)
		}
		for i := range cases {
			if cases[i].on != nil && cases[i].try() {
				Touch(cases[i].on)
				return i
			}
		}
		if otherwise {
			return -1
		}
		Block(on...)
	}
}

// Got is what the select has received from c.
func Got[T any](c <-chan T) T {
	v, _ := Got2(c)
	return v
}

// Got2 is Got, and whether the channel is open.
func Got2[T any](<-chan T) (T, bool) {
	v, _ := got.value.(T)
	return v, got.open
}

// Recv receives.
func Recv[T any](c <-chan T) T {
	Select(false, R(c))
	return Got(c)
}

// Recv2 receives, and says whether the channel is open.
func Recv2[T any](c <-chan T) (T, bool) {
	Select(false, R(c))
	return Got2(c)
}

// Send sends.
func Send[T any](c chan<- T, v T) { Select(false, S(c, v)) }

// Close closes.
func Close[T any](c chan T) {
	At(object(c), true)
	close(c)
	Touch(object(c))
}

// TouchChan is Touch of a channel that was used without steps.
func TouchChan[T any](c <-chan T) { Touch(object(c)) }
