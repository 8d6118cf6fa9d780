package inside

// Whether lanes get in each other's way: two devices with lanes, and for each lane a thread on a
// processor of its own that posts at one end and runs both, so that no processor waits for another.
// What is left to share are the devices, and the kernel's network. The lanes have their
// backgrounds: without, each poller would look after all lanes.

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
)

// lanes is how many messages all lanes together move.
func lanes(t Task) (rate float64, err error) {
	if t.QPs < 1 {
		return 0, fmt.Errorf("%d lanes: want 1 or more", t.QPs)
	}
	worlds, err := openLanes(t.QPs)
	defer closeLanes(worlds)
	if err != nil {
		return 0, err
	}
	runtime.GOMAXPROCS(t.QPs) // we were started on one processor
	var (
		ready, done sync.WaitGroup
		start       = make(chan time.Time)
		moved       = make([]int, len(worlds))
		errs        = make([]error, len(worlds))
		took        = make([]time.Duration, len(worlds))
	)
	ready.Add(len(worlds))
	for i, w := range worlds {
		done.Go(func() {
			runtime.LockOSThread()
			errs[i] = errors.Join(pin(i), w.write(1000))
			ready.Done()
			for from := <-start; errs[i] == nil && took[i] < t.Duration; took[i] = time.Since(from) {
				const bursts = 64
				errs[i] = w.write(bursts)
				moved[i] += bursts * burst
			}
		})
	}
	ready.Wait()
	from := time.Now()
	for range worlds {
		start <- from
	}
	done.Wait()
	for i := range worlds {
		rate += float64(moved[i]) / took[i].Seconds() / 1e6
	}
	return rate, errors.Join(errs...)
}

// openLanes opens the devices and connects a queue pair of each lane with one of the same lane at
// the other end, as worlds.
func openLanes(n int) (worlds []*world, err error) {
	var devs [2]*roce.Device
	for i, name := range []string{"udp:127.0.0.1", "udp:127.0.0.2"} {
		if devs[i], err = roce.Open(name, &roce.Config{Lanes: n}); err != nil {
			break
		}
	}
	for range n {
		w := &world{a: side{dev: devs[0]}, b: side{dev: devs[1]}}
		worlds = append(worlds, w)
		if err != nil {
			continue
		}
		if err = errors.Join(w.a.furnish(1, burst), w.b.furnish(1, burst)); err == nil {
			err = w.connect(1, burst)
		}
	}
	return worlds, err
}

// closeLanes closes what openLanes made, as far as it came; the devices last, which the worlds
// share.
func closeLanes(worlds []*world) {
	for _, w := range worlds {
		w.a.clear()
		w.b.clear()
	}
	for _, d := range []*roce.Device{worlds[0].a.dev, worlds[0].b.dev} {
		if d != nil {
			d.Close()
		}
	}
}
