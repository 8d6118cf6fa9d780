//go:build linux

package raw

// A ping-pong. Stages: the client calls until the server answers; warm-up; exchanges, each timed
// from its sending to its answer, with a gap before each if one is wanted; the sums over all, as
// times of one way. The server answers until it hears the farewell.
//
// In a gap the client sleeps in clock_nanosleep, whose timer slack is set to 1 ns: it then wakes as
// late as the machine's timer and scheduler make it, some microseconds to tens of them, and not 50
// more as by default, nor as late as a timer of Go, which another thread may serve. No gap is part
// of a time.

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	warmup    = 1000
	farewell  = ^uint64(0)
	farewells = 6
	patience  = 5 * time.Second
)

var errNoAnswer = errors.New("the peer does not answer")

func pingpongs(open opener, size int) func(End) (Result, error) {
	return func(e End) (Result, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l, err := open(e)
		if err != nil {
			return Result{}, err
		}
		defer l.close()
		if e.Sends {
			return call(l, size, e)
		}
		return answer(l, size)
	}
}

// sleep is a raw system call that a signal of the Go runtime may interrupt.
func sleep(d time.Duration) {
	var until unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &until)
	until = unix.NsecToTimespec(until.Nano() + d.Nanoseconds())
	for errno := syscall.EINTR; errno == syscall.EINTR; {
		_, _, errno = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&until)), 0, 0, 0)
	}
}

func call(l link, size int, e End) (Result, error) {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return Result{}, os.NewSyscallError("PR_SET_TIMERSLACK", err)
	}
	trip := uint64(0)
	for range warmup {
		trip++
		if err := volley(l, size, trip); err != nil {
			return Result{}, err
		}
	}
	trips := make([]time.Duration, 0, 1<<20)
	start := time.Now()
	for sent := start; sent.Sub(start) < e.Duration; {
		if e.Gap > 0 {
			sleep(e.Gap)
			sent = time.Now()
		}
		trip++
		if err := volley(l, size, trip); err != nil {
			return Result{}, err
		}
		back := time.Now()
		trips = append(trips, back.Sub(sent))
		sent = back
	}
	r := ofTrips(trips, time.Since(start))
	for range farewells {
		binary.LittleEndian.PutUint64(l.segment(0, size), farewell)
		if _, err := l.send(size, size); err != nil {
			return r, err
		}
	}
	return r, nil
}

// ofTrips does the sums over round trips, which it sorts.
func ofTrips(trips []time.Duration, d time.Duration) Result {
	slices.Sort(trips)
	total := time.Duration(0)
	for _, t := range trips {
		total += t
	}
	n := len(trips)
	oneWay := func(t time.Duration) float64 { return float64(t.Nanoseconds()) / 2 / 1e3 }
	return Result{Packets: uint64(n), Seconds: d.Seconds(), Rate: float64(n) / d.Seconds(),
		OneWay: oneWay(total) / float64(n), Best: oneWay(trips[0]), Typical: oneWay(trips[n/2]),
		P99: oneWay(trips[n*99/100])}
}

// volley sends a packet and waits until it is back.
func volley(l link, size int, trip uint64) error {
	binary.LittleEndian.PutUint64(l.segment(0, size), trip)
	if _, err := l.send(size, size); err != nil {
		return err
	}
	var since time.Time
	for looks := 1; ; looks++ {
		back, _, err := l.recv()
		if err != nil {
			return err
		}
		if len(back) >= 8 && binary.LittleEndian.Uint64(back) == trip {
			return nil
		}
		if looks&0x1f != 0 {
			continue
		}
		if now := time.Now(); since.IsZero() {
			since = now
		} else if now.Sub(since) > patience {
			return errNoAnswer
		}
	}
}

func answer(l link, size int) (Result, error) {
	var r Result
	for {
		ping, _, err := l.recv()
		if err != nil {
			return r, err
		}
		if len(ping) < 8 {
			continue
		}
		if binary.LittleEndian.Uint64(ping) == farewell {
			return r, nil
		}
		r.Packets++
		copy(l.segment(0, size), ping)
		if _, err := l.send(size, size); err != nil {
			return r, err
		}
	}
}
