package main

import (
	"os"
	"time"
)

// meterEvery is how often the counters are read: a few times in the middle half of a short play,
// and too rarely to cost anything.
const meterEvery = 50 * time.Millisecond

// meter reads the counters until it is stopped.
type meter struct {
	stop     chan struct{}
	readings chan []reading
}

func startMeter() *meter {
	m := &meter{make(chan struct{}), make(chan []reading, 1)}
	go func() {
		var all []reading
		tick := time.NewTicker(meterEvery)
		defer tick.Stop()
		for {
			text, err := os.ReadFile("/proc/stat")
			if r, bad := parseStat(string(text), time.Now()); err == nil && bad == nil {
				all = append(all, r)
			}
			select {
			case <-m.stop:
				m.readings <- all
				return
			case <-tick.C:
			}
		}
	}()
	return m
}

// end stops the meter and returns what it has read.
func (m *meter) end() []reading {
	close(m.stop)
	return <-m.readings
}
