//go:build linux

package raw

// A ping-pong. Stages: the client calls until the server answers; warm-up; trips in blocks, one clock reading a block;
// the mean over all and the median over blocks, both halved. The server answers until it hears the farewell.

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"time"
)

const (
	block    = 100
	warmup   = 1000
	farewell = ^uint64(0)
	patience = 5 * time.Second
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
			return call(l, size, e.Duration)
		}
		return answer(l, size)
	}
}

func call(l link, size int, d time.Duration) (Result, error) {
	var r Result
	trip := uint64(0)
	run := func(n int) error {
		for range n {
			trip++
			if err := volley(l, size, trip); err != nil {
				return err
			}
		}
		return nil
	}
	if err := run(warmup); err != nil {
		return r, err
	}
	blocks := make([]float64, 0, 1<<16)
	start := time.Now()
	last := start
	for last.Sub(start) < d {
		if err := run(block); err != nil {
			return r, err
		}
		now := time.Now()
		blocks = append(blocks, float64(now.Sub(last).Nanoseconds())/block/2/1e3)
		last = now
	}
	trips := len(blocks) * block
	r.Packets, r.Seconds = uint64(trips), last.Sub(start).Seconds()
	r.OneWay = r.Seconds / float64(trips) / 2 * 1e6
	slices.Sort(blocks)
	r.Best, r.Typical = blocks[0], blocks[len(blocks)/2]
	for range farewells {
		binary.LittleEndian.PutUint64(l.segment(0, size), farewell)
		if _, err := l.send(size, size); err != nil {
			return r, err
		}
	}
	return r, nil
}

// volley sends a packet and waits until it is back.
func volley(l link, size int, trip uint64) error {
	binary.LittleEndian.PutUint64(l.segment(0, size), trip)
	if _, err := l.send(size, size); err != nil {
		return err
	}
	var sent time.Time
	for spins := 0; ; spins++ {
		if spins == 1<<12 {
			sent = time.Now()
		}
		back, _, err := l.recv()
		if err != nil {
			return err
		}
		if len(back) >= 8 && binary.LittleEndian.Uint64(back) == trip {
			return nil
		}
		if spins&0xffff == 0xffff && time.Since(sent) > patience {
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
